// Package agent is the process that observes a job: the loop that takes snapshots, makes frames of them, judges them, and
// hands both to the sinks; and the ordered shutdown.
//
//	Source.Next -> model.Builder.Add -> detect.Set.Observe -> each Sink.Consume
//
// It knows no sink and no source by name: package cmd/ptlaunch composes them, once, for run, attach and replay alike.
package agent
