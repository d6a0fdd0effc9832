package sampler

import (
	"context"
	"fmt"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Last takes one more snapshot at once, without waiting for its tick: the final counters of a run that has just ended, and
// the only ones of a run that was shorter than a tick. Ends of processes that the kernel has announced are told in it.
func (s *Sampler) Last(context.Context) (*snapshot.Snapshot, error) {
	if err := s.poll.wait(0, s.handle); err != nil {
		return nil, fmt.Errorf("take the last sample: %v", err)
	}
	if s.seq == 0 {
		s.due = s.clock.Now()
	}
	for _, p := range s.members {
		s.read(p)
	}
	return s.finish(), nil
}
