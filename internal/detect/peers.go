package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// peerShare says which part of a slice blocked in a collective was a wait for another rank, and for which. Equal ranks wait
// for each other too, a little and in turns: that is communication, part of the step. It is a wait for a rank when it is
// one-sided (this rank waits longer than the one that waits least), or long while another rank is somewhere else.
func (a *accounts) peerShare(tl *timeline, s *slice) (float64, int) {
	others := a.peersOf(tl, s)
	if a.syncStretch(tl, s) >= seconds(a.t.LongSyncSeconds) {
		if o := a.absent(others, s); o != nil {
			return 1, o.rank
		}
		if tl.world > len(others)+1 || len(others) == 0 {
			return 1, model.None // the rank that is missing is on another node
		}
	}
	from := s.to - seconds(a.t.SyncWindowSeconds)
	if tl.start.at > from {
		from = tl.start.at
	}
	own := tl.syncIn(from, s.to)
	var least *timeline
	lowest := own
	for _, o := range others {
		if d := o.syncIn(from, s.to); d < lowest {
			lowest, least = d, o
		}
	}
	excess := own - lowest
	if least == nil || own <= 0 || float64(excess) < a.t.SyncExcess*float64(s.to-from) || s.to-from < 2*time.Second {
		return 0, model.None
	}
	return float64(excess) / float64(own), least.rank
}

// peersOf are the other ranks that were training during a slice.
func (a *accounts) peersOf(tl *timeline, s *slice) []*timeline {
	var out []*timeline
	for _, o := range a.ranks {
		if o == tl || !o.start.done || o.start.at > s.from || o.cursor.at < s.from {
			continue
		}
		out = append(out, o)
	}
	return out
}

// syncStretch is the length of the unbroken wait in a collective that a slice is part of, as far as it is known.
func (a *accounts) syncStretch(tl *timeline, s *slice) time.Duration {
	i := len(tl.slices) - 1
	for i > 0 && tl.slices[i].from > s.from {
		i--
	}
	whole := func(s *slice) bool { return inSync(s) && s.blocked >= s.length()*4/5 }
	d := time.Duration(0)
	for j := i; j >= 0 && whole(&tl.slices[j]); j-- {
		d += tl.slices[j].length()
	}
	for j := i + 1; j < len(tl.slices) && whole(&tl.slices[j]); j++ {
		d += tl.slices[j].length()
	}
	return d
}

// absent is the rank that was least in a collective during a slice, nil when all were in it. Of several, a rank that is
// held by something (a save, its data) is named before one that runs.
func (a *accounts) absent(others []*timeline, s *slice) *timeline {
	var best *timeline
	lowest := s.length() / 2
	for _, o := range others {
		d := o.syncIn(s.from, s.to)
		if d < lowest || d == lowest && best == nil && d < s.length()/2 {
			lowest, best = d, o
		}
	}
	return best
}
