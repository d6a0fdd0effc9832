package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Phase is what a rank's wall time is spent on. The phases of a rank sum to its wall time.
type Phase string

// The phases: values of the attribute pytorch.phase.
const (
	PhaseStartup    Phase = "startup"
	PhaseCompute    Phase = "compute"
	PhaseDataWait   Phase = "data_wait"
	PhaseCheckpoint Phase = "checkpoint"
	PhasePeerWait   Phase = "peer_wait"
	PhaseOtherWait  Phase = "other_wait"
	PhaseShutdown   Phase = "shutdown"
)

// Phases lists all phases in the order in which they are shown.
var Phases = [...]Phase{PhaseStartup, PhaseCompute, PhaseDataWait, PhaseCheckpoint, PhasePeerWait, PhaseOtherWait, PhaseShutdown}

// Cause is why a rank stalled: the closed list of the attribute pytorch.stall.cause.
type Cause string

// The causes.
const (
	CauseStorageThroughput Cause = "storage_throughput"
	CauseStorageLatency    Cause = "storage_latency"
	CauseNetwork           Cause = "network"
	CauseTooFewWorkers     Cause = "too_few_workers"
	CauseCPULimit          Cause = "cpu_limit"
	CauseWorkerCPU         Cause = "worker_cpu"
	CauseNoWorkers         Cause = "no_workers"
	CauseSlowWorker        Cause = "slow_worker"
	CauseWorkerStartup     Cause = "worker_startup"
	CauseMemory            Cause = "memory"
	CauseMainThread        Cause = "main_thread"
	CauseCheckpoint        Cause = "checkpoint"
	CausePeer              Cause = "peer"
	CauseOutputBlocked     Cause = "output_blocked"
	CauseGPUThrottled      Cause = "gpu_throttled"
	CauseGPULost           Cause = "gpu_lost"
	CauseUnknown           Cause = "unknown"
)

// Findings is what one frame told.
type Findings struct {
	Events []Event
	// Budgets are the phases of every rank so far, ended ranks included.
	Budgets []Budget
}

// Budget is where a rank's wall time has gone so far, in monotonic totals per phase.
type Budget struct {
	Rank   int
	OfRank snapshot.ProcID
	Time   map[Phase]time.Duration
}

// EventKind is what happened to an interval.
type EventKind string

// An interval is opened once, updated any number of times, and closed once.
const (
	Opened  EventKind = "opened"
	Updated EventKind = "updated"
	Closed  EventKind = "closed"
)

// Event is a change of one interval. Exactly one of Checkpoint and Stall is set; it is the whole interval as known now, not
// a difference.
type Event struct {
	Kind       EventKind
	At         time.Duration // monotonic time of the frame that told it
	Checkpoint *Checkpoint
	Stall      *Stall
}

// Interval is what checkpoints and stalls have in common. Times are monotonic; Frame.Wall - Frame.Mono turns them into
// wall time.
type Interval struct {
	ID         uint64 // the same from opened to closed, unique in the run
	Rank       int    // model.None: written by the launcher for a rank that is not known
	OfRank     snapshot.ProcID
	Start, End time.Duration // End is the last moment known while it is open
	Evidence   []string
	Caveats    []string
}

// Checkpoint is one rank's write of a model state.
type Checkpoint struct {
	Interval
	Save       uint64 // groups the ranks' intervals of one save of the job
	Writer     snapshot.ProcID
	WriterRole model.Role
	Path       string // the main file, or the directory when there are many; "" when no file was seen
	Files      int
	Size       int64 // bytes, logical
	Background bool  // it did not stop its rank
	Blocked    time.Duration
	// Durable is nil when neither a sync nor its absence was seen.
	Durable                    *bool
	FSType, Mountpoint, Device string
	// CutShort says why the write did not complete, "" when it did.
	CutShort string
	// Facts are the figures behind the evidence, by the keys Fact…; an absent key was not measured.
	Facts map[string]float64
}

// Stall is an interval in which a rank lost time.
type Stall struct {
	Interval
	Phase      Phase
	Cause      Cause
	Second     Cause // a candidate too close to rule out, "" when there is none
	Lost       time.Duration
	Culprit    string // "worker 3", "rank 5", "/mnt/data (nfs4)"
	Confidence model.Confidence
	Checkpoint uint64 // ID of the checkpoint that is the cause, 0 otherwise
	// Facts are the figures behind the evidence, by the keys Fact…; an absent key was not measured. Advice rests on them.
	Facts map[string]float64
}
