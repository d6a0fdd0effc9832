package report

import (
	"encoding/json"
	"time"
)

// Schema is the version of report.json. Fields may be added within a version; docs/report.md describes them.
const Schema = "ptlaunch.report/1"

// Document is report.json. Times of day are RFC 3339, durations are seconds, sizes are bytes, shares are 0 to 1. An absent
// field is not known; a zero is a zero.
type Document struct {
	Schema  string  `json:"schema"`
	Run     Run     `json:"run"`
	End     End     `json:"end"`
	Verdict Verdict `json:"verdict"`
	Shape   Shape   `json:"shape"`

	// Time is the time budget: of all ranks together, of each rank, and of the cold first epoch apart from the rest.
	Time        TimeBudget   `json:"time"`
	Findings    []Finding    `json:"findings"`
	Checkpoints Checkpoints  `json:"checkpoints"`
	Stalls      Stalls       `json:"stalls"`
	Roles       []RoleTotals `json:"roles"`
	Exits       []Exit       `json:"exits"`
	// Survivors are processes of the job that were still there when its first process had ended.
	Survivors []Survivor `json:"survivors,omitempty"`
	Signals   []Signal   `json:"signals,omitempty"`
	// OOMKills is how many processes the kernel killed in the job's cgroup because memory ran out; absent when unknown.
	OOMKills *uint64  `json:"oom_kills,omitempty"`
	GPUs     []GPU    `json:"gpus,omitempty"`
	Caveats  []Caveat `json:"caveats"`
	// Blind is what this machine does not show at all, a sentence each, as `ptlaunch doctor` found it when the run began.
	Blind   []string `json:"blind,omitempty"`
	Machine Machine  `json:"machine"`
	Self    Self     `json:"ptlaunch"`
	// Thresholds are the detection thresholds that were in force.
	Thresholds json.RawMessage `json:"thresholds,omitempty"`
}

// Run says what ran.
type Run struct {
	ID       string    `json:"id"`
	TraceID  string    `json:"trace_id"`
	Name     string    `json:"name"`
	Command  []string  `json:"command"` // redacted
	Host     string    `json:"host"`
	Version  string    `json:"ptlaunch_version"`
	JobID    string    `json:"job_id,omitempty"`
	Attached bool      `json:"attached,omitempty"`
	Start    time.Time `json:"start"`
}

// End says how the run ended.
type End struct {
	At          time.Time `json:"at"`
	WallSeconds float64   `json:"wall_seconds"`
	// Known is false when nobody told how the job ended: the supervisor was killed, or the kernel does not tell.
	Known bool `json:"known"`
	// ExitCode is what a shell would call it: 128+n after signal n.
	ExitCode   *int32 `json:"exit_code,omitempty"`
	Signal     int32  `json:"signal,omitempty"`
	StartError string `json:"start_error,omitempty"`
	// Detached: the observation ended and the job went on.
	Detached bool `json:"detached,omitempty"`
	// Words is the end for a person, where there is more to say than the exit code: who died of what.
	Words []string `json:"words,omitempty"`
}

// Verdict is the judgement.
type Verdict struct {
	// Kind is "healthy", "held_back", "failed", "too_short" or "not_seen".
	Kind string `json:"kind"`
	Line string `json:"line"`
}

// The kinds of a verdict.
const (
	KindHealthy  = "healthy"
	KindHeldBack = "held_back"
	KindFailed   = "failed"    // the job failed, whatever else it lost
	KindTooShort = "too_short" // to judge
	KindNotSeen  = "not_seen"  // no rank was found
)

// Shape is the job's size.
type Shape struct {
	Ranks          int      `json:"ranks"`            // the most that lived at once
	RankLives      int      `json:"rank_lives"`       // restarts count again
	WorkersPerRank int      `json:"workers_per_rank"` // the most of any rank at once
	Workers        int      `json:"workers"`          // the most that lived at once
	WorkerStarts   uint64   `json:"worker_starts"`
	WorldSize      int      `json:"world_size,omitempty"`
	Members        int      `json:"processes"` // the most that lived at once
	CPUsAllowed    *float64 `json:"cpus_allowed,omitempty"`
}

// TimeBudget is where the wall time of the ranks went.
type TimeBudget struct {
	RankSeconds float64            `json:"rank_seconds"` // sum over ranks
	Phases      map[string]float64 `json:"phases"`       // seconds, sum over ranks
	Shares      map[string]float64 `json:"shares"`
	Ranks       []RankBudget       `json:"ranks"`
	// Goodput is compute / wall. EstimatedAU is compute / (wall - startup - shutdown - checkpoints), the figure that MLPerf
	// Storage passes at 0.90 (0.70 for CosmoFlow).
	Goodput     *float64 `json:"goodput,omitempty"`
	EstimatedAU *float64 `json:"estimated_au,omitempty"`
	// FirstEpoch is the cold start, where it can be told apart; Steady is the rest, on which the verdict rests.
	FirstEpoch *Epoch `json:"first_epoch,omitempty"`
	Steady     *Epoch `json:"steady,omitempty"`
}

