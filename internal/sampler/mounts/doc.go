// Package mounts says on which file systems the job's open files and its shared memory lie: type, source, the block device
// below, whether device counters apply at all, and how much room is left.
//
// Mount tables are read through /proc/PID/mountinfo of the job's own mount namespaces, once per namespace and again now and
// then: what is mounted where in a container is not what is mounted here. Mount ids are unique on the whole machine, so an
// open file's id finds its mount whichever namespace it is in.
//
// Nothing here waits for a file system of the job. Room is asked for by statfs in a mailbox per mount; one that does not
// answer within a deadline yields a gap, and is not asked again before it has answered.
//
// It is a part of the sampler: Reader.Read fills Snapshot.Mounts from Snapshot.Files and Snapshot.Procs. Topology gives
// package blockdev what it needs to place loop devices. It imports packages blockdev, kernfile, latest and snapshot, and
// github.com/prometheus/procfs for the mount table, which is off the hot path; it must not import package sampler. A Reader
// belongs to one goroutine; its mailboxes own theirs.
package mounts
