// Package procfs reads what Linux says about processes under /proc.
//
// It is the lowest leaf of hop 1: package sampler decides what to read and when, this package knows the files. Reading and
// parsing are apart: each ParseX is a pure function over bytes, fuzzed, and the readers on FS and File do nothing but read
// and hand over. The root is a parameter, so that the same code runs over a fake /proc.
//
// The files of the hot set (stat, io, schedstat) are kept open and read with pread: one system call instead of three, and
// safe against the reuse of pids, because a descriptor of a /proc/PID file is bound to the process and answers ESRCH once
// that process was reaped, even when another one has got its number.
//
// Secrets end here: command lines and environments are redacted where they are read, and nothing returns the raw text.
//
// An FS and the Files opened from it share a buffer and are not safe for concurrent use. The package imports the standard
// library, x/sys/unix and package snapshot for the types it fills; never package sampler.
package procfs
