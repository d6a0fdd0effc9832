package detect

import (
	"fmt"
	"time"
)

// dataCauses are the candidates for a wait for data.
func (d *stalls) dataCauses(w *rankWatch, o *ongoing) []opinion {
	if s := ratio(o.startupLost, o.stall.Lost); s >= d.t.Dominant {
		return []opinion{{
			cause: CauseWorkerStartup, weight: s,
			evidence: []string{fmt.Sprintf("%s of the lost time passed between the start of new workers and their first batch (%d generations so far)",
				percent(s), w.tl.pools.generations)},
		}}
	}
	if m := d.memoryCause(o); m != nil {
		return []opinion{*m} // waits for storage, and faults, are how memory shortage shows
	}
	if len(o.crew.slots) == 0 {
		return d.withoutWorkers(o)
	}
	var out []opinion
	all := o.crew.workers()
	if float64(all.samples) < d.t.CauseQuorumSamples {
		return nil
	}
	if s := d.slowWorker(o); s != nil {
		return append(out, *s)
	}
	idle := idleShare(all)
	active := 1 - idle
	if active <= 0.05 {
		return append(out, d.idleWorkers(o, idle)...)
	}
	part := func(share float64) float64 { return min(1, share/active) }
	if x := part(all.storage()); x > 0 {
		s := d.storageCause(o, all)
		s.weight = x
		s.evidence = append([]string{fmt.Sprintf("%d workers wait for files for %s of the time they are at work", len(o.crew.slots), percent(x))}, s.evidence...)
		out = append(out, s)
	}
	if x := part(all.computing()); x > 0 {
		s := d.cpuCause(o, all)
		s.weight = x
		out = append(out, s)
	}
	if x := part(d.networkShare(o, all)); x > 0 {
		out = append(out, opinion{
			cause: CauseNetwork, weight: x,
			evidence: []string{fmt.Sprintf("%d workers wait for the network for %s of the time they are at work; %s/s came in",
				len(o.crew.slots), percent(x), bytesText(o.amb.mean(o.amb.netBytes)))},
		})
	}
	if x := part(asleepShare(all)); x > 0 {
		out = append(out, opinion{
			cause: CauseTooFewWorkers, weight: x, low: all.named == 0 && all.share(waitOther) > all.share(waitSleep),
			evidence: []string{fmt.Sprintf("all %d workers are asleep in work of their own for %s of the time they are at work, in no file and no socket; more would overlap it",
				len(o.crew.slots), percent(x))},
		})
	}
	return d.doubtIdle(o, out, idle)
}

// doubtIdle lowers what was found while the workers wait for work most of the time: then it is not they who are short.
func (d *stalls) doubtIdle(o *ongoing, out []opinion, idle float64) []opinion {
	if idle < d.t.WorkerIdleAhead {
		return out
	}
	if hot := d.hotRank(o); hot != nil {
		return append(out, *hot)
	}
	for i := range out {
		out[i].low = true
		out[i].caveats = append(out[i].caveats, fmt.Sprintf("the workers wait for work for %s of the time: they are hardly the limit", percent(idle)))
		out[i].weight *= 0.9
	}
	return out
}

// idleWorkers judges a rank that waits for data while its workers wait for work.
func (d *stalls) idleWorkers(o *ongoing, idle float64) []opinion {
	if hot := d.hotRank(o); hot != nil {
		return []opinion{*hot}
	}
	if d.blind { // a poll may as well be a socket with a timeout
		return []opinion{{cause: CauseNetwork, weight: d.t.Dominant * 0.9,
			evidence: []string{fmt.Sprintf("the workers are blocked in poll for %s of the time while the rank waits for them", percent(idle))},
			caveats:  []string{"what they poll was not readable: the network, or work from the rank"}}}
	}
	return nil
}

