package handoff

import "time"

// ReadFD and WriteFD are the descriptors at which the agent finds its ends of the two pipes.
const (
	ReadFD  = 3
	WriteFD = 4
)

// AgentArg0 is the argv[0] of an agent and, as far as the kernel lets us, its comm. It holds neither "ptlaunch" nor anything
// of the command, so that pkill and killall hit what they would hit without us.
const AgentArg0 = "ptl-agent"

// Down is one line from the supervisor to the agent. Exactly one field is set.
type Down struct {
	Start *Start `json:"start,omitempty"`
	Exit  *Exit  `json:"exit,omitempty"`
	// Stopping: a signal that usually ends a job has been seen; a good moment to flush what there is.
	Stopping *Stopping `json:"stopping,omitempty"`
}

// Start says what to observe. A restarted agent gets the same Start with a higher Generation.
type Start struct {
	Version    string            `json:"version"` // empty: the agent is the same binary, and a supervisor does not read its build information
	RunID      string            `json:"run_id"`
	Generation int               `json:"generation"` // 0 for the first agent of the run
	Supervisor int               `json:"supervisor"` // pid; discovery is rooted here
	Job        int               `json:"job"`        // pid of the command, 0 when it could not be started
	Command    []string          `json:"command"`    // raw: the agent redacts it before it goes anywhere
	Dir        string            `json:"dir"`        // working directory of the job
	Wall       time.Time         `json:"wall"`
	Mono       time.Duration     `json:"mono"` // CLOCK_MONOTONIC at the job's start
	Trace      Trace             `json:"trace"`
	Config     map[string]string `json:"config"` // ptlaunch's own settings by flag name
	StartError string            `json:"start_error,omitempty"`
}

// Trace is the run's place in the trace, decided before the job starts because the job gets it as TRACEPARENT.
type Trace struct {
	TraceID  string `json:"trace_id"`
	RootSpan string `json:"root_span"`
	NodeSpan string `json:"node_span"`
	Parent   string `json:"parent,omitempty"`
	State    string `json:"state,omitempty"`
	JobID    string `json:"job_id,omitempty"`
	EmitRoot *bool  `json:"emit_root,omitempty"`
}

// Exit says how the job's first process ended.
type Exit struct {
	Code   int           `json:"code"`
	Signal int           `json:"signal,omitempty"`
	Core   bool          `json:"core,omitempty"`
	Wall   time.Time     `json:"wall"`
	Mono   time.Duration `json:"mono"`
}

// Stopping names the signal.
type Stopping struct {
	Signal int `json:"signal"`
}

// Up is one line from the agent to the supervisor. Exactly one field is set.
type Up struct {
	Ready    *Ready    `json:"ready,omitempty"`
	Signal   *Report   `json:"signal,omitempty"`
	Farewell *Farewell `json:"farewell,omitempty"`
}

// Ready says that the canary listens: from now on its silence means something.
type Ready struct {
	PID int `json:"pid"`
}

// Report says that the canary got a signal.
type Report struct {
	Signal int           `json:"signal"`
	Mono   time.Duration `json:"mono"` // CLOCK_MONOTONIC when it arrived: stale reports must not swallow a later signal
}

// Farewell is the agent's last line: what to print on the terminal.
type Farewell struct {
	Text string `json:"text"`
}