// RankBudget is the time budget of one life of a rank.
type RankBudget struct {
	Rank        int                `json:"rank"`
	Generation  int                `json:"generation"`
	PID         int32              `json:"pid"`
	WallSeconds float64            `json:"wall_seconds"`
	Phases      map[string]float64 `json:"phases"`
}

// Epoch is a part of the run.
type Epoch struct {
	FromSeconds  float64            `json:"from_seconds"` // after the run's start
	ToSeconds    float64            `json:"to_seconds"`
	Basis        string             `json:"basis"` // how it was told apart
	Phases       map[string]float64 `json:"phases"`
	Shares       map[string]float64 `json:"shares"`
	StorageBytes uint64             `json:"storage_read_bytes"`
}

// Finding is one thing that cost time.
type Finding struct {
	Phase       string   `json:"phase"`
	Cause       string   `json:"cause"`
	Second      string   `json:"second_cause,omitempty"` // too close to rule out
	LostSeconds float64  `json:"lost_seconds"`           // sum over ranks
	PerRank     float64  `json:"lost_seconds_per_rank"`
	Share       float64  `json:"share"` // of the ranks' wall time
	Ranks       []int    `json:"ranks"`
	Intervals   int      `json:"intervals"`
	Culprit     string   `json:"culprit,omitempty"`
	Confidence  string   `json:"confidence"`
	Evidence    []string `json:"evidence,omitempty"`
	Caveats     []string `json:"caveats,omitempty"`
	Summary     string   `json:"summary"`
	Advice      string   `json:"advice,omitempty"`
}

// Checkpoints are the writes of model states, grouped into saves of the job.
type Checkpoints struct {
	Saves          int     `json:"saves"`
	Blocking       int     `json:"blocking"`
	Bytes          int64   `json:"bytes"`
	Seconds        float64 `json:"seconds"`         // sum of the saves' durations
	BlockedSeconds float64 `json:"blocked_seconds"` // sum over ranks
	List           []Save  `json:"list"`
	Omitted        int     `json:"omitted,omitempty"` // saves that List leaves out, counted above
}

// Save is one save of the job: the intervals of its ranks.
type Save struct {
	ID                uint64      `json:"id"`
	Start             time.Time   `json:"start"`
	StartSeconds      float64     `json:"start_seconds"` // after the run's start
	Seconds           float64     `json:"seconds"`       // of the longest interval: first byte to last
	Bytes             int64       `json:"bytes"`
	BytesPerSecond    float64     `json:"bytes_per_second"` // of the slowest interval
	Mode              string      `json:"mode"`             // blocking or background
	MaxBlockedSeconds float64     `json:"max_blocked_seconds"`
	Ranks             []RankWrite `json:"ranks"`
}

// RankWrite is one rank's part of a save.
type RankWrite struct {
	Rank           *int     `json:"rank,omitempty"` // absent: written on behalf of a rank that is not known
	PID            int32    `json:"pid"`
	WriterRole     string   `json:"writer_role"`
	Path           string   `json:"path,omitempty"`
	Files          int      `json:"files"`
	Bytes          int64    `json:"bytes"`
	StartSeconds   float64  `json:"start_seconds"`
	Seconds        float64  `json:"seconds"`
	BytesPerSecond float64  `json:"bytes_per_second"`
	BlockedSeconds float64  `json:"blocked_seconds"`
	Background     bool     `json:"background"`
	Durable        *bool    `json:"durable,omitempty"`
	FSType         string   `json:"filesystem,omitempty"`
	Mountpoint     string   `json:"mountpoint,omitempty"`
	Device         string   `json:"device,omitempty"`
	CutShort       string   `json:"cut_short,omitempty"`
	Evidence       []string `json:"evidence,omitempty"`
	Caveats        []string `json:"caveats,omitempty"`
}

// Stalls are the intervals in which ranks lost time.
type Stalls struct {
	Count       int     `json:"count"`
	LostSeconds float64 `json:"lost_seconds"` // sum over ranks
	List        []Stall `json:"list"`
	Omitted     int     `json:"omitted,omitempty"` // the shortest, counted above
}

// Stall is one of them.
type Stall struct {
	ID           uint64    `json:"id"`
	Rank         int       `json:"rank"`
	Start        time.Time `json:"start"`
	StartSeconds float64   `json:"start_seconds"`
	Seconds      float64   `json:"seconds"`
	LostSeconds  float64   `json:"lost_seconds"`
	Phase        string    `json:"phase"`
	Cause        string    `json:"cause"`
	Second       string    `json:"second_cause,omitempty"`
	Culprit      string    `json:"culprit,omitempty"`
	Confidence   string    `json:"confidence"`
	Checkpoint   uint64    `json:"checkpoint,omitempty"`
	Evidence     []string  `json:"evidence,omitempty"`
	Caveats      []string  `json:"caveats,omitempty"`
}

