// Package model turns two consecutive snapshots into one Frame: the process tree with roles, ranks and worker slots, and
// rates that are right although pids are reused, workers come and go, and the kernel books a dead child's I/O to its parent.
//
//	sampler -> *snapshot.Snapshot -> Builder.Add -> *Frame -> detect -> sinks
//
// Three things are hard, and have a file each. Roles (roles.go) are a table of rules, the first that matches wins; they are judged
// again in every step, because the signs of a DataLoader worker come half a second after its birth, and later with spawn.
// Pools (pools.go) give workers the slots and loaders that stay when the pids change. Accounts (account.go) take what the kernel
// adds to a parent at wait(2) out again, so that every byte is counted once and no sum goes down: I/O of a process that is not
// decided yet is held back, and booked once.
//
// It is pure: no clock, no I/O, no goroutine. The same snapshots give the same frames, live or from a recording. It imports
// package snapshot and nothing else of ptlaunch.
//
// A Frame and what it points to are immutable once Add has returned them, and may be read from several goroutines. A Builder
// belongs to one goroutine.
package model
