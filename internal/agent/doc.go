// Package agent is the process that observes a job: the loop that takes snapshots, makes frames of them, judges them, and
// hands both to the sinks; and the ordered shutdown.
//
//	Source.Next -> model.Builder.Add -> detect.Set.Observe -> each Sink.Consume
//
// It knows no sink and no source by name: package cmd/ptlaunch composes them, once, for run, attach and replay alike.
//
// Run's goroutine owns everything but the source, which one other goroutine reads; Run waits for that one, within bounds: a
// read of a stuck process may hang, and the job's end must not. It imports snapshot, model and detect, and no package that
// reads or sends anything.
package agent
