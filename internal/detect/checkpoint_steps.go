package detect

import (
	"sort"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// step is what a process wrote between two readings.
type step struct {
	from, to time.Duration
	written  uint64 // max of the next two: wchar is blind to mapped and asynchronous writes, write_bytes to tmpfs
	wchar    uint64
	dirtied  uint64 // write_bytes
	calls    uint64
	read     uint64
	cpu      time.Duration // of all threads
	mainRun  time.Duration // of the main thread, on a CPU
	hasMain  bool
	before   waitKind // what the main thread was blocked in at its beginning
	kind     waitKind // ... and at its end
}

func (s *step) length() time.Duration { return s.to - s.from }

// rate is bytes per second.
func (s *step) rate() float64 {
	if s.to <= s.from {
		return 0
	}
	return float64(s.written) / s.length().Seconds()
}

// ioReading is one reading of a process's counters.
type ioReading struct {
	at   time.Duration
	io   snapshot.IO
	cpu  time.Duration
	run  time.Duration
	main bool
	kind waitKind
}

// writerLog turns the readings of one process into steps.
type writerLog struct {
	last *ioReading
}

// steps are the steps since the previous frame. In a frame in which children were reaped, their whole history lands in the
// parent's counters at one moment: what the model says is not the process's own is taken out of the largest steps.
func (w *writerLog) steps(p *model.Proc, fast []*snapshot.FastSample) []step {
	var out []step
	take := func(r ioReading) {
		if w.last != nil && r.at > w.last.at {
			out = append(out, stepOf(w.last, &r))
		}
		if w.last == nil || r.at > w.last.at {
			w.last = &r
		}
	}
	for _, s := range fast {
		if s.IO == nil || s.At > p.Raw.At {
			continue
		}
		r := ioReading{at: s.At, io: *s.IO, cpu: s.UTime + s.STime, kind: classify(s.State, s.Wait)}
		if s.Sched != nil {
			r.run, r.main = s.Sched.Run, true
		}
		take(r)
	}
	if p.Raw.IO != nil {
		r := ioReading{at: p.Raw.At, io: *p.Raw.IO, cpu: p.Raw.UTime + p.Raw.STime, kind: classify(p.Raw.State, p.Raw.Wait)}
		if p.Raw.Sched != nil {
			r.run, r.main = p.Raw.Sched.Run, true
		}
		take(r)
	}
	if d := p.Delta; d != nil && d.IO != nil && d.IO.Reaped {
		removeInherited(out, d.IO)
	}
	return out
}

func stepOf(a, b *ioReading) step {
	s := step{
		from: a.at, to: b.at, wchar: minus(b.io.WChar, a.io.WChar), dirtied: minus(b.io.WriteBytes, a.io.WriteBytes),
		calls: minus(b.io.SyscW, a.io.SyscW), read: minus(b.io.RChar, a.io.RChar), before: a.kind, kind: b.kind,
		cpu: max(0, b.cpu-a.cpu), mainRun: max(0, b.run-a.run), hasMain: a.main && b.main,
	}
	s.written = max(s.wchar, s.dirtied)
	return s
}

// minus is a difference of counters; one that went down is a reset.
func minus(b, a uint64) uint64 {
	if b < a {
		return 0
	}
	return b - a
}

// removeInherited cuts the steps down to what the process did itself.
func removeInherited(steps []step, own *model.IODelta) {
	cut := func(get func(*step) *uint64, own uint64) {
		var sum uint64
		for i := range steps {
			sum += *get(&steps[i])
		}
		order := make([]*uint64, len(steps))
		for i := range steps {
			order[i] = get(&steps[i])
		}
		sort.Slice(order, func(i, j int) bool { return *order[i] > *order[j] })
		over := minus(sum, own)
		for _, v := range order {
			d := min(over, *v)
			*v -= d
			over -= d
		}
	}
	cut(func(s *step) *uint64 { return &s.wchar }, own.WChar)
	cut(func(s *step) *uint64 { return &s.dirtied }, own.WriteBytes)
	cut(func(s *step) *uint64 { return &s.calls }, own.SyscW)
	cut(func(s *step) *uint64 { return &s.read }, own.RChar)
	for i := range steps {
		steps[i].written = max(steps[i].wchar, steps[i].dirtied)
	}
}
