package snapshot

import "time"

// ProcID names a process. Pids are reused; the pair of pid and start time is not. It is the only key for a process
// anywhere in ptlaunch.
type ProcID struct {
	PID        int32  `json:"p"`
	StartTicks uint64 `json:"t"` // field 22 of /proc/PID/stat: clock ticks after boot
}

// Snapshot is everything that was read in one tick.
type Snapshot struct {
	Seq  uint64        `json:"seq"`
	Wall time.Time     `json:"wall"` // for timestamps only: the wall clock may step
	Mono time.Duration `json:"mono"` // CLOCK_MONOTONIC when the tick began; the base for every rate

	// Infos are the facts of processes seen for the first time, or whose facts changed (an exec, a new title). A reader
	// that joins in the middle finds them all repeated at the head of each recording segment.
	Infos []ProcInfo `json:"infos,omitempty"`
	// Procs are the live members of the job, the supervisor and the agent left out. A zombie that nobody has reaped
	// yet is still here.
	Procs []Proc `json:"procs,omitempty"`
	// Exits are the processes that ended since the previous snapshot.
	Exits []Exit `json:"exits,omitempty"`

	// Fast are the readings of the fast lane (some 10 Hz, on the few processes that can write a checkpoint) since the
	// previous snapshot, oldest first.
	Fast []FastSample `json:"fast,omitempty"`
	// Files are the open regular files of ranks and workers, sampled slowly; nil when this tick did not look.
	Files []OpenFile `json:"files,omitempty"`
	// FileEvents are changes of watched directories, from inotify, since the previous snapshot, oldest first.
	FileEvents []FileEvent `json:"events,omitempty"`

	Host        *Host        `json:"host,omitempty"`
	Cgroup      *Cgroup      `json:"cgroup,omitempty"` // of the job's root process
	Pressure    []Pressure   `json:"psi,omitempty"`
	Devices     []Device     `json:"devs,omitempty"`
	Mounts      []Mount      `json:"mounts,omitempty"` // the mounts that the job's files lie on, /dev/shm included
	GPUs        []GPU        `json:"gpus,omitempty"`
	Network     []NetIO      `json:"net,omitempty"` // per network namespace of the job
	Self        *Self        `json:"self,omitempty"`
	MissedTicks uint64       `json:"missed,omitempty"` // ticks that came too late to be taken, since the start
	Interval    Milliseconds `json:"ivl,omitempty"`    // the interval in force: it stretches when a pass takes too long

	// Gaps are what could not be read in this tick, and why.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Milliseconds is a duration in whole milliseconds, for recordings.
type Milliseconds int64

// Duration converts to a time.Duration.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Proc is one process in one tick: a group per file of /proc/PID. A nil group means that the file could not be read (a Gap
// says why) or was not due in this tick (slow files are read on a slower beat).
type Proc struct {
	ID   ProcID        `json:"id"`
	At   time.Duration `json:"at"` // CLOCK_MONOTONIC when this process was read
	PPID int32         `json:"pp"`

	State      byte          `json:"st"` // R S D T t Z X I, as in /proc/PID/stat
	UTime      time.Duration `json:"ut"` // user CPU time of all its threads, dead ones included; reaped children not
	STime      time.Duration `json:"sy"`
	MinFlt     uint64        `json:"mi"`
	MajFlt     uint64        `json:"ma"`
	NumThreads int32         `json:"th"`
	VSize      uint64        `json:"vs"`           // bytes
	RSS        uint64        `json:"rs"`           // bytes
	BlkIODelay time.Duration `json:"bd,omitempty"` // main thread only, and 0 unless delay accounting was on at fork: see Host.DelayAcct

	IO *IO `json:"io,omitempty"`
	// OwnIO is the sum over its living threads' files (task/*/io): it holds nothing of reaped children, and nothing of threads
	// that have ended. It is there in the tick in which a child disappeared, in the ticks of a write burst, and in turns for
	// processes with children: in every tick when those have few threads (64 together), every few ticks otherwise. nil else,
	// and for a process with more than 512 threads.
	OwnIO  *IO     `json:"own,omitempty"`
	Sched  *Sched  `json:"sc,omitempty"` // of the main thread
	Status *Status `json:"stt,omitempty"`
	Wait   *Wait   `json:"w,omitempty"`
	FDs    *int32  `json:"fds,omitempty"` // number of open descriptors, when it was cheap to know
}

// IO is /proc/PID/io. At wait(2) the kernel adds a child's whole history to its parent: these counters jump there.
type IO struct {
	RChar          uint64 `json:"r"`
	WChar          uint64 `json:"w"`
	SyscR          uint64 `json:"sr"`
	SyscW          uint64 `json:"sw"`
	ReadBytes      uint64 `json:"rb"`
	WriteBytes     uint64 `json:"wb"`
	CancelledWrite uint64 `json:"cw,omitempty"`
}

// Sched is /proc/PID/schedstat: of the leader thread only, whatever the name suggests.
type Sched struct {
	Run    time.Duration `json:"r"` // on a CPU
	Wait   time.Duration `json:"w"` // runnable, waiting for a CPU
	Slices uint64        `json:"n"`
}

// Status is what is used of /proc/PID/status.
type Status struct {
	SigCgt              uint64 `json:"cgt"`
	SigIgn              uint64 `json:"ign"`
	RssAnon             uint64 `json:"an"` // bytes, as the next two
	RssFile             uint64 `json:"fi"`
	RssShmem            uint64 `json:"sh"`
	Swap                uint64 `json:"sw,omitempty"`
	CPUsAllowed         int32  `json:"cpu"` // how many CPUs the affinity mask allows
	VoluntarySwitches   uint64 `json:"vo"`
	InvoluntarySwitches uint64 `json:"in"`
}

// Wait is what the main thread of a process waits in. Syscall needs ptrace attach rights, which many machines deny: nil then.
type Wait struct {
	WChan   string   `json:"ch,omitempty"` // kernel function, "" when running or unknown. Names change between kernels
	Syscall *Syscall `json:"sc,omitempty"`
	// Threads counts all the process's threads by state. Bounded: nil for a process with very many threads.
	Threads map[string]int32 `json:"ts,omitempty"`
}

// Syscall is the blocked system call of a thread, from /proc/PID/syscall.
type Syscall struct {
	Running bool      `json:"run,omitempty"` // not blocked: number and arguments are not known
	Nr      int32     `json:"nr"`            // architecture's number; -1 when blocked outside a system call (a page fault)
	Args    [4]uint64 `json:"a"`
	Poll    string    `json:"poll,omitempty"` // for poll of one descriptor: what that descriptor is, as fd readlink shows it ("pipe:[123]")
}

// ProcInfo are the facts of a process that rarely change. They are read once, redacted where they are read, and read again
// when comm changes or the process execs.
type ProcInfo struct {
	ID      ProcID            `json:"id"`
	PPID    int32             `json:"pp"` // the parent when first seen, before any re-parenting
	PGID    int32             `json:"pg,omitempty"`
	SID     int32             `json:"sid,omitempty"`
	Comm    string            `json:"comm"`
	Cmdline []string          `json:"cmd,omitempty"` // redacted
	Exe     string            `json:"exe,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // allow-listed variables only, redacted
	Cgroup  string            `json:"cg,omitempty"`
	Threads []string          `json:"thr,omitempty"`   // distinct thread names, bounded
	Pipes   []string          `json:"pipes,omitempty"` // "pipe:[inode]" held for both reading and writing, bounded
	NVidia  []int32           `json:"nv,omitempty"`    // minor numbers of open /dev/nvidiaN
	NetNS   string            `json:"net,omitempty"`   // link text of ns/net
	CPUs    string            `json:"cpus,omitempty"`  // Cpus_allowed_list
	UID     int32             `json:"uid"`
}

// Exit is the end of a process.
type Exit struct {
	ID ProcID        `json:"id"`
	At time.Duration `json:"at"`           // CLOCK_MONOTONIC at which the end was noticed
	IO *IO           `json:"io,omitempty"` // the final totals, when the zombie could still be read
	// CPU times as last read, or final when the zombie could be read.
	UTime  time.Duration `json:"ut"`
	STime  time.Duration `json:"sy"`
	Status *ExitStatus   `json:"st,omitempty"` // nil when the kernel did not tell (needs pidfd info, Linux 6.15, or a zombie)
}

// ExitStatus says how a process ended: by exit (Signal 0) or by a signal.
type ExitStatus struct {
	Code   int32 `json:"c"`
	Signal int32 `json:"s,omitempty"`
	Core   bool  `json:"core,omitempty"`
}

// FastSample is one reading of the fast lane.
type FastSample struct {
	ID    ProcID        `json:"id"`
	At    time.Duration `json:"at"`
	State byte          `json:"st"`
	IO    *IO           `json:"io,omitempty"`
	Sched *Sched        `json:"sc,omitempty"`
	Wait  *Wait         `json:"w,omitempty"`
	UTime time.Duration `json:"ut"`
	STime time.Duration `json:"sy"`
}

// OpenFile is one open regular file of a process.
type OpenFile struct {
	ID      ProcID        `json:"id"`
	At      time.Duration `json:"at"`
	FD      int32         `json:"fd"`
	Path    string        `json:"path"`
	Flags   uint32        `json:"fl"` // octal flags of fdinfo (O_WRONLY, O_APPEND, …)
	Pos     int64         `json:"pos"`
	MountID int32         `json:"mnt"` // of fdinfo: joins Mount.ID
}

// FileEvent is one inotify event on a watched directory.
type FileEvent struct {
	At   time.Duration `json:"at"` // CLOCK_MONOTONIC when it was read, within a few ms of when it happened
	Kind FileEventKind `json:"k"`
	Path string        `json:"path"`
	Size int64         `json:"size"` // bytes at that moment, -1 when it could not be said
}

// FileEventKind is what happened to a file.
type FileEventKind string

// The events that bound a checkpoint write.
const (
	FileCreated     FileEventKind = "create"
	FileClosedWrite FileEventKind = "close"
	FileMovedTo     FileEventKind = "moved"
)

// Gap is something that could not be read.
type Gap struct {
	Source string    `json:"src"` // "procfs.io", "cgroup.cpu", "psi.io", "nvml", …
	Reason GapReason `json:"why"`
	ID     *ProcID   `json:"id,omitempty"` // for one process; nil for a source as a whole
	Detail string    `json:"d,omitempty"`  // one line for a person: the path and the errno
}

// GapReason is why something could not be read.
type GapReason string

// The reasons for a gap. They are attribute values of ptlaunch.source.unavailable (error.type).
const (
	GapGone        GapReason = "gone"
	GapDenied      GapReason = "denied"
	GapUnsupported GapReason = "unsupported"
	GapTimeout     GapReason = "timeout"
	GapMalformed   GapReason = "malformed"
	GapTruncated   GapReason = "truncated" // bounded: there was more than is read
)

// Self is what ptlaunch's own agent costs.
type Self struct {
	CPU     time.Duration     `json:"cpu"`
	RSS     uint64            `json:"rss"`
	Sample  time.Duration     `json:"took"`           // CPU-blocking time of the previous pass
	Dropped map[string]uint64 `json:"drop,omitempty"` // items dropped so far, by what
}
