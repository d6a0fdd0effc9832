package sampler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says what to sample.
type Config struct {
	Procfs   string        // where the proc file system is mounted; "" means /proc
	Interval time.Duration // between two snapshots

	// Root is the process whose descendants are the job: the supervisor of a run, or the target of an attach.
	Root int32
	// RootIsMember says whether Root itself belongs to the job: true for an attach, false for the supervisor.
	RootIsMember bool
	// Job is the pid of the job's first process, 0 when it is not known or is Root. Children that the supervisor already
	// had before (it may have been exec'ed by a shell with background jobs) are told from the job's by their age.
	Job int32
	// Exclude are processes that are no members although they descend from Root, with all their descendants: the agent.
	Exclude []int32

	Parts []Part       // read once per tick, in this order
	Log   *slog.Logger // nil: discard

}

func (c *Config) validate() error {
	switch {
	case c.Interval <= 0:
		return fmt.Errorf("sample every %v: the interval must be above 0", c.Interval)
	case c.Root <= 0:
		return errors.New("sample a job: no root process given")
	}
	if c.Procfs == "" {
		c.Procfs = "/proc"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
