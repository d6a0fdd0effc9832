// Package model turns two consecutive snapshots into one Frame: the process tree with roles, ranks and worker slots, and
// rates that are right although pids are reused, workers come and go, and the kernel books a dead child's I/O to its parent.
//
//	sampler -> *snapshot.Snapshot -> Builder.Add -> *Frame -> detect -> sinks
//
// It is pure: no clock, no I/O, no goroutine. The same snapshots give the same frames, live or from a recording. It imports
// package snapshot and nothing else of ptlaunch.
//
// A Frame and what it points to are immutable once Add has returned them, and may be read from several goroutines. A Builder
// belongs to one goroutine.
package model
