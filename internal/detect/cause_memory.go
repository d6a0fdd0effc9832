package detect

import "fmt"

// memoryCause needs two witnesses: tasks that stall for memory, and faults, a limit that is hit, swapping or a full /dev/shm.
func (d *stalls) memoryCause(o *ongoing) *opinion {
	a := &o.amb
	all := o.crew.workers()
	all.add(&o.crew.rank)
	pressure := a.mean(a.memStalled)
	faults := a.mean(float64(all.majFaults))
	var ev []string
	if pressure >= d.t.MemoryPressure {
		ev = append(ev, fmt.Sprintf("tasks stalled for memory for %s of the time", percent(pressure)))
	}
	witnesses := len(ev)
	if a.memLimit > 0 && (a.memNear >= d.t.MemoryNearLimit || a.newMemory > 0) {
		ev = append(ev, fmt.Sprintf("%s of the memory limit of %s in use, reached %.0f times", percent(a.memNear), bytesText(a.memLimit), a.newMemory))
	}
	if faults >= d.t.MajorFaultsPerSec {
		ev = append(ev, fmt.Sprintf("%.0f major page faults a second", faults))
	}
	if a.mean(a.swapIn) > 100 {
		ev = append(ev, fmt.Sprintf("%.0f pages a second come back from swap", a.mean(a.swapIn)))
	}
	if a.shmUsed >= d.t.ShmFullShare {
		return &opinion{cause: CauseMemory, weight: 1, culprit: "/dev/shm", evidence: []string{fmt.Sprintf("/dev/shm is full (%s)", percent(a.shmUsed))}}
	}
	limit := a.memLimit > 0 && a.newMemory > 0 && faults >= d.t.MajorFaultsPerSec
	if witnesses == 0 && !limit || len(ev) < 2 {
		return nil
	}
	x := &opinion{cause: CauseMemory, weight: min(1, 0.7+pressure), evidence: ev}
	if a.memLimit > 0 {
		x.culprit = "memory limit " + bytesText(a.memLimit)
	}
	return x
}