// hotRank is the candidate that the rank's own threads (pinning, collate, garbage collection) are what is waited for.
func (d *stalls) hotRank(o *ongoing) *opinion {
	cpu := ratio(o.crew.rank.cpu, o.crew.rank.elapsed)
	if cpu < d.t.HotMainThread {
		return nil
	}
	return &opinion{
		cause: CauseMainThread, weight: min(1, cpu),
		evidence: []string{fmt.Sprintf("the workers wait for work while the rank's own threads use %.1f CPUs: data is ready, the rank's Python is busy", cpu)},
	}
}

// withoutWorkers judges a rank that reads its own data.
func (d *stalls) withoutWorkers(o *ongoing) []opinion {
	var blocked, net time.Duration
	for k, x := range o.kinds {
		blocked += x
		if waitKind(k) == waitSocket {
			net += x
		}
	}
	rank := &o.crew.rank
	if s := ratio(net, blocked); s >= d.t.Dominant {
		return []opinion{{cause: CauseNetwork, weight: s, evidence: []string{
			fmt.Sprintf("the rank has no workers and waits for the network itself for %s of the lost time", percent(s))}}}
	}
	s := d.storageCause(o, rank)
	ev := []string{fmt.Sprintf("no workers: the rank's main thread loads the data itself, and waited %s for files", durationText(blocked))}
	return []opinion{{cause: CauseNoWorkers, weight: 1, culprit: s.culprit, evidence: append(ev, s.evidence...)}}
}

// networkShare is the share spent waiting for sockets, or for children that do.
func (d *stalls) networkShare(o *ongoing, all *tally) float64 {
	s := all.share(waitSocket)
	if all.named > 0 {
		s += all.share(waitPoll) // with its arguments known it is not the loader's pipe: a socket with a timeout
	}
	if o.crew.helpers.share(waitSocket) > 0 {
		s += all.share(waitChild, waitPipeRead)
	}
	return s
}

// cpuCause tells the three shortages of CPU apart: none allowed is free and there is crowding; one is free; or the CPUs are
// simply at work.
func (d *stalls) cpuCause(o *ongoing, all *tally) opinion {
	a := &o.amb
	free, periods, crowding := a.freeCPUs(), a.ofCgroup(a.periods), ratio(all.queue, all.run)
	n := len(o.crew.slots)
	busy := fmt.Sprintf("%d workers are on a CPU or ready to be for %s of the time", n, percent(all.computing()))
	crowd := fmt.Sprintf("they wait for a CPU for %s of the time that they run", percent(crowding))
	switch {
	case !a.hasHost:
		return opinion{cause: CauseWorkerCPU, low: true, evidence: []string{busy, crowd}, caveats: []string{"whether a CPU was free is not known"}}
	case a.quota > 0 && periods >= d.t.ThrottledPeriods:
		return opinion{cause: CauseCPULimit, culprit: fmt.Sprintf("CPU limit %.1f", a.quota), evidence: []string{
			busy, fmt.Sprintf("CPU limit %.1f (%s): throttled in %s of the periods", a.quota, a.quotaFile, percent(periods)), crowd}}
	case crowding >= d.t.RunQueueRatio && free < max(d.t.FreeCPUs, 0.25*a.cpus):
		return opinion{cause: CauseCPULimit, culprit: fmt.Sprintf("%.0f CPUs", a.cpus), evidence: []string{
			busy, crowd, fmt.Sprintf("%.1f of %.0f allowed CPUs were idle", free, a.cpus)}}
	case free >= d.t.FreeCPUs:
		return opinion{cause: CauseTooFewWorkers, low: crowding >= d.t.RunQueueRatio, evidence: []string{
			busy, fmt.Sprintf("%.1f of %.0f allowed CPUs were idle meanwhile", free, a.cpus)}}
	}
	return opinion{cause: CauseWorkerCPU, evidence: []string{
		busy, fmt.Sprintf("the %.0f allowed CPUs are at work (%.1f idle), without crowding (%s)", a.cpus, free, percent(crowding))}}
}
