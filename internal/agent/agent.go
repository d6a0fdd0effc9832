package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Source yields snapshots: live ones from the sampler, recorded ones from a reader. Next blocks until the next tick is due;
// it returns io.EOF when there are no more, and the context's error when that ends first.
type Source interface {
	Next(ctx context.Context) (*snapshot.Snapshot, error)
}

// Sink takes what was found. Consume never blocks and cannot fail the loop: a sink that cannot keep up drops and counts. Its
// last call brings the findings that the end of the run closed, with a frame of Elapsed 0 in which nothing else happened.
// Close delivers what is left within the context's deadline and releases everything; it is called once, after the last
// Consume.
type Sink interface {
	Consume(*model.Frame, *detect.Findings)
	Close(context.Context, model.Outcome) error
}

// Builder makes a frame of each snapshot. model.Builder is one.
type Builder interface {
	Add(*snapshot.Snapshot) *model.Frame
}

// Judge finds checkpoints and stalls. detect.Set is one. Finish closes what is still open at the end of the run.
type Judge interface {
	Observe(*model.Frame) *detect.Findings
	Finish(at time.Duration, outcome model.Outcome) *detect.Findings
}

// Report is the sink that is closed first: its judgement goes into the Outcome that all others get.
type Report interface {
	Sink
	// Conclude writes the report and returns the one-line verdict. It is called once, before any sink is closed.
	Conclude(model.Outcome) (verdict string)
}

// Resumer is a sink that wants to know what an earlier agent of the same run had already consumed: state to take over,
// nothing to deliver again.
type Resumer interface {
	Resume(*model.Frame, *detect.Findings)
}

// Flusher is a sink that can send what it holds now. Flush does not block.
type Flusher interface {
	Flush()
}

// LastSource is a Source that can take one more snapshot at once, without waiting for its tick: the counters of a run that
// has just ended, and a run shorter than one tick.
type LastSource interface {
	Last(ctx context.Context) (*snapshot.Snapshot, error)
}

// Notice is something that happened outside of the snapshots. Exactly one field is set.
type Notice struct {
	// Ended: the job's first process has ended so. The loop takes a last sample and shuts down.
	Ended *model.Outcome
	// Gone: nobody will say how the job ends. The loop goes on until no process of it is left.
	Gone bool
	// Signal has been seen that usually ends a job.
	Signal *model.SignalSeen
}

// Agent observes one run. Its fields are set before Run and not changed later.
type Agent struct {
	Source  Source
	Builder Builder
	Judge   Judge
	Report  Report // nil: no verdict
	Sinks   []Sink // the report is not among them
	Log     *slog.Logger

	// Notices come from the supervisor or the terminal; nil when only the source decides (replay).
	Notices <-chan Notice
	// Over says whether a frame shows the end of the run, for an observer to whom nobody says it: attach. nil: never.
	Over func(*model.Frame) (model.Outcome, bool)
	// Recorded is how the run ended, for a source that is exhausted at its end: a recording. nil: not known.
	Recorded *model.Outcome
	// Resume holds what an earlier agent of the same run recorded; nil for the first. It is read to its end before Source.
	Resume Source
	// Budget is how long Run may take from the end of the job to its return.
	Budget time.Duration
	// Now is CLOCK_MONOTONIC, for the moment at which a run without an exit notice ended.
	Now func() time.Duration
}

// Result is how an agent's work ended.
type Result struct {
	Outcome model.Outcome
	Frames  int
	// SourceHangs: a read had not come back when Run returned. The source is still in use: closing it would be a race.
	SourceHangs bool
	// Undelivered are the errors of the sinks, for a person: one line each.
	Undelivered []string
}
