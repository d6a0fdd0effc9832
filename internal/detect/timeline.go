package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The phases as indices of the arrays that account for them; phaseAt[i] is Phases[i].
const (
	inStartup = iota
	inCompute
	inData
	inCheckpoint
	inPeer
	inOther
	inShutdown
	numPhases
)

// lossPhases are the phases in which a rank loses time, and which can be a stall.
var lossPhases = [...]int{inData, inCheckpoint, inPeer, inOther}

// parts is a duration divided into phases.
type parts [numPhases]time.Duration

func (p *parts) add(q parts) {
	for i := range p {
		p[i] += q[i]
	}
}

func (p parts) sum() (d time.Duration) {
	for _, x := range p {
		d += x
	}
	return d
}

// slice is what a rank's main thread did between two readings: run + queue + blocked is its length, exactly. Those three
// are measured by the kernel; kind, which says in what the thread was blocked, was only sampled.
type slice struct {
	from, to            time.Duration
	run, queue, blocked time.Duration
	kind                waitKind
	around              surround
	loading             bool // the main thread was starting or joining workers
	parts               parts
	peer                int  // the rank that was waited for, when parts[inPeer] > 0
	newPool             bool // the rank was waiting for the first batch of new workers
}

func (s *slice) length() time.Duration { return s.to - s.from }

// lost is the time that was lost to one phase.
func (s *slice) lost(phase int) time.Duration { return s.parts[phase] }

// surround is what was known around a rank when a slice was taken.
type surround struct {
	workers int  // live DataLoader workers
	pin     bool // a pin-memory thread is known
	ahead   bool // the workers wait for work
	multi   bool // other ranks exist
	reading bool // the rank itself reads a lot
	pressed bool // memory is short
}

// reading is one reading of a main thread's cumulative times.
type reading struct {
	at, run, queue time.Duration
	sched          bool
	kind           waitKind
}

// timeline is one rank's life as a row of slices. Slices are booked on phases when they are old enough (see
// Thresholds.SettleSeconds); history of the last seconds stays for the comparison with other ranks, so memory is bounded.
type timeline struct {
	id         snapshot.ProcID
	rank       int
	local      int
	world      int
	multi      bool
	ended      bool
	gone       time.Duration // when it was first seen dead but not reaped
	cursor     reading
	slices     []slice
	open       int // slices[open:] are not booked yet
	budget     parts
	recent     kindMix
	start      startup
	forks      []window // when the main thread was starting workers
	pools      poolWatch
	around     surround
	lastMarker time.Duration // last moment that proves the training loop alive
}

type window struct{ from, to time.Duration }

func (w window) overlap(from, to time.Duration) time.Duration {
	return max(0, min(w.to, to)-max(w.from, from))
}

// kindMix remembers in what a thread was blocked lately, to attribute blocked time that no sample fell into.
type kindMix struct {
	weight [numWaits]float64
	at     time.Duration
}

// mixHalfLife is the time in which a memory of kindMix loses half its weight.
const mixHalfLife = 5 * time.Second

func (m *kindMix) add(k waitKind, d, at time.Duration) {
	if passed := at - m.at; passed > 0 {
		f := 1 / (1 + float64(passed)/float64(mixHalfLife))
		for i := range m.weight {
			m.weight[i] *= f
		}
		m.at = at
	}
	m.weight[k] += d.Seconds()
}

// likely is the kind with the greatest weight, waitOther when nothing was seen.
func (m *kindMix) likely() waitKind {
	best, k := 0.0, waitOther
	for i, w := range m.weight {
		if w > best && waitKind(i) != waitNone {
			best, k = w, waitKind(i)
		}
	}
	return k
}

// advance adds the slice from the previous reading to r. Readings that do not move time are dropped.
func (tl *timeline) advance(r reading) {
	prev := tl.cursor
	if r.at <= prev.at {
		return
	}
	s := slice{from: prev.at, to: r.at, around: tl.around, kind: r.kind, peer: model.None}
	length := s.length()
	if r.sched && prev.sched && r.run >= prev.run && r.queue >= prev.queue {
		s.run, s.queue = r.run-prev.run, r.queue-prev.queue
		if over := s.run + s.queue; over > length { // readings of different files: a little more than the time between
			f := float64(length) / float64(over)
			s.run = time.Duration(float64(s.run) * f)
			s.queue = min(length-s.run, time.Duration(float64(s.queue)*f))
		}
	} else if r.kind == waitNone {
		s.run = length // no schedstat: the sampled state stands for the slice
	}
	s.blocked = length - s.run - s.queue
	s.kind = tl.blockedIn(prev, r, s.blocked)
	if s.blocked > 0 && r.kind != waitNone {
		tl.recent.add(r.kind, s.blocked, r.at)
	}
	tl.cursor = r
	tl.slices = append(tl.slices, s)
}

// longSlice is the length beyond which one sample does not stand for a slice.
const longSlice = 3 * time.Second

// blockedIn chooses the kind that stands for the blocked part of a slice: the sample at its end, else at its beginning,
// else what the thread was blocked in lately.
func (tl *timeline) blockedIn(prev, r reading, blocked time.Duration) waitKind {
	if blocked <= 0 {
		return waitNone
	}
	if r.at-prev.at <= longSlice {
		if r.kind != waitNone {
			return r.kind
		}
		if prev.kind != waitNone {
			return prev.kind
		}
	}
	if k := tl.recent.likely(); k != waitOther {
		return k
	}
	if r.kind != waitNone {
		return r.kind
	}
	return waitOther
}

// keep is how much booked history a timeline holds for the comparison of ranks.
func (tl *timeline) trim(before time.Duration) {
	n := 0
	for n < tl.open && tl.slices[n].to < before {
		n++
	}
	if n > 64 { // move the rest seldom
		tl.slices = append(tl.slices[:0], tl.slices[n:]...)
		tl.open -= n
	}
}

// syncIn is the time within [from, to] that the rank was blocked in a collective, or in what looks like one.
func (tl *timeline) syncIn(from, to time.Duration) (d time.Duration) {
	for i := len(tl.slices) - 1; i >= 0 && tl.slices[i].to > from; i-- {
		s := &tl.slices[i]
		if inSync(s) {
			d += scale(s.blocked, window{s.from, s.to}.overlap(from, to), s.length())
		}
	}
	return d
}

// scale is d * part / whole.
func scale(d, part, whole time.Duration) time.Duration {
	if whole <= 0 || part >= whole {
		return d
	}
	return time.Duration(float64(d) * float64(part) / float64(whole))
}