// RoleTotals are the totals of all processes of a role.
type RoleTotals struct {
	Role              string   `json:"role"`
	MaxProcesses      int      `json:"max_processes"`
	UserSeconds       float64  `json:"cpu_user_seconds"`
	SystemSeconds     float64  `json:"cpu_system_seconds"`
	ReadBytes         *uint64  `json:"read_bytes,omitempty"`         // asked for; absent when never readable, as the following
	WriteBytes        *uint64  `json:"write_bytes,omitempty"`        // asked for
	StorageReadBytes  *uint64  `json:"storage_read_bytes,omitempty"` // from a block device
	StorageWriteBytes *uint64  `json:"storage_write_bytes,omitempty"`
	BlockedSeconds    *float64 `json:"main_thread_blocked_seconds,omitempty"`
	RunQueueSeconds   *float64 `json:"main_thread_runqueue_seconds,omitempty"`
	MajorFaults       uint64   `json:"major_faults"`
	MaxRSS            uint64   `json:"max_rss_bytes"`
}

// Exit is the end of a launcher, a rank, or of a worker that did not end well.
type Exit struct {
	Role       string  `json:"role"`
	Rank       *int    `json:"rank,omitempty"`
	Worker     *int    `json:"worker,omitempty"`
	Generation *int    `json:"generation,omitempty"`
	PID        int32   `json:"pid"`
	AtSeconds  float64 `json:"at_seconds"`
	Known      bool    `json:"known"`
	Code       *int32  `json:"code,omitempty"`
	Signal     int32   `json:"signal,omitempty"`
	Orphaned   bool    `json:"orphaned,omitempty"`
	// During is what it was doing: "writing a checkpoint".
	During string `json:"during,omitempty"`
}

// Survivor is a process that outlived the job.
type Survivor struct {
	Role   string `json:"role"`
	Rank   *int   `json:"rank,omitempty"`
	Worker *int   `json:"worker,omitempty"`
	PID    int32  `json:"pid"`
	State  string `json:"state"`
	RSS    uint64 `json:"rss_bytes"`
}

// Signal is a signal that usually ends a job and that reached ptlaunch.
type Signal struct {
	Signal    int     `json:"signal"`
	AtSeconds float64 `json:"at_seconds"`
}

// GPU is one device that ranks used or that was seen.
type GPU struct {
	UUID            string   `json:"uuid"`
	Index           int32    `json:"index"`
	Name            string   `json:"name"`
	MeanUtilization *float64 `json:"mean_utilization,omitempty"`
	MeanPowerW      *float64 `json:"mean_power_watts,omitempty"`
	MaxMemory       *uint64  `json:"max_memory_bytes,omitempty"`
	Lost            bool     `json:"lost,omitempty"`
	StaleSeconds    float64  `json:"stale_seconds,omitempty"`
}

// Caveat is something that could not be seen.
type Caveat struct {
	Source    string `json:"source"`
	Reason    string `json:"reason"`
	Processes int    `json:"processes,omitempty"` // how many it was for, where it is about processes; counted up to a bound
	Ticks     int    `json:"ticks"`
	Detail    string `json:"detail,omitempty"` // of the first time
	Words     string `json:"words"`
}

// Machine is what the figures are to be read against.
type Machine struct {
	CPUs           int32    `json:"cpus,omitempty"`
	MemoryBytes    uint64   `json:"memory_bytes,omitempty"`
	CgroupCPULimit *float64 `json:"cgroup_cpu_limit,omitempty"`
	CgroupMemory   *uint64  `json:"cgroup_memory_limit,omitempty"`
	CPUsUsed       *float64 `json:"cpus_used,omitempty"` // by the job, mean
	// Shm is /dev/shm, through which DataLoader workers hand over their batches; absent when it was not seen.
	Shm *Shm `json:"dev_shm,omitempty"`
}

// Shm is the room in /dev/shm.
type Shm struct {
	SizeBytes uint64 `json:"size_bytes"`
	MostUsed  uint64 `json:"most_used_bytes"`
}

// Self is what ptlaunch cost.
type Self struct {
	CPUSeconds      float64           `json:"cpu_seconds"`
	CPUShare        float64           `json:"cpu_share"` // of one core
	MaxRSS          uint64            `json:"max_rss_bytes"`
	Samples         int               `json:"samples"`
	IntervalSeconds float64           `json:"interval_seconds"` // the longest in force
	MissedTicks     uint64            `json:"missed_ticks"`
	Dropped         map[string]uint64 `json:"dropped,omitempty"`
	UnseenSeconds   float64           `json:"unseen_seconds,omitempty"` // gaps between samples of more than 5 s and 5 intervals
	Agents          int               `json:"agents"`
}
