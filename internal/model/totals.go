package model

import (
	"cmp"
	"slices"
	"time"
)

// totals are the monotonic sums by series.
type totals struct {
	by     map[Series]*sum
	sorted []*sum
}

type sum struct {
	Series
	amounts
	start        time.Duration
	workerStarts uint64
	level        Total // of this step: Procs, RSS, …
}

func newTotals() totals { return totals{by: map[Series]*sum{}} }

// at finds or makes a series. start is the start of its first process.
func (t *totals) at(key Series, start time.Duration) *sum {
	s := t.by[key]
	if s == nil {
		s = &sum{Series: key, start: start}
		t.by[key] = s
		i, _ := slices.BinarySearchFunc(t.sorted, key, func(s *sum, k Series) int { return cmpSeries(s.Series, k) })
		t.sorted = slices.Insert(t.sorted, i, s)
	}
	return s
}

func cmpSeries(a, b Series) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Loader, b.Loader), cmp.Compare(a.Slot, b.Slot))
}

// list makes the frame's totals, with the levels of the living.
func (b *Builder) list() []Total {
	for _, s := range b.totals.sorted {
		s.level = Total{}
	}
	for _, m := range b.order {
		if m.raw == nil {
			continue
		}
		key, _ := m.series()
		s := b.totals.by[key]
		if m.Undecided {
			s = b.totals.at(Series{m.Role, None, None, None}, m.start)
		}
		if s == nil {
			continue
		}
		l := &s.level
		l.Procs++
		l.RSS += m.raw.RSS
		l.VSize += m.raw.VSize
		l.Threads += int64(m.raw.NumThreads)
		if m.raw.FDs != nil {
			l.FDs += int64(*m.raw.FDs)
			l.HasFDs = true
		}
	}
	out := make([]Total, len(b.totals.sorted))
	for i, s := range b.totals.sorted {
		t := s.level
		t.Series, t.Start, t.WorkerStarts = s.Series, s.start, s.workerStarts
		t.User, t.System, t.MinFlt, t.MajFlt = s.user, s.system, s.minFlt, s.majFlt
		t.RChar, t.WChar, t.SyscR, t.SyscW = s.io[ioRChar], s.io[ioWChar], s.io[ioSyscR], s.io[ioSyscW]
		t.ReadBytes, t.WriteBytes = s.io[ioReadBytes], s.io[ioWriteBytes]
		t.Blocked, t.RunQueue, t.Storage = s.blocked, s.waiting, s.storage
		t.HasIO, t.HasSched, t.HasDelay = s.hasIO, s.hasSched, s.hasDelay
		out[i] = t
	}
	return out
}
