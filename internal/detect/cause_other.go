package detect

import (
	"fmt"
	"time"
)

// checkpointCauses: a rank that is in a save waits for that save.
func (d *stalls) checkpointCauses(w *rankWatch, o *ongoing) []opinion {
	x := opinion{cause: CauseCheckpoint, weight: 1}
	if cp := d.saves.blockingAt(w.tl.id, o.stall.Start, o.stall.End); cp != nil {
		o.stall.Checkpoint = cp.ID
		x.evidence = append(x.evidence, cp.Evidence...)
		x.culprit = cp.Path
		for k, v := range cp.Facts {
			o.stall.Facts[k] = v
		}
	}
	return []opinion{x}
}

// otherCauses are the candidates for time lost in a place that is neither data, nor a save, nor a peer.
func (d *stalls) otherCauses(o *ongoing) []opinion {
	var out []opinion
	lost := o.running
	for _, x := range o.kinds {
		lost += x
	}
	share := func(kinds ...waitKind) float64 {
		var s time.Duration
		for _, k := range kinds {
			s += o.kinds[k]
		}
		return ratio(s, lost)
	}
	if o.gpu.lost {
		return []opinion{{cause: CauseGPULost, weight: 1, evidence: []string{"the driver reports the rank's GPU as lost"}}}
	}
	if x := share(waitOutput, waitPipeWrite); x > 0 {
		out = append(out, opinion{cause: CauseOutputBlocked, weight: x, culprit: "stdout or stderr", evidence: []string{
			fmt.Sprintf("the main thread was blocked writing its output for %s of the lost time: nobody reads it", percent(x))}})
	}
	if m := d.memoryCause(o); m != nil {
		out = append(out, *m)
	}
	if x := share(waitSocket); x > 0 {
		out = append(out, opinion{cause: CauseNetwork, weight: x, evidence: []string{
			fmt.Sprintf("the main thread waited for the network for %s of the lost time", percent(x))}})
	}
	if o.gpu.n > 0 {
		out = append(out, d.gpuCauses(o)...)
	}
	if x := share(waitStopped); x >= d.t.Dominant {
		o.stall.Evidence = append(o.stall.Evidence, fmt.Sprintf("the rank was stopped by a signal or a debugger for %s of it", percent(x)))
		return nil
	}
	for _, k := range []waitKind{waitFileWrite, waitFileSync, waitFileRead, waitChild, waitPageFault, waitPipeRead} {
		if x := share(k); x >= d.t.Dominant {
			o.stall.Evidence = append(o.stall.Evidence, fmt.Sprintf("the main thread was %s for %s of it", k, percent(x)))
		}
	}
	return out
}

// gpuCauses judge a rank whose GPU is idle, or slow, while its host is busy.
func (d *stalls) gpuCauses(o *ongoing) []opinion {
	busy := o.gpu.busy / o.gpu.n
	if t := float64(o.gpu.throttled) / o.gpu.n; t >= d.t.GPUThrottledShare {
		return []opinion{{cause: CauseGPUThrottled, weight: t, evidence: []string{
			fmt.Sprintf("the GPU clocked itself down in %s of the readings", percent(t))}}}
	}
	cpu := ratio(o.crew.rank.cpu, o.crew.rank.elapsed)
	if busy >= d.t.GPUIdle || cpu < d.t.HotMainThread {
		return nil
	}
	ev := fmt.Sprintf("the GPU is busy %s of the time while the rank's own threads use %.1f CPUs", percent(busy), cpu)
	if o.crew.live == 0 && o.crew.rank.rchar > uint64(1e6*o.amb.elapsed) {
		return []opinion{{cause: CauseNoWorkers, weight: 0.8, evidence: []string{ev, "it has no workers and reads its data itself"}}}
	}
	return []opinion{{cause: CauseMainThread, weight: min(1, cpu), evidence: []string{ev}}}
}
