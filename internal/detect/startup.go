package detect

import (
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// startup finds the moment at which a rank begins to train. With workers that is when the first ones have delivered their
// first batch: the rank waits for it in the loader's pipe, and then runs. Without, it is the first backward pass (its thread has a name in recent
// versions), the first work of the rank's GPU, or, when nothing else is known, the moment since when the rank is active but
// its resident memory no longer grows: imports, model building and the first steps map memory all the time.
type startup struct {
	done bool
	at   time.Duration // the end of the start
	rss  []memoryAt

	firstBirth, lastBirth time.Duration // of the first workers
	waited                bool          // the rank was seen waiting for them
	free                  time.Duration // when it was first seen doing something else
}

// batchRun is the CPU time that handling a batch takes at the least: a rank that only waits does not run at all but when its
// poll times out, every 5 s.
const batchRun = 200 * time.Microsecond

// firstBatchLimit is how long after the last birth a rank that was never seen waiting is taken to have its first batch.
const firstBatchLimit = time.Second

// slice looks at one slice of a rank whose first workers are born.
func (s *startup) slice(x *slice) {
	if s.done || s.firstBirth == 0 || x.from < s.lastBirth {
		return
	}
	blocked := x.blocked > x.length()/2
	switch {
	case s.waited && x.run >= batchRun:
		s.end(x.from)
		return
	case blocked && (phaseOf(x.kind, x.around) == inData || x.kind == waitPoll || x.kind == waitLoaderPipe):
		s.waited = true
	case s.free == 0:
		s.free = x.from
	}
	if !s.waited && s.free > 0 && x.to-s.lastBirth > firstBatchLimit {
		s.end(s.free)
	}
}

type memoryAt struct {
	at     time.Duration
	rss    uint64
	active bool
}

// observe looks at one frame of a rank that has not started yet.
func (s *startup) observe(p *model.Proc, gpuBusy bool, t *Thresholds) {
	if s.done || s.firstBirth > 0 {
		return
	}
	at := p.Raw.At
	switch {
	case gpuBusy || hasThread(p.Info, "pt_autograd"):
		s.end(at)
		return
	}
	s.rss = append(s.rss, memoryAt{at: at, rss: p.Raw.RSS, active: active(p)})
	for len(s.rss) > 1 && at-s.rss[1].at >= seconds(t.PlateauSeconds) {
		s.rss = s.rss[1:]
	}
	if first := s.rss[0]; at-first.at >= seconds(t.PlateauSeconds) && s.flat(t.PlateauGrowth) {
		s.end(first.at)
	}
}

func (s *startup) end(at time.Duration) { s.done, s.at, s.rss = true, at, nil }

// flat says whether memory has not grown within the window and the rank was doing something in most of it.
func (s *startup) flat(growth float64) bool {
	lowest, busy := s.rss[0].rss, 0
	for _, m := range s.rss {
		lowest = min(lowest, m.rss)
		if m.active {
			busy++
		}
	}
	last := s.rss[len(s.rss)-1].rss
	return lowest > 0 && float64(last)-float64(lowest) <= growth*float64(lowest) && 2*busy > len(s.rss)
}

// active says whether the rank's main thread works or reads. Waiting for a rendezvous is neither.
func active(p *model.Proc) bool {
	if d := p.Delta; d != nil && d.Main != nil && d.Main.Run+d.Main.RunQueue > d.Elapsed/5 {
		return true
	}
	k := classify(p.Raw.State, p.Raw.Wait)
	return k == waitNone || k == waitSleep || k.isRead()
}

func hasThread(info *snapshot.ProcInfo, prefix string) bool {
	if info == nil {
		return false
	}
	for _, n := range info.Threads {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	return false
}
