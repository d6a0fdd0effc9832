// Package clock reads CLOCK_MONOTONIC, the base of every rate and duration in ptlaunch.
//
// It imports nothing of ptlaunch. A Clock is a value and may be used from several goroutines.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock reads CLOCK_MONOTONIC without a system call: Go's own monotonic reading is the same clock, from the vDSO, but with
// an origin that is private to the process. The origin is looked up once. The zero value is not usable.
type Clock struct {
	origin time.Time
	mono   time.Duration
}

// New returns a clock.
func New() Clock {
	var ts unix.Timespec
	origin := time.Now()
	// Cannot fail: the clock exists on every Linux and ts is a valid address.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return Clock{origin: origin, mono: time.Duration(ts.Nano())}
}

// Now returns CLOCK_MONOTONIC, as Snapshot.Mono and all the At fields hold it.
func (c Clock) Now() time.Duration { return c.mono + time.Since(c.origin) }
