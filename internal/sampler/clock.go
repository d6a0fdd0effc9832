package sampler

import "github.com/ptlaunch/ptlaunch/internal/sampler/clock"

// Clock reads CLOCK_MONOTONIC; see package clock.
type Clock = clock.Clock

// NewClock returns a clock.
func NewClock() Clock { return clock.New() }
