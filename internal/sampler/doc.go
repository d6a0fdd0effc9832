// Package sampler is the live source of snapshots: it finds the processes of a job, reads what the kernel says about them
// and hands out one *snapshot.Snapshot per tick.
//
// It is hop 1 of the flow. One goroutine, the caller of Next, does all reading of /proc; readings are spread over the
// interval and each is stamped with CLOCK_MONOTONIC. Nothing on that path may wait for a slow source: what can hang (a
// driver library, statfs, a watch on a broken file system) runs behind a Latest, whose newest answer is taken as it is.
//
// Everything that is not a process (devices, GPUs, cgroups, the host, mounts, the network) is a Part, handed in by whoever
// composes the agent; package sampler imports none of them. It must not import package model or anything after it:
// it records facts and judges nothing.
//
// A Sampler is not safe for concurrent use, except for SetFast and SetWatch. Latest and Clock are.
package sampler
