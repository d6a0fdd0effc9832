package detect

import (
	"math"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// ambient is the machine around the job over some frames: sums that are means once divided by the time.
type ambient struct {
	elapsed    float64 // seconds
	idleCPUs   float64 // CPU seconds idle on the machine
	usedCPUs   float64 // CPU seconds used by the cgroup
	cgElapsed  float64 // seconds of the frames that had the cgroup: it may be read more seldom
	periods    float64 // share of throttled periods, times seconds
	memStalled float64 // seconds of PSI memory some
	ioStalled  float64
	netBytes   float64
	readBytes  float64 // of block devices
	devBusy    float64 // busiest device, times seconds
	devAwait   float64 // its mean read time, times seconds
	devQueue   float64
	devName    string
	swapIn     float64 // pages
	newMemory  float64 // memory events of the cgroup: max, high, failcnt

	// Levels, the latest.
	cpus      float64 // CPUs that the job may use: affinity, cpuset, quota, online
	quota     float64 // the quota, 0 when there is none
	quotaFile string
	online    float64
	memNear   float64 // share of the memory limit, 0 when there is none
	memLimit  float64
	shmUsed   float64 // share of /dev/shm, -1 when not known
	readLimit float64 // bytes per second that the cgroup may read, 0 when there is no limit
	iopsLimit float64
	hasPSI    bool
	hasHost   bool
	hasCgroup bool
	mounts    []string       // "/mnt/data (nfs4)" of remote mounts in use
	reads     map[string]int // data files seen open, by "mount (type)"
}

func (a *ambient) add(o *ambient) {
	sums := a.sums()
	for i, x := range o.sums() {
		*sums[i] += *x
	}
	kept := *a
	*a = *o
	for i, x := range kept.sums() {
		*a.sums()[i] = *x
	}
	a.reads = map[string]int{}
	for _, m := range []map[string]int{kept.reads, o.reads} {
		for k, n := range m {
			a.reads[k] += n
		}
	}
	if o.devName == "" {
		a.devName = kept.devName
	}
	if !o.hasCgroup && kept.hasCgroup { // not due in this frame: what it said last still holds
		a.hasCgroup, a.quota, a.quotaFile = true, kept.quota, kept.quotaFile
		a.memNear, a.memLimit, a.readLimit, a.iopsLimit = kept.memNear, kept.memLimit, kept.readLimit, kept.iopsLimit
		a.cpus = min(a.cpus, kept.cpus)
	}
	if !o.hasHost && kept.hasHost {
		a.hasHost, a.online, a.cpus = true, kept.online, min(a.cpus, kept.cpus)
	}
	if a.shmUsed < 0 {
		a.shmUsed = kept.shmUsed
	}
	if len(o.mounts) == 0 {
		a.mounts = kept.mounts
	}
}

func (a *ambient) sums() []*float64 {
	return []*float64{
		&a.elapsed, &a.idleCPUs, &a.usedCPUs, &a.cgElapsed, &a.periods, &a.memStalled, &a.ioStalled, &a.netBytes,
		&a.readBytes, &a.devBusy, &a.devAwait, &a.devQueue, &a.swapIn, &a.newMemory,
	}
}

// mean is a sum per second of wall time.
func (a *ambient) mean(sum float64) float64 {
	if a.elapsed <= 0 {
		return 0
	}
	return sum / a.elapsed
}

// ofCgroup is a sum of the cgroup's figures per second of the frames that had them.
func (a *ambient) ofCgroup(sum float64) float64 {
	if a.cgElapsed <= 0 {
		return 0
	}
	return sum / a.cgElapsed
}

// freeCPUs is the number of CPUs that the job may use and that were idle: what the machine left, and what the quota left.
func (a *ambient) freeCPUs() float64 {
	free := a.mean(a.idleCPUs)
	if a.quota > 0 {
		free = min(free, a.quota-a.ofCgroup(a.usedCPUs))
	}
	return max(0, free)
}

// memoryWatch remembers the counters that ambient needs differences of.
type memoryWatch struct {
	swapIn uint64
	seen   bool
}

// surroundings reads one frame.
func (w *memoryWatch) surroundings(f *model.Frame) *ambient {
	a := &ambient{elapsed: f.Elapsed.Seconds(), shmUsed: -1, cpus: math.Inf(1)}
	if h := f.Host; h != nil && h.Host != nil {
		a.hasHost = true
		a.online = float64(h.CPUs)
		a.cpus = a.online
		a.idleCPUs = (h.IdleShare + h.IOWaitShare) * a.online * a.elapsed
		if w.seen && h.SwapIn >= w.swapIn {
			a.swapIn = float64(h.SwapIn - w.swapIn)
		}
		w.swapIn, w.seen = h.SwapIn, true
	}
	a.affinity(f)
	a.cgroup(f)
	a.pressure(f)
	a.devices(f)
	for _, n := range f.Network {
		a.netBytes += n.RxBPS * a.elapsed
	}
	a.mountsOf(f)
	return a
}

// affinity narrows the CPUs to what the ranks and workers may use, and idle CPUs in proportion: which CPUs were idle is
// not known, only how many.
func (a *ambient) affinity(f *model.Frame) {
	for i := range f.Procs {
		p := &f.Procs[i]
		if p.Role != model.RoleRank && p.Role != model.RoleWorker || p.Raw.Status == nil || p.Raw.Status.CPUsAllowed <= 0 {
			continue
		}
		if n := float64(p.Raw.Status.CPUsAllowed); n < a.cpus {
			a.narrow(n)
		}
	}
}

func (a *ambient) narrow(n float64) {
	if a.online > 0 && n < a.online {
		others := a.online - n
		a.idleCPUs = max(0, a.idleCPUs-others*a.elapsed) // idle CPUs are taken to be the forbidden ones first
	}
	a.cpus = min(a.cpus, n)
}

func (a *ambient) cgroup(f *model.Frame) {
	if f.Cgroup == nil || f.Cgroup.Cgroup == nil {
		return
	}
	c := f.Cgroup
	a.hasCgroup, a.cgElapsed = true, a.elapsed
	if c.Cpuset != nil && c.Cpuset.CPUs > 0 && float64(c.Cpuset.CPUs) < a.cpus {
		a.narrow(float64(c.Cpuset.CPUs))
	}
	if c.CPU != nil && c.CPU.Limit != nil {
		a.quota, a.quotaFile = *c.CPU.Limit, c.CPU.File
		a.cpus = min(a.cpus, a.quota)
		a.periods = c.PeriodsShare * a.elapsed
	}
	if c.CPUs != nil {
		a.usedCPUs = *c.CPUs * a.elapsed
	}
	if m := c.Memory; m != nil && m.Limit != nil && *m.Limit > 0 {
		used := m.Usage
		if m.InactiveFile != nil && *m.InactiveFile < used {
			used -= *m.InactiveFile
		}
		a.memLimit, a.memNear = float64(*m.Limit), float64(used)/float64(*m.Limit)
	}
	for name, n := range c.NewEvents {
		if name == "max" || name == "high" || name == "failcnt" {
			a.newMemory += float64(n)
		}
	}
	if c.IO == nil {
		return
	}
	for _, d := range c.IO.Devices {
		if d.ReadBPS != nil && *d.ReadBPS > 0 {
			a.readLimit = float64(*d.ReadBPS)
		}
		if d.ReadIOPS != nil && *d.ReadIOPS > 0 {
			a.iopsLimit = float64(*d.ReadIOPS)
		}
	}
}

func (a *ambient) pressure(f *model.Frame) {
	scope := "system"
	for _, p := range f.Pressure {
		if p.Scope == "cgroup" {
			scope = "cgroup"
		}
	}
	for _, p := range f.Pressure {
		if p.Scope != scope || p.Kind != "some" {
			continue
		}
		a.hasPSI = true
		switch p.Resource {
		case "memory":
			a.memStalled = p.Share * a.elapsed
		case "io":
			a.ioStalled = p.Share * a.elapsed
		}
	}
}

func (a *ambient) devices(f *model.Frame) {
	busiest := 0.0
	for i := range f.Devices {
		d := &f.Devices[i]
		if len(d.Below) == 0 {
			a.readBytes += d.ReadBPS * a.elapsed
		}
		if d.ReadBPS > 0 && d.ReadBPS >= busiest {
			busiest = d.ReadBPS
			a.devName = d.Name
			a.devBusy = d.Busy * a.elapsed
			a.devAwait = d.ReadAwait.Seconds() * a.elapsed
			a.devQueue = d.QueueDepth * a.elapsed
		}
	}
}

func (a *ambient) mountsOf(f *model.Frame) {
	if f.Raw == nil {
		return
	}
	for i := range f.Raw.Mounts {
		m := &f.Raw.Mounts[i]
		switch {
		case m.Mountpoint == "/dev/shm":
			if m.Space != nil && m.Space.Total > 0 {
				a.shmUsed = 1 - float64(m.Space.Free)/float64(m.Space.Total)
			}
		case m.Remote || strings.HasPrefix(m.FSType, "fuse") || strings.HasPrefix(m.FSType, "nfs"):
			a.mounts = append(a.mounts, m.Mountpoint+" ("+m.FSType+")")
		}
	}
	a.reads = map[string]int{}
	for i := range f.Raw.Files {
		o := &f.Raw.Files[i]
		if o.Flags&(flagWriteOnly|flagReadWrite) != 0 || isProgram(o.Path) {
			continue
		}
		for j := range f.Raw.Mounts {
			if m := &f.Raw.Mounts[j]; m.ID == o.MountID {
				a.reads[m.Mountpoint+" ("+m.FSType+")"]++
			}
		}
	}
}

// timed is a crew and its surroundings in one frame.
type timed struct {
	at   time.Duration
	crew *crew
	amb  *ambient
}

// isProgram says whether a file is code rather than data: libraries and Python's own files stay open, too.
func isProgram(path string) bool {
	return strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/lib") || strings.HasPrefix(path, "/dev/") ||
		strings.HasPrefix(path, "/proc/") || strings.Contains(path, ".so") || strings.HasSuffix(path, ".py") ||
		strings.HasSuffix(path, ".pyc")
}
