package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Role is what a process is in a training job.
type Role string

// The roles. They are values of the metric attribute pytorch.role.
const (
	RoleLauncher Role = "launcher"          // torchrun, accelerate, deepspeed, srun, a shell: above the ranks
	RoleRank     Role = "rank"              // trains
	RoleWorker   Role = "dataloader_worker" // loads data for a rank
	RoleHelper   Role = "helper"            // resource_tracker, forkserver, compile worker, shm manager, wandb…
	RoleOther    Role = "other"             // a member of the job that none of the rules knows
)

// Confidence is how sure a judgement is.
type Confidence string

// The confidences, as they are written in spans and reports.
const (
	ConfidenceHigh   Confidence = "high"
	ConfidenceMedium Confidence = "medium"
	ConfidenceLow    Confidence = "low"
)

// None stands for a rank, loader or slot that does not apply or is not known.
const None = -1

// Identity is what a process is and why we think so.
type Identity struct {
	Role       Role
	Reason     string // the rule and the fact it rests on, for a person: "comm is pt_data_worker"
	Confidence Confidence
	// Undecided: the process may still turn out to be a worker. Its I/O is held back from the totals until decided.
	Undecided bool

	Rank      int // global rank, or by order when no RANK is known; None below no rank
	LocalRank int
	// Loader is the 0-based number of the DataLoader within the rank, by first appearance. Slot is the worker's own id in
	// its pool, 0-based by creation. Generation counts the loader's pools. None for anything but a worker.
	Loader, Slot, Generation int
	// OfRank is the process of the rank that it belongs to; the zero ProcID above the ranks.
	OfRank snapshot.ProcID
}

// Frame is one step of the run, derived from two consecutive snapshots.
type Frame struct {
	Seq     uint64
	Wall    time.Time     // wall time of the current snapshot, for timestamps only
	Mono    time.Duration // monotonic time of the current snapshot: every duration is a difference of these
	Elapsed time.Duration // since the previous frame; 0 in the first, which therefore has no rates

	Procs []Proc  // live members, parents before children
	Ended []Ended // members that ended in this step
	Ranks []Rank  // all ranks seen so far, by rank number then generation; ended ones included
	Pools []Pool  // pools that live or that ended in this step; a new one may show up to 2 s late, when its loader is known
	Born  []snapshot.ProcID

	// Totals are monotonic since the start of the run, by role, rank, loader and slot, dead members included and reaped
	// children counted once. Sorted by Series.
	Totals []Total

	Devices  []DeviceRate
	Host     *HostRate
	Cgroup   *CgroupRate
	Pressure []PressureRate
	Network  []NetworkRate

	// GPUUse is which GPUs each live rank uses, in the order of Procs; empty on a machine without GPUs.
	GPUUse []GPUUse

	// Raw is the snapshot this frame was made from: GPUs, mounts, files, file events, fast samples and gaps are used as
	// they were read.
	Raw *snapshot.Snapshot
}

// Proc is one live process in one step.
type Proc struct {
	ID     snapshot.ProcID
	Parent snapshot.ProcID // the zero ProcID when the parent is not a member of the job
	Identity
	Info  *snapshot.ProcInfo
	Raw   *snapshot.Proc
	Start time.Duration // monotonic time of its start, to the clock tick
	// Delta is nil in the first frame that shows the process: a rate needs two readings.
	Delta *Delta
}

// Delta is what a process did between two readings. Every difference is guarded: a counter that went down is a reset and
// yields nil, never a negative number.
type Delta struct {
	Elapsed time.Duration // between this process's own two readings
	User    time.Duration
	System  time.Duration
	MinFlt  uint64
	MajFlt  uint64
	// IO is the process's own share: what it inherited from reaped children is taken out. nil when io could not be read in
	// either reading.
	IO *IODelta
	// Of the main thread; nil when schedstat was not readable. Blocked + Run + RunQueue = Elapsed.
	Main *MainThread
}

