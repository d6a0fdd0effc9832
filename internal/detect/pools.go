package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// watchPools notes when the rank's workers were born: until the last of a generation is there, the main thread is busy
// forking, which is not compute although it runs.
func (a *accounts) watchPools(f *model.Frame, tl *timeline) {
	for i := range f.Pools {
		pool := &f.Pools[i]
		if pool.OfRank != tl.id {
			continue
		}
		first, last := pool.Start, pool.Start
		for _, id := range pool.Members {
			if p := procOf(f, id); p != nil {
				last = max(last, p.Start)
			}
		}
		if pool.End > 0 {
			tl.pools.ended = max(tl.pools.ended, pool.End)
		}
		if tl.pools.see(first, last) {
			begin := first
			if e := tl.pools.ended; e > 0 && e < first && first-e <= time.Second {
				begin = e // joining the old ones and making the new ones is one pause
			}
			tl.forks = append(tl.forks, window{begin, last})
			if len(tl.forks) > 8 {
				tl.forks = tl.forks[1:]
			}
		} else if n := len(tl.forks); n > 0 && last-first < 5*time.Second {
			tl.forks[n-1].to = max(tl.forks[n-1].to, last)
		}
	}
}

// poolWatch follows the newest generation of a rank's workers until it has delivered its first batch.
type poolWatch struct {
	generations int
	newest      time.Duration
	firstBirth  time.Duration
	ended       time.Duration // when the latest generation ended
	firstLast   time.Duration // the last birth of the first generation
	lastBirth   time.Duration
	waited      bool // the rank was seen waiting for its first batch
	waiting     bool // for the first batch of the newest generation
}

// see notes a pool; it says whether the pool is new.
func (w *poolWatch) see(first, last time.Duration) bool {
	if w.firstBirth == 0 || first < w.firstBirth {
		w.firstBirth = first
	}
	if first > w.newest {
		w.newest, w.lastBirth, w.waiting, w.waited = first, last, true, false
		if w.generations++; w.generations == 1 {
			w.firstLast = last
		}
		return true
	}
	if first == w.newest {
		w.lastBirth = max(w.lastBirth, last)
	}
	if w.generations == 1 {
		w.firstLast = w.lastBirth
	}
	return false
}
