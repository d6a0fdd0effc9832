// Package detect judges a run: where each rank's wall time went, when a checkpoint was written, when a rank stalled, and why.
//
//	model.Frame -> Set.Observe -> *Findings -> sinks
//
// Detectors are pure: no clock, no I/O, no goroutine, and everything they know comes from Frames. That is what lets a
// recorded run be judged again by tomorrow's rules. It imports packages model and snapshot and nothing else of ptlaunch.
//
// A Set belongs to one goroutine; the Findings it returns are immutable.
package detect
