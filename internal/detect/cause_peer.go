package detect

import (
	"fmt"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// peerCauses names the rank that was waited for, and what it did meanwhile.
func (d *stalls) peerCauses(o *ongoing) []opinion {
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
