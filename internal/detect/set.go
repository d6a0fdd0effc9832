package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// Detector finds one kind of interval. Observe is called once for every frame, in order; Finish closes what is open.
type Detector interface {
	Observe(*model.Frame) []Event
	Finish(at time.Duration) []Event
}

// Set is all detectors together. It keeps the phases of every rank, the open checkpoints and the open stalls; its memory is
// bounded by the number of processes, not by the length of the run.
type Set struct {
	t        Thresholds
	accounts *accounts
	saves    *checkpoints
	stalls   *stalls
	ids      uint64
	started  bool
	last     time.Duration
}

var _ Detector = (*checkpoints)(nil)

// NewSet returns a Set that judges by the given thresholds.
func NewSet(t Thresholds) *Set {
	s := &Set{t: t}
	next := func() uint64 { s.ids++; return s.ids }
	s.saves = newCheckpoints(&s.t, next)
	s.accounts = newAccounts(&s.t, s.saves)
	s.saves.accounts = s.accounts
	s.stalls = newStalls(&s.t, s.accounts, s.saves, next)
	return s
}

// Thresholds are the ones in force.
func (s *Set) Thresholds() Thresholds { return s.t }

// Observe judges one frame. Phases are booked a moment late (see Thresholds.SettleSeconds), so budgets sum to the wall time
// up to a little before the frame; after Finish they sum to it exactly. A frame that does not move time is ignored.
func (s *Set) Observe(f *model.Frame) *Findings {
	if s.started && f.Mono <= s.last {
		return &Findings{Budgets: s.accounts.budgets()}
	}
	s.started, s.last = true, f.Mono
	crews := collect(f)
	s.accounts.read(f, crews)
	events := s.saves.Observe(f)
	fresh := s.accounts.book(false)
	events = append(events, s.stalls.observe(f, crews, fresh)...)
	return &Findings{Events: events, Budgets: s.accounts.budgets()}
}

// Finish ends the run at a moment: everything open is closed, and all time is booked.
func (s *Set) Finish(at time.Duration, _ model.Outcome) *Findings {
	at = max(at, s.last)
	s.accounts.finish(at)
	events := s.saves.Finish(at)
	fresh := s.accounts.book(true)
	events = append(events, s.stalls.finish(fresh, at)...)
	return &Findings{Events: events, Budgets: s.accounts.budgets()}
}
