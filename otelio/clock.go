package otelio

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// clock turns monotonic time into wall time. The two readings of a frame are some nanoseconds apart each time; taking the
// difference anew for every frame would make start times wobble, which a backend takes for a restarted counter. So the
// difference is kept until the wall clock really steps.
type clock struct{ offset time.Time } // wall time at monotonic zero

// clockStep is how far the wall clock must have moved to be believed.
const clockStep = 100 * time.Millisecond

func newClock(run *model.Run) clock { return clock{run.Start.Add(-run.StartMono)} }

func (c *clock) see(f *model.Frame) {
	now := f.Wall.Add(-f.Mono)
	if d := now.Sub(c.offset); d > clockStep || d < -clockStep {
		c.offset = now
	}
}

func (c *clock) wall(mono time.Duration) time.Time { return c.offset.Add(mono).Round(0) }
