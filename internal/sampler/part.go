package sampler

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Part fills one portion of a snapshot: the devices, the GPUs, the cgroup…
//
// Read is called once per tick, from the sampler's goroutine, after the processes of the tick were read, so that it may look
// at s.Procs, s.Infos and s.Files. now is CLOCK_MONOTONIC. It must not block: a slow source sits behind a Latest. It may
// keep a beat of its own and add nothing in a tick in which it is not due. What it cannot read becomes an entry of s.Gaps.
// It keeps nothing of s after it returned, and puts nothing in it that it will change later.
//
// A Part that also implements io.Closer is closed once, by Sampler.Close, after the last Read.
type Part interface {
	Read(now time.Duration, s *snapshot.Snapshot)
}
