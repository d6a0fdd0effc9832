package detect

import (
	"fmt"
	"sort"
)

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