// MainThread divides the wall time of a process's main thread.
type MainThread struct {
	Run, RunQueue, Blocked time.Duration
}

// IODelta is the difference of two snapshot.IO.
type IODelta struct {
	RChar, WChar, SyscR, SyscW, ReadBytes, WriteBytes uint64
	// Reaped is true when children were reaped in this step and their share was taken out.
	Reaped bool
}

// Ended is a member that ended.
type Ended struct {
	ID snapshot.ProcID
	Identity
	Info   *snapshot.ProcInfo
	Start  time.Duration
	At     time.Duration
	Status *snapshot.ExitStatus // nil when unknown
	// Orphaned: its rank had ended before it.
	Orphaned bool
}

// Rank is one life of a training process.
type Rank struct {
	ID         snapshot.ProcID
	Rank       int
	LocalRank  int
	Generation int // torchrun's restart count where known, else counted by us
	WorldSize  int // 0 when unknown
	Reason     string
	Start      time.Duration
	StartWall  time.Time
	End        time.Duration // 0 while it lives
	Status     *snapshot.ExitStatus
	Workers    int // live DataLoader workers now
}

// Pool is one generation of a loader's workers.
type Pool struct {
	Rank        int
	OfRank      snapshot.ProcID
	Loader      int
	Generation  int
	Workers     int    // the most that lived at once
	StartMethod string // "fork", "spawn", "forkserver"
	Start       time.Duration
	End         time.Duration // 0 while one of them lives
	ReadBytes   uint64        // rchar of its workers
	StorageRead uint64        // read_bytes of its workers
	Members     []snapshot.ProcID
}

// Series names one series of the process metrics.
type Series struct {
	Role   Role
	Rank   int // None where it does not apply
	Loader int
	Slot   int
}

// Total is the monotonic totals of one series.
type Total struct {
	Series
	Start time.Duration // start of the first process in the series
	Procs int           // live processes in it now

	User, System               time.Duration
	MinFlt, MajFlt             uint64
	RChar, WChar, SyscR, SyscW uint64
	ReadBytes, WriteBytes      uint64
	Blocked, RunQueue, Storage time.Duration // main threads; Storage only with delay accounting
	HasIO, HasSched, HasDelay  bool          // false: never readable, the figures are absent and not zero

	// Levels, now.
	RSS, VSize   uint64
	Threads, FDs int64
	HasFDs       bool
	WorkerStarts uint64 // for a worker series: how many processes have held the slot
}

// DeviceRate is a block device in one step, with what iostat derives.
type DeviceRate struct {
	*snapshot.Device
	Elapsed                 time.Duration
	ReadBPS, WriteBPS       float64 // bytes per second
	ReadIOPS, WriteIOPS     float64
	Busy                    float64       // 0..1; says little about NVMe and RAID, which serve many operations at once
	ReadAwait, WriteAwait   time.Duration // mean time per operation; 0 without operations
	QueueDepth, RequestSize float64       // mean operations in flight; bytes
}

// HostRate is the machine's CPUs in one step, as shares of all online CPUs.
type HostRate struct {
	*snapshot.Host
	UserShare, SystemShare, IdleShare, IOWaitShare, StealShare float64
}

// CgroupRate is the job's cgroup in one step.
type CgroupRate struct {
	*snapshot.Cgroup
	ThrottledShare float64           // throttled time per wall time, summed over CPUs; 0 without a limit
	PeriodsShare   float64           // share of the periods in which the group was throttled
	CPUs           *float64          // CPUs used
	NewEvents      map[string]uint64 // memory events of this step
}

// PressureRate is the share of the step in which tasks stalled.
type PressureRate struct {
	snapshot.Pressure
	Share float64
}

// NetworkRate is a network namespace's traffic in bytes per second, loopback apart.
type NetworkRate struct {
	*snapshot.NetIO
	RxBPS, TxBPS, LoBPS float64
}
