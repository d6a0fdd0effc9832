// Package blockdev reads what the kernel counts of block devices (/proc/diskstats), and how they are stacked: a partition on
// its disk, a device mapper or md device on its members, a loop device on the disk that holds its file.
//
// The same bytes are counted at every level of a stack. Device.Below names the level beneath, so that a sum over the
// devices whose Below is empty counts each byte once.
//
// It is a part of the sampler: Reader.Read fills Snapshot.Devices. Topology and Namer answer the same questions for package
// mounts. Nothing here touches a file system of the job: a loop's backing file is looked up by its name in the mount table.
// It imports packages kernfile and snapshot; it must not import package sampler. A Reader belongs to one goroutine.
package blockdev
