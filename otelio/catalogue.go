package otelio

// Kind is what a metric's values mean.
type Kind string

// The kinds. Counters only grow; levels may be added up over their attributes; gauges may not.
const (
	Counter   Kind = "counter"
	Level     Kind = "updowncounter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one entry of the catalogue. Its name, kind, unit and attributes are a public interface: dashboards and alert
// rules rest on them, so entries are added and never renamed.
type Metric struct {
	Name, Unit string
	Kind       Kind
	// Attributes beside those of the process series. Their order is that of the values in labels.
	Attributes  []string
	Description string
	// Process: it also carries pytorch.role and, where they apply, pytorch.rank, pytorch.dataloader.id and
	// pytorch.worker.slot. Rank: it also carries pytorch.rank.
	Process, Rank bool

	float   bool // the value is a fraction; all others are whole numbers
	seconds bool // kept in nanoseconds, published in seconds
	reset   bool // a kernel's counter: going down means that it began again
}

// metricID is the index of a metric in the catalogue.
type metricID int

const (
	mCPUTime metricID = iota
	mMemoryUsage
	mMemoryVirtual
	mDiskIO
	mPagingFaults
	mThreads
	mFDs
	mProcessIO
	mProcessOps
	mWaitTime
	mProcessCount
	mRankTime
	mStallTime
	mStallDuration
	mCheckpointDuration
	mCheckpointSize
	mWorkers
	mWorkerStarts
	mSysDiskIO
	mSysDiskOps
	mSysDiskOpTime
	mSysDiskMerged
	mSysDiskIOTime
	mSysCPUTime
	mSysMemory
	mSysNetIO
	mPressure
	mCgroupCPULimit
	mCgroupThrottled
	mCgroupMemLimit
	mCgroupMemUsage
	mCgroupMemEvents
	mCgroupDiskIO
	mFilesystem
	mGPUUtil
	mGPUMemUsage
	mGPUMemLimit
	mPower
	mTemperature
	mGPUIO
	mHwErrors
	mSelfCPU
	mSelfMemory
	mSelfSample
	mSelfDropped
	mSelfMissed
	mSourceUnavailable
	numMetrics
)

// Attribute names that several metrics share.
const (
	aDirection = "disk.io.direction"
	aDevice    = "system.device"
	aHwID      = "hw.id"
	aHwName    = "hw.name"
	aHwType    = "hw.type"
)

// Catalogue returns every metric that ptlaunch publishes, in the order of docs/telemetry.md.
func Catalogue() []Metric {
	c := make([]Metric, numMetrics)
	copy(c, catalogue[:])
	return c
}

// catalogue is never changed.
var catalogue = [numMetrics]Metric{
	mCPUTime:       {Name: "process.cpu.time", Kind: Counter, Unit: "s", Attributes: []string{"cpu.mode"}, Process: true, seconds: true, Description: "CPU time, ended processes included."},
	mMemoryUsage:   {Name: "process.memory.usage", Kind: Level, Unit: "By", Process: true, Description: "Resident memory. Pages that processes share are counted in each."},
	mMemoryVirtual: {Name: "process.memory.virtual", Kind: Level, Unit: "By", Process: true, Description: "Virtual memory."},
	mDiskIO:        {Name: "process.disk.io", Kind: Counter, Unit: "By", Attributes: []string{aDirection}, Process: true, Description: "Bytes fetched from or sent to storage. Not counted by the kernel on FUSE, NFS reads, ZFS and tmpfs."},
	mPagingFaults:  {Name: "process.paging.faults", Kind: Counter, Unit: "{fault}", Attributes: []string{"system.paging.fault.type"}, Process: true, Description: "Page faults."},
	mThreads:       {Name: "process.thread.count", Kind: Level, Unit: "{thread}", Process: true, Description: "Threads."},
	mFDs:           {Name: "process.unix.file_descriptor.count", Kind: Level, Unit: "{file_descriptor}", Process: true, Description: "Open file descriptors."},
	mProcessIO:     {Name: "pytorch.process.io", Kind: Counter, Unit: "By", Attributes: []string{aDirection}, Process: true, Description: "Bytes that the program asked for with read and write calls, from the page cache, pipes and files alike. Blind to mapped files and io_uring."},
	mProcessOps:    {Name: "pytorch.process.io.operations", Kind: Counter, Unit: "{operation}", Attributes: []string{aDirection}, Process: true, Description: "Read and write calls."},
	mWaitTime:      {Name: "pytorch.process.wait.time", Kind: Counter, Unit: "s", Attributes: []string{"pytorch.wait.kind"}, Process: true, seconds: true, Description: "Time in which main threads did not run: blocked, runqueue (runnable, waiting for a CPU), storage (a part of blocked, where kernel.task_delayacct is on)."},
	mProcessCount:  {Name: "pytorch.process.count", Kind: Level, Unit: "{process}", Attributes: []string{"pytorch.role"}, Description: "Live processes of the job."},

	mRankTime:           {Name: "pytorch.rank.time", Kind: Counter, Unit: "s", Attributes: []string{"pytorch.phase"}, Rank: true, seconds: true, Description: "Wall time of a rank by what it was spent on; the sum over the phases is its wall time."},
	mStallTime:          {Name: "pytorch.stall.time", Kind: Counter, Unit: "s", Attributes: []string{"pytorch.stall.cause"}, Rank: true, seconds: true, Description: "Time that a rank lost, by cause."},
	mStallDuration:      {Name: "pytorch.stall.duration", Kind: Histogram, Unit: "s", Attributes: []string{"pytorch.stall.cause"}, Description: "Length of stalls that have ended; exemplars point to their spans."},
	mCheckpointDuration: {Name: "pytorch.checkpoint.duration", Kind: Histogram, Unit: "s", Attributes: []string{"pytorch.checkpoint.mode"}, Description: "Length of checkpoint writes; exemplars point to their spans."},
	mCheckpointSize:     {Name: "pytorch.checkpoint.size", Kind: Histogram, Unit: "By", Attributes: []string{"pytorch.checkpoint.mode"}, Description: "Logical size of checkpoint writes; exemplars point to their spans."},
	mWorkers:            {Name: "pytorch.dataloader.workers", Kind: Level, Unit: "{worker}", Attributes: []string{"pytorch.dataloader.id"}, Rank: true, Description: "Live DataLoader workers."},
	mWorkerStarts:       {Name: "pytorch.dataloader.worker.starts", Kind: Counter, Unit: "{worker}", Attributes: []string{"pytorch.dataloader.id"}, Rank: true, Description: "DataLoader workers started so far: shows workers that come and go without new series."},

	mSysDiskIO:     {Name: "system.disk.io", Kind: Counter, Unit: "By", Attributes: []string{aDevice, aDirection}, reset: true, Description: "Bytes of a block device. Devices made of others (partitions, LVM, md, loop) are left out, so that a sum counts nothing twice."},
	mSysDiskOps:    {Name: "system.disk.operations", Kind: Counter, Unit: "{operation}", Attributes: []string{aDevice, aDirection}, reset: true, Description: "Completed operations of a block device."},
	mSysDiskOpTime: {Name: "system.disk.operation_time", Kind: Counter, Unit: "s", Attributes: []string{aDevice, aDirection}, reset: true, seconds: true, Description: "Time of all operations, summed: divided by their number it is the mean latency."},
	mSysDiskMerged: {Name: "system.disk.merged", Kind: Counter, Unit: "{operation}", Attributes: []string{aDevice, aDirection}, reset: true, Description: "Operations merged into others before they reached the device."},
	mSysDiskIOTime: {Name: "system.disk.io_time", Kind: Counter, Unit: "s", Attributes: []string{aDevice}, reset: true, seconds: true, Description: "Time with at least one operation in flight. Says little about NVMe and RAID, which serve many at once."},
	mSysCPUTime:    {Name: "system.cpu.time", Kind: Counter, Unit: "s", Attributes: []string{"cpu.mode"}, reset: true, seconds: true, Description: "CPU time of the machine, summed over CPUs."},
	mSysMemory:     {Name: "system.memory.usage", Kind: Level, Unit: "By", Attributes: []string{"system.memory.state"}, Description: "Memory of the machine by state; the states sum to all of it."},
	mSysNetIO:      {Name: "system.network.io", Kind: Counter, Unit: "By", Attributes: []string{"network.interface.name", "network.io.direction"}, reset: true, Description: "Bytes of a network interface, loopback left out."},

	mPressure:        {Name: "ptlaunch.pressure.time", Kind: Counter, Unit: "s", Attributes: []string{"ptlaunch.pressure.resource", "ptlaunch.pressure.kind", "ptlaunch.pressure.scope"}, reset: true, seconds: true, Description: "Time in which some or all tasks stalled for a resource (PSI)."},
	mCgroupCPULimit:  {Name: "ptlaunch.cgroup.cpu.limit", Kind: Level, Unit: "{cpu}", float: true, Description: "CPU quota of the job's control group; absent without one."},
	mCgroupThrottled: {Name: "ptlaunch.cgroup.cpu.throttled.time", Kind: Counter, Unit: "s", reset: true, seconds: true, Description: "Time in which the quota held tasks back, summed over CPUs."},
	mCgroupMemLimit:  {Name: "ptlaunch.cgroup.memory.limit", Kind: Level, Unit: "By", Description: "Memory limit of the job's control group; absent without one."},
	mCgroupMemUsage:  {Name: "ptlaunch.cgroup.memory.usage", Kind: Level, Unit: "By", Description: "Memory of the job's control group, page cache included."},
	mCgroupMemEvents: {Name: "ptlaunch.cgroup.memory.events", Kind: Counter, Unit: "{event}", Attributes: []string{"ptlaunch.memory.event"}, reset: true, Description: "Memory events of the control group: max, high, oom_kill and the like."},
	mCgroupDiskIO:    {Name: "ptlaunch.cgroup.disk.io", Kind: Counter, Unit: "By", Attributes: []string{aDevice, aDirection}, reset: true, Description: "Bytes of the control group on a block device."},
	mFilesystem:      {Name: "system.filesystem.usage", Kind: Level, Unit: "By", Attributes: []string{"system.filesystem.mountpoint", "system.filesystem.type", "system.filesystem.state"}, Description: "Room on the mounts that the job uses, /dev/shm included."},

	mGPUUtil:     {Name: "hw.gpu.utilization", Kind: Gauge, Unit: "1", Attributes: []string{aHwID, aHwName, aHwType}, Rank: true, float: true, Description: "Share of time in which a kernel ran. A collective that waits counts as running."},
	mGPUMemUsage: {Name: "hw.gpu.memory.usage", Kind: Level, Unit: "By", Attributes: []string{aHwID, aHwName, aHwType}, Rank: true, Description: "GPU memory in use."},
	mGPUMemLimit: {Name: "hw.gpu.memory.limit", Kind: Level, Unit: "By", Attributes: []string{aHwID, aHwName, aHwType}, Rank: true, Description: "GPU memory."},
	mPower:       {Name: "hw.power", Kind: Gauge, Unit: "W", Attributes: []string{aHwID, aHwName, aHwType}, Rank: true, float: true, Description: "Power draw."},
	mTemperature: {Name: "hw.temperature", Kind: Gauge, Unit: "Cel", Attributes: []string{aHwID, aHwName, aHwType}, Rank: true, float: true, Description: "Temperature."},
	mGPUIO:       {Name: "hw.gpu.io", Kind: Counter, Unit: "By", Attributes: []string{aHwID, aHwName, aHwType, "network.io.direction"}, Rank: true, Description: "PCIe traffic since the run began, summed up from the rates that NVML gives."},
	mHwErrors:    {Name: "hw.errors", Kind: Counter, Unit: "{error}", Attributes: []string{aHwID, aHwName, aHwType, "error.type"}, Rank: true, reset: true, Description: "Memory (ECC) errors, corrected and uncorrected."},

	mSelfCPU:           {Name: "ptlaunch.self.cpu.time", Kind: Counter, Unit: "s", reset: true, seconds: true, Description: "CPU time of ptlaunch's own agent."},
	mSelfMemory:        {Name: "ptlaunch.self.memory.usage", Kind: Level, Unit: "By", Description: "Resident memory of ptlaunch's own agent."},
	mSelfSample:        {Name: "ptlaunch.self.sample.duration", Kind: Histogram, Unit: "s", Description: "Time that one sample took."},
	mSelfDropped:       {Name: "ptlaunch.self.dropped", Kind: Counter, Unit: "{item}", Attributes: []string{"ptlaunch.what"}, Description: "Items that ptlaunch had to drop because something could not keep up."},
	mSelfMissed:        {Name: "ptlaunch.self.missed_ticks", Kind: Counter, Unit: "{tick}", Description: "Samples that came too late to be taken."},
	mSourceUnavailable: {Name: "ptlaunch.source.unavailable", Kind: Level, Unit: "{source}", Attributes: []string{"ptlaunch.source", "error.type"}, Description: "1 for each source that cannot be read, and why."},
}
