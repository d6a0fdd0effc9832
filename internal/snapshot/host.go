package snapshot

import "time"

// Host is the machine as a whole.
type Host struct {
	At           time.Duration `json:"at"`
	CPUs         int32         `json:"n"`  // online
	User         time.Duration `json:"us"` // user and nice
	System       time.Duration `json:"sy"` // system, irq, softirq
	Idle         time.Duration `json:"id"`
	IOWait       time.Duration `json:"io"`
	Steal        time.Duration `json:"st"`
	MemTotal     uint64        `json:"mt"` // bytes, as the following
	MemFree      uint64        `json:"mf"`
	MemAvailable uint64        `json:"mav"`
	Buffers      uint64        `json:"bu"`
	Cached       uint64        `json:"ca"`
	Shmem        uint64        `json:"sh"`
	Dirty        uint64        `json:"di"`
	Writeback    uint64        `json:"wb"`
	SwapTotal    uint64        `json:"swt"`
	SwapFree     uint64        `json:"swf"`
	SwapIn       uint64        `json:"swi"` // pages since boot
	SwapOut      uint64        `json:"swo"`
	MajFaults    uint64        `json:"mj"`
	DelayAcct    *bool         `json:"da,omitempty"` // kernel.task_delayacct
}

// Device is a line of /proc/diskstats.
type Device struct {
	Name        string        `json:"dev"` // "sda", "nvme0n1", "dm-0"; "253:0" when the name is not known here
	Major       uint32        `json:"maj"`
	Minor       uint32        `json:"min"`
	At          time.Duration `json:"at"`
	Reads       uint64        `json:"r"` // completed operations
	ReadMerged  uint64        `json:"rm"`
	ReadBytes   uint64        `json:"rb"`
	ReadTime    time.Duration `json:"rt"` // summed over operations
	Writes      uint64        `json:"w"`
	WriteMerged uint64        `json:"wm"`
	WriteBytes  uint64        `json:"wb"`
	WriteTime   time.Duration `json:"wt"`
	InFlight    uint64        `json:"q"`
	IOTime      time.Duration `json:"bt"` // time with at least one operation in flight
	Weighted    time.Duration `json:"wq"` // in-flight operations integrated over time
	// Below are the devices that this one is made of (a partition's disk, a dm's or md's members, a loop's backing device).
	// Bytes of a device whose Below is not empty are counted there as well: sum over the devices with Below empty.
	Below []string `json:"below,omitempty"`
}

// Mount is a file system that the job uses.
type Mount struct {
	ID         int32         `json:"id"` // mount id, as in OpenFile.MountID
	Mountpoint string        `json:"mp"`
	FSType     string        `json:"fs"`
	Source     string        `json:"src"`           // device, server:/export, "overlay", …
	Device     string        `json:"dev,omitempty"` // name of the block device below, "" when there is none
	Remote     bool          `json:"rem,omitempty"` // network or FUSE: device counters do not apply
	At         time.Duration `json:"at"`
	// Space, from statfs behind a deadline; nil when it was not asked or did not answer.
	Space *Space `json:"sp,omitempty"`
}

// Space is the room of a file system, in bytes and files.
type Space struct {
	Total     uint64 `json:"t"`
	Free      uint64 `json:"f"`
	Available uint64 `json:"a"` // for unprivileged users
	Files     uint64 `json:"n"`
	FilesFree uint64 `json:"nf"`
}

// Pressure is one line of a PSI file.
type Pressure struct {
	Scope    string        `json:"sc"`  // "system" or "cgroup"
	Resource string        `json:"res"` // "io", "cpu", "memory"
	Kind     string        `json:"k"`   // "some" or "full"
	Total    time.Duration `json:"t"`
}

// Cgroup is the limits and the use of the job's own control group. Each group of figures is nil when its controller is not
// there, and says which file it came from.
type Cgroup struct {
	Version string        `json:"v"` // "v1", "v2", "hybrid"
	Path    string        `json:"path"`
	At      time.Duration `json:"at"`
	CPU     *CgroupCPU    `json:"cpu,omitempty"`
	Cpuset  *CgroupCpuset `json:"set,omitempty"`
	Memory  *CgroupMemory `json:"mem,omitempty"`
	IO      *CgroupIO     `json:"io,omitempty"`
}

// CgroupCPU is the CPU bandwidth of a cgroup.
type CgroupCPU struct {
	File          string         `json:"f"`
	Limit         *float64       `json:"lim,omitempty"` // CPUs; nil: no limit. The tightest of the group and its ancestors
	Periods       uint64         `json:"n"`
	Throttled     uint64         `json:"nt"`
	ThrottledTime time.Duration  `json:"tt"`
	Usage         *time.Duration `json:"u,omitempty"`
}

