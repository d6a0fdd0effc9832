// Package detect judges a run: where each rank's wall time went, when a checkpoint was written, when a rank stalled, and why.
//
//	model.Frame -> Set.Observe -> *Findings -> sinks
//
// Detectors are pure: no clock, no I/O, no goroutine, and everything they know comes from Frames. That is what lets a
// recorded run be judged again by tomorrow's rules. It imports packages model and snapshot and nothing else of ptlaunch.
//
// One frame goes through four steps, in this order:
//
//	accounts.read       the ranks' main threads become slices of run, run-queue and blocked time     timeline.go, startup.go, wait.go
//	checkpoints.Observe bursts of writing and files become checkpoints                               checkpoint*.go
//	accounts.book       slices old enough are divided into phases                                    phases.go, peers.go, gpu.go
//	stalls.observe      booked losses open and close stalls, whose causes are judged                 stall.go, crew.go, ambient.go, cause*.go
//
// What the kernel counts (run, run-queue and so blocked time of a main thread) is integrated and exact at any rate. What is
// only sampled (states, system calls, wait channels) attributes the blocked part and nothing else. System calls are often
// denied; every judgement exists without them, less sure. All figures that judgements turn on are in thresholds.go.
//
// The rules follow from mechanisms: a cause is named when what must be true in the kernel if it is the cause was seen, and
// "unknown" is said rather than something wrong. Only exposed time counts, and blame goes to the rank that is missing from a
// collective, not to those that wait in it.
//
// A Set belongs to one goroutine; the Findings it returns are immutable. Its memory is bounded by the number of live
// processes, not by the length of the run.
package detect
