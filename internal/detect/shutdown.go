package detect

import "time"

// quietFrom is the moment from which on a rank that had workers, or peers, shows no sign of its training loop: it may be
// about to end, and its time is held a little longer to be booked on its end.
func (a *accounts) quietFrom(tl *timeline) time.Duration {
	if !tl.start.done || tl.around.workers > 0 || tl.pools.generations == 0 && !tl.multi {
		return a.last + time.Second
	}
	for i := len(tl.slices) - 1; i >= tl.open; i-- {
		if a.marks(tl, &tl.slices[i]) {
			return tl.slices[i].to
		}
	}
	return max(tl.lastMarker, tl.start.at)
}

// marks says whether a slice proves that the training loop was alive: by its workers, for a rank that has some. What it
// waits in after they have gone may as well be the joining of threads. Without workers any named wait has to do.
func (a *accounts) marks(tl *timeline, s *slice) bool {
	if s.around.workers > 0 {
		return true
	}
	if tl.pools.generations == 0 && s.blocked >= s.length()/4 && (phaseOf(s.kind, s.around) != inCompute || inSync(s)) {
		return true
	}
	return a.saves.blocking(tl.id, s.from, s.to) > 0
}

// closing says whether a slice of an ended rank lies behind its last step.
func (a *accounts) closing(tl *timeline, s *slice) bool {
	if tl.lastMarker == 0 || s.from < tl.lastMarker || s.from < tl.cursor.at-seconds(a.t.EndHoldSeconds)-5*time.Second {
		return false
	}
	for i := tl.open; i < len(tl.slices); i++ {
		if a.marks(tl, &tl.slices[i]) {
			return false
		}
	}
	return true
}
