package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// longGap is the step beyond which a difference says nothing about "now": the machine slept, or the agent was stopped or
// started again. Totals go on over it, rates do not.
const longGap = 15 * time.Second

// delta is the one place where counters are subtracted. A counter that went down was reset (or torn): there is no
// difference then, and ok is false.
func delta[T ~uint64 | ~int64](cur, prev T) (d T, ok bool) {
	if cur < prev {
		return 0, false
	}
	return cur - prev, true
}

// grown is the growth of a counter, 0 when it went down.
func grown[T ~uint64 | ~int64](cur, prev T) T {
	d, _ := delta(cur, prev)
	return d
}

// ioFields are the counters of /proc/PID/io that are counted, in the order of their names in ioField….
type ioFields [6]uint64

const (
	ioRChar = iota
	ioWChar
	ioSyscR
	ioSyscW
	ioReadBytes
	ioWriteBytes
)

func fieldsOf(io *snapshot.IO) ioFields {
	return ioFields{io.RChar, io.WChar, io.SyscR, io.SyscW, io.ReadBytes, io.WriteBytes}
}

// minus is the difference field by field. It fails as a whole when one field went down: the others are then not to be
// trusted either.
func (f ioFields) minus(prev ioFields) (ioFields, bool) {
	var d ioFields
	for i := range f {
		var ok bool
		if d[i], ok = delta(f[i], prev[i]); !ok {
			return ioFields{}, false
		}
	}
	return d, true
}

// less takes away as much of g as there is, field by field.
func (f ioFields) less(g ioFields) ioFields {
	for i := range f {
		f[i] = grown(f[i], g[i])
	}
	return f
}

func (f ioFields) plus(g ioFields) ioFields {
	for i := range f {
		f[i] += g[i]
	}
	return f
}

func (f ioFields) min(g ioFields) ioFields {
	for i := range f {
		f[i] = min(f[i], g[i])
	}
	return f
}

func (f ioFields) max(g ioFields) ioFields {
	for i := range f {
		f[i] = max(f[i], g[i])
	}
	return f
}

func (f ioFields) zero() bool { return f == ioFields{} }

// share is the i-th of n nearly equal parts of f, which add up to f.
func (f ioFields) share(i, n int) ioFields {
	for k := range f {
		whole := f[k]
		f[k] = whole / uint64(n)
		if uint64(i) < whole%uint64(n) {
			f[k]++
		}
	}
	return f
}

// covers is true when f holds all of g.
func (f ioFields) covers(g ioFields) bool {
	for i := range f {
		if f[i] < g[i] {
			return false
		}
	}
	return true
}

// holdsHalf is true when f has at least half of each large field of g: the two are read at different moments, and one of them
// is an estimate.
func (f ioFields) holdsHalf(g ioFields) bool {
	for i := range f {
		if g[i] > unseenSlack && f[i] < g[i]/2 {
			return false
		}
	}
	return true
}

// part is f times g/of, field by field: half of it where of is nothing.
func (f ioFields) part(g, of ioFields) ioFields {
	for i := range f {
		weight := 0.5
		if of[i] > 0 {
			weight = float64(g[i]) / float64(of[i])
		}
		f[i] = min(f[i], uint64(float64(f[i])*weight))
	}
	return f
}