// CgroupCpuset is the CPUs a cgroup may use.
type CgroupCpuset struct {
	File string `json:"f"`
	CPUs int32  `json:"n"`
	List string `json:"l"`
}

// CgroupMemory is the memory of a cgroup.
type CgroupMemory struct {
	File   string            `json:"f"`
	Limit  *uint64           `json:"lim,omitempty"` // bytes; nil: no limit
	Usage  uint64            `json:"u"`
	Events map[string]uint64 `json:"ev,omitempty"` // oom_kill, max, high, … (v1: oom_kill, failcnt)
	// InactiveFile is the part of Usage that is page cache the kernel can drop at once.
	InactiveFile *uint64 `json:"ifl,omitempty"`
}

// CgroupIO is the block I/O of a cgroup, by device.
type CgroupIO struct {
	File    string           `json:"f"`
	Devices []CgroupDeviceIO `json:"d,omitempty"`
}

// CgroupDeviceIO is the I/O of a cgroup on one device and its limits.
type CgroupDeviceIO struct {
	Device     string  `json:"dev"` // "8:0"
	ReadBytes  *uint64 `json:"rb,omitempty"`
	WriteBytes *uint64 `json:"wb,omitempty"`
	ReadOps    *uint64 `json:"ro,omitempty"`
	WriteOps   *uint64 `json:"wo,omitempty"`
	ReadBPS    *uint64 `json:"lrb,omitempty"` // limits, bytes and operations per second
	WriteBPS   *uint64 `json:"lwb,omitempty"`
	ReadIOPS   *uint64 `json:"lro,omitempty"`
	WriteIOPS  *uint64 `json:"lwo,omitempty"`
}

// NetIO is the traffic of one network namespace, loopback apart.
type NetIO struct {
	NS        string        `json:"ns"`
	At        time.Duration `json:"at"`
	RxBytes   uint64        `json:"rx"`
	TxBytes   uint64        `json:"tx"`
	LoRxBytes uint64        `json:"lo"`
	// Interfaces are the same by interface, for system.network.io; in ptlaunch's own namespace only.
	Interfaces []Interface `json:"if,omitempty"`
	// Sockets are the job's TCP sockets by state, where it was cheap to count; nil otherwise.
	Sockets map[string]int32 `json:"so,omitempty"`
	// SendQueue and RecvQueue are bytes queued in the job's TCP sockets.
	SendQueue uint64 `json:"sq,omitempty"`
	RecvQueue uint64 `json:"rq,omitempty"`
}

// Interface is the traffic of one network interface.
type Interface struct {
	Name    string `json:"n"`
	RxBytes uint64 `json:"rx"`
	TxBytes uint64 `json:"tx"`
}

// GPU is one device as NVML shows it. Figures come from a mailbox and carry their own time.
type GPU struct {
	UUID  string        `json:"id"`
	Index int32         `json:"ix"`
	Minor int32         `json:"mn"` // N of /dev/nvidiaN, -1 when not known
	Name  string        `json:"name"`
	At    time.Duration `json:"at"`
	Stale bool          `json:"stale,omitempty"` // the driver has not answered since At
	Lost  bool          `json:"lost,omitempty"`
	// All figures are nil when the driver does not give them.
	Utilization    *float64       `json:"ut,omitempty"` // 0..1, mean since the previous reading where the driver keeps samples
	MemUtilization *float64       `json:"mu,omitempty"` // 0..1: share of time the memory was read or written
	MemUsed        *uint64        `json:"m,omitempty"`
	MemTotal       *uint64        `json:"mt,omitempty"`
	PowerW         *float64       `json:"pw,omitempty"`
	PowerLimitW    *float64       `json:"pl,omitempty"`
	TemperatureC   *float64       `json:"tc,omitempty"`
	SMClockMHz     *uint32        `json:"sm,omitempty"`
	MaxSMClockMHz  *uint32        `json:"smx,omitempty"`
	Throttle       *uint64        `json:"th,omitempty"`  // NVML clocks event reasons, bit mask
	PCIeRxBPS      *uint64        `json:"prx,omitempty"` // bytes per second
	PCIeTxBPS      *uint64        `json:"ptx,omitempty"`
	NVLinkRxBytes  *uint64        `json:"nrx,omitempty"` // over all links, cumulative
	NVLinkTxBytes  *uint64        `json:"ntx,omitempty"`
	ECCCorrected   *uint64        `json:"ec,omitempty"`
	ECCUncorrected *uint64        `json:"eu,omitempty"`
	MIG            bool           `json:"mig,omitempty"`
	Parent         string         `json:"par,omitempty"`  // UUID of the device a MIG instance is part of
	Busy           *time.Duration `json:"busy,omitempty"` // utilisation integrated since the start: a counter
}
