package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ptlaunch/ptlaunch/cmd/ptlaunch/early"
	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/config"
	"github.com/ptlaunch/ptlaunch/internal/handoff"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The agent's own limits. It shares a container's memory with the job, and the kernel may end the whole container when the
// two together exceed it.
const (
	heapLimit = 28 << 20 // soft: of all that the Go runtime manages; the program text comes on top
	gcPercent = 50
	maxProcs  = 2 // one for the loop, one for whatever is sent or written meanwhile
)

func limitSelf() {
	debug.SetMemoryLimit(heapLimit)
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(maxProcs, runtime.GOMAXPROCS(0)))
}

const (
	// farewellReserve is what is kept of --flush-timeout for the way back to the supervisor, which ends an agent that is late.
	farewellReserve = 10 // a tenth
	// unawaitedBudget is how long an agent takes to finish when nobody waits for it. Package early ends it soon after.
	unawaitedBudget = 2 * time.Second
)

// flushBudget is the agent's share of --flush-timeout. A timeout of 0 means that nobody waits, not that nothing is to be kept.
func flushBudget(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return unawaitedBudget
	}
	return timeout - timeout/farewellReserve
}

// runAgent observes a job for a supervisor, from the first line of the hand-off to the farewell.
func runAgent(link *early.AgentLink) int {
	limitSelf()
	defer link.Close()
	first, ok := <-link.Lines()
	if !ok || first.Start == nil {
		return exitFailed // the supervisor is gone before it said what to do
	}
	start := first.Start
	// A setting that cannot be understood was written by another version of this very binary: the defaults have to do.
	cfg, _ := config.FromMap(start.Config)
	text := observe(context.Background(), observation{
		cfg: cfg, command: start.Command, dir: start.Dir, runID: start.RunID, trace: model.Trace(start.Trace),
		start: start.Wall, startMono: start.Mono, generation: start.Generation, version: buildVersion(),
		root: int32(start.Supervisor), job: int32(start.Job), environ: os.Environ(),
		notices:   notices(link.Lines()),
		budget:    flushBudget(cfg.FlushTimeout),
		unstarted: start.StartError,
	})
	if text != "" {
		_ = link.Farewell(text)
	}
	return exitOK
}

// notices translates the supervisor's lines. The goroutine ends with the lines: at EOF, which the end of the supervisor
// brings in any case.
func notices(lines <-chan handoff.Down) <-chan agent.Notice {
	out := make(chan agent.Notice, 16)
	go func() {
		defer close(out)
		exited := false
		for line := range lines {
			switch {
			case line.Exit != nil:
				exited = true
				out <- agent.Notice{Ended: outcomeOf(line.Exit)}
			case line.Stopping != nil:
				out <- agent.Notice{Signal: &model.SignalSeen{Signal: line.Stopping.Signal, At: monotonic()}}
			}
		}
		if !exited {
			out <- agent.Notice{Gone: true}
		}
	}()
	return out
}

func outcomeOf(e *handoff.Exit) *model.Outcome {
	status := &snapshot.ExitStatus{Code: int32(e.Code), Signal: int32(e.Signal), Core: e.Core}
	if e.Signal != 0 {
		status.Code = 0
	}
	return &model.Outcome{End: e.Wall, EndMono: e.Mono, Status: status}
}
