package launcher

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// Exit codes of the supervisor itself, as env(1), timeout(1) and shells use them.
const (
	CodeUsage         = 125 // ptlaunch's own command line is wrong; nothing was started
	CodeNotExecutable = 126 // the command was found but cannot be run
	CodeNotFound      = 127 // the command was not found
)

// Config is what Run needs to know.
type Config struct {
	Command []string // the job, as typed; never empty
	Environ []string // ptlaunch's own environment, byte for byte; the agent gets it without what would change or load code into it
	JobEnv  []string // the job's environment, byte for byte

	// Start is what the agent is told. Run fills in Generation, Supervisor, Job, Command, Dir, Wall, Mono and StartError.
	Start handoff.Start

	// Backoff is the pause before a dead agent's first restart; each further one is four times as long. 0 means a second.
	Backoff time.Duration

	// FlushTimeout is how long the exit may wait for the agent's farewell; an agent that is later is killed. 0: do not wait, and
	// leave the agent to finish by itself.
	FlushTimeout time.Duration
	Quiet        bool // print no farewell, and do not even keep stderr open for it
	NoSubreaper  bool // leave orphans to PID 1
}
