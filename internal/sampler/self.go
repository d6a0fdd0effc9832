package sampler

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// self is what this process, the agent, costs itself.
func (s *Sampler) self() *snapshot.Self {
	var use unix.Rusage
	self := &snapshot.Self{Sample: s.lastPass}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err == nil {
		self.CPU = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	if s.statm.IsOpen() {
		if pages, err := s.fs.ReadResident(s.statm); err == nil {
			self.RSS = pages * uint64(os.Getpagesize())
		}
	}
	return self
}
