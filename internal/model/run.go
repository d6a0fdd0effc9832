package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Run is what does not change during a run. It is the head of the run folder's manifest and the source of the OpenTelemetry
// resource.
type Run struct {
	ID        string   // 32 hex digits
	Name      string   // base name of the training script, else of the command
	Command   []string // redacted
	Version   string   // of ptlaunch
	Host      string
	Attached  bool            // by `ptlaunch attach`: the job was not started by us
	Root      snapshot.ProcID // the job's first process
	Start     time.Time
	StartMono time.Duration
	Trace     Trace
	Env       map[string]string // allow-listed variables of the launch environment, redacted: SLURM_*, K8S_*, …
	Dir       string            // the run folder, "" with --no-record
}

// Trace is the run's place in the trace.
type Trace struct {
	TraceID  string // 32 hex digits
	RootSpan string // 16 hex digits: the span id of training.run
	NodeSpan string // 16 hex digits: the span id of training.node
	Parent   string // 16 hex digits: the incoming context's span, "" when there is none
	State    string // tracestate as it came
	JobID    string // the id that all nodes share, "" when none was found
	// EmitRoot says whether this node exports training.run: with a shared job id only node 0 does. nil: not known yet, the
	// node that sees RANK 0 does.
	EmitRoot *bool
}

// Outcome is how a run ended.
type Outcome struct {
	End     time.Time
	EndMono time.Duration
	// Status is nil when the end is not known: the supervisor was killed, or the kernel did not tell.
	Status *snapshot.ExitStatus
	// StartError is why the command could not be started, "" when it was.
	StartError string
	// Verdict is the report's one-line judgement, "" when there is none.
	Verdict string
	// Detached: the observation ended and the job goes on (attach, interrupted).
	Detached bool
	// Signals are those that usually end a job and that reached ptlaunch while it ran, oldest first.
	Signals []SignalSeen
}

// SignalSeen is a signal that reached ptlaunch.
type SignalSeen struct {
	Signal int
	At     time.Duration // monotonic
}
