package detect

import (
	"fmt"
	"sort"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
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

// slowWorker finds the one worker that holds the others back: a loader keeps the order of its batches, so the others run out
// of work while it is at its own. Bytes do not show it, they are equal by construction.
func (d *stalls) slowWorker(o *ongoing) *opinion {
	byLoader := map[int][]slotKey{}
	for k := range o.crew.slots {
		byLoader[k.loader] = append(byLoader[k.loader], k)
	}
	var best *opinion
	for _, keys := range byLoader {
		if len(keys) < 2 {
			continue
		}
		sort.Slice(keys, func(i, j int) bool {
			a, b := idleShare(o.crew.slots[keys[i]]), idleShare(o.crew.slots[keys[j]])
			return a < b || a == b && keys[i].slot < keys[j].slot
		})
		slow := o.crew.slots[keys[0]]
		if float64(slow.samples) < d.t.CauseQuorumSamples {
			continue
		}
		others := 0.0
		for _, k := range keys[1:] {
			others += idleShare(o.crew.slots[k]) / float64(len(keys)-1)
		}
		busy := 1 - idleShare(slow)
		second := idleShare(o.crew.slots[keys[1]])
		if busy < d.t.SlowWorkerBusy || others < d.t.SlowWorkerOthers || second < d.t.Dominant {
			continue
		}
		kind, share := slow.mostly()
		o.stall.Facts[FactBusiestSlot], o.stall.Facts[FactBusiestBusy], o.stall.Facts[FactOthersIdle] = float64(keys[0].slot), busy, others
		x := opinion{
			cause: CauseSlowWorker, weight: min(busy, others) + (1-min(busy, others))/2, culprit: fmt.Sprintf("worker %d", keys[0].slot),
			evidence: []string{fmt.Sprintf("worker %d of %d is busy %s of the time (%s %s), the others wait for work %s: the loader keeps the order",
				keys[0].slot, len(keys), percent(busy), kind, percent(share), percent(others))},
		}
		if best == nil || x.weight > best.weight {
			best = &x
		}
	}
	return best
}

// mostly is what a worker does most while it does not wait for work.
func (t *tally) mostly() (string, float64) {
	name, most := "on a CPU or ready to be", t.computing()
	for k := waitKind(1); k < numWaits; k++ {
		if k == waitLoaderPipe || k == waitPipeWrite || k == waitPoll && t.named == 0 {
			continue
		}
		if s := t.share(k); s > most {
			name, most = k.String(), s
		}
	}
	return name, most
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

// peerCauses names the rank that was waited for, and what it did meanwhile.
func (d *stalls) peerCauses(w *rankWatch, o *ongoing) []opinion {
	rank, share := o.peerMost()
	x := opinion{cause: CausePeer, weight: max(share, d.t.Dominant)}
	if rank == model.None {
		x.culprit, x.low = "a rank on another node", true
		x.evidence = []string{"blocked in a collective while no rank of this node is missing from it"}
		x.caveats = []string{"what the other nodes do is not visible from here"}
		return []opinion{x}
	}
	x.culprit = fmt.Sprintf("rank %d", rank)
	x.evidence = []string{fmt.Sprintf("blocked in a collective; rank %d was not in it for %s of that time", rank, percent(share))}
	o.stall.Facts[FactPeerRank] = float64(rank)
	if did := d.doing(rank, o.stall.Start, o.stall.End); did != "" {
		x.evidence = append(x.evidence, did)
	}
	if d.blind {
		x.caveats = []string{"a collective could not be told from another lock"}
	}
	return []opinion{x}
}

// doing says what a rank's time went into during an interval, as far as history reaches.
func (d *stalls) doing(rank int, from, to time.Duration) string {
	var p parts
	var length time.Duration
	var kinds [numWaits]time.Duration
	for _, tl := range d.accounts.ranks {
		if tl.rank != rank {
			continue
		}
		for i := range tl.slices[:tl.open] {
			s := &tl.slices[i]
			if part := (window{s.from, s.to}).overlap(from, to); part > 0 {
				length += part
				kinds[s.kind] += scale(s.blocked, part, s.length())
				for j := range p {
					p[j] += scale(s.parts[j], part, s.length())
				}
			}
		}
	}
	if length <= 0 {
		return ""
	}
	best, most := inCompute, p[inCompute]
	for j := range p {
		if p[j] > most {
			best, most = j, p[j]
		}
	}
	if best == inCompute {
		for k := range kinds {
			if kinds[k] > length/2 && waitKind(k) != waitOther {
				return fmt.Sprintf("rank %d was %s meanwhile", rank, waitKind(k))
			}
		}
		return fmt.Sprintf("rank %d was running meanwhile (%s)", rank, percent(ratio(most, length)))
	}
	return fmt.Sprintf("rank %d spent %s of it in %s", rank, percent(ratio(most, length)), Phases[best])
}
