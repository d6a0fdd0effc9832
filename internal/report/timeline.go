package report

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// timeline remembers how the run's totals grew, in a bounded number of points: when it is full every second one goes and
// the points get twice as far apart. It is what lets the cold start be taken apart afterwards.
type timeline struct {
	points []point
	stride time.Duration
}

const maxPoints = 256

// point is the totals at one moment.
type point struct {
	at      time.Duration
	phases  [len(detect.Phases)]time.Duration // sum over ranks
	lost    [len(causes)]time.Duration
	storage uint64 // bytes read from storage by the job
}

func (t *timeline) add(at time.Duration, budgets []detect.Budget, stalls *stallBook, storage uint64) {
	if t.stride == 0 {
		t.stride = time.Second
	}
	if n := len(t.points); n > 0 && at-t.points[n-1].at < t.stride {
		return
	}
	t.points = append(t.points, makePoint(at, budgets, stalls, storage))
	if len(t.points) < maxPoints {
		return
	}
	kept := t.points[:0]
	for i := 0; i < len(t.points); i += 2 {
		kept = append(kept, t.points[i])
	}
	t.points = kept
	t.stride *= 2
}

func makePoint(at time.Duration, budgets []detect.Budget, stalls *stallBook, storage uint64) point {
	p := point{at: at, storage: storage, lost: stalls.lostByCause()}
	for _, b := range budgets {
		for i, phase := range detect.Phases {
			p.phases[i] += b.Time[phase]
		}
	}
	return p
}

// before returns the last point at or before the moment, the zero point when there is none.
func (t *timeline) before(at time.Duration) point {
	best := point{}
	for _, p := range t.points {
		if p.at > at {
			break
		}
		best = p
	}
	return best
}

// poolKey names a loader of one life of a rank.
type poolKey struct {
	rank   snapshot.ProcID
	loader int
}

// poolSpan is a loader's first pool, and whether it had a successor: only then was its end the end of an epoch.
type poolSpan struct {
	end       time.Duration
	succeeded bool
}

func (r *Recorder) pool(p model.Pool) {
	const most = 4096
	key := poolKey{rank: p.OfRank, loader: p.Loader}
	span, known := r.firstPools[key]
	switch {
	case p.Generation == 0:
		if !known && len(r.firstPools) >= most {
			return
		}
		if p.End != 0 {
			span.end = p.End
		}
		r.firstPools[key] = span
	case known && !span.succeeded:
		span.succeeded = true
		r.firstPools[key] = span
	}
}

// What makes a start cold by its reads: nearly all that the job read from storage it read then, and most of the run came
// after.
const (
	coldReadShare = 0.95
	coldMostShare = 0.6
	coldLeastRead = 32 << 20
	// A steady part shorter than this says nothing: the whole run is judged then.
	steadyLeast = 20 * time.Second
)

// coldStart finds where the first epoch ended, 0 when it cannot be told.
func (r *Recorder) coldStart() (end time.Duration, basis string) {
	for _, span := range r.firstPools {
		if span.succeeded && span.end > 0 {
			if end == 0 || span.end < end {
				end = span.end
			}
		}
	}
	if end != 0 {
		return end, "the first set of workers ended and another one followed"
	}
	if r.last == nil || len(r.timeline.points) < 2 {
		return 0, ""
	}
	total := storageRead(r.lastTotals)
	if total < coldLeastRead {
		return 0, ""
	}
	span := r.lastMono - r.firstMono
	for _, p := range r.timeline.points {
		if float64(p.storage) >= coldReadShare*float64(total) {
			if at := p.at - r.firstMono; at > 0 && float64(at) < coldMostShare*float64(span) {
				return p.at, "nearly all that was read from storage had been read by then"
			}
			break
		}
	}
	return 0, ""
}
