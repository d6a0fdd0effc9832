package detect_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// sumsToWall checks that a rank's phases sum to its wall time exactly.
func sumsToWall(t *testing.T, v verdict, end time.Duration) {
	t.Helper()
	for _, b := range v.budgets {
		var sum time.Duration
		for p, d := range b.Time {
			if d < 0 {
				t.Errorf("rank %d: %s is negative: %v", b.Rank, p, d)
			}
			sum += d
		}
		for _, r := range v.ranks {
			if r.ID != b.OfRank {
				continue
			}
			last := end
			if r.End > 0 {
				last = r.End
			}
			if wall := last - r.Start; sum != wall {
				t.Errorf("rank %d: phases sum to %v, it lived %v", b.Rank, sum, wall)
			}
		}
	}
}

func TestPhasesSumToWallTime(t *testing.T) {
	for _, s := range scenarios {
		j := s.build()
		j.warmUp()
		j.run(20)
		sumsToWall(t, j.finish(), j.now)
	}
}

func TestPhaseShares(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	j.warmUp()
	j.run(54)
	v := j.finish()
	if s := v.share(0, detect.PhaseDataWait); s < 0.42 || s > 0.48 { // half of 54 of 60 seconds
		t.Errorf("data_wait %.2f", s)
	}
}

func TestStallIsToldWithinFiveSeconds(t *testing.T) {
	j := newJob(1, 2)
	j.workers(always(readDisk))
	j.rank(0).play = func(i int) act {
		if i >= 203 {
			return forData
		}
		return computing
	}
	j.warmUp()
	j.run(24)
	for _, e := range j.verdict.events {
		if e.Kind != detect.Opened || e.Stall == nil {
			continue
		}
		near(t, "start", e.Stall.Start, tickTime(203), 100*time.Millisecond)
		if late := e.At - tickTime(203); late > 5*time.Second {
			t.Errorf("opened %v after its start", late)
		}
		return
	}
	t.Fatal("no stall was opened")
}

// TestRegularLossesAreOneStall: a loss in every step is one stall with a share.
func TestRegularLossesAreOneStall(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	j.warmUp()
	j.run(60)
	if v := j.finish(); len(v.stalls) != 1 {
		t.Errorf("%d stalls: %+v", len(v.stalls), v.stalls)
	}
}

// TestEventsAreConsistent: every interval is opened once and closed once, with one id, in that order.
func TestEventsAreConsistent(t *testing.T) {
	for _, s := range scenarios {
		j := s.build()
		j.warmUp()
		j.run(40)
		state := map[uint64]detect.EventKind{}
		for _, e := range j.finish().events {
			id := uint64(0)
			var iv detect.Interval
			if e.Stall != nil {
				id, iv = e.Stall.ID, e.Stall.Interval
			} else {
				id, iv = e.Checkpoint.ID, e.Checkpoint.Interval
			}
			if iv.End < iv.Start {
				t.Errorf("%s: ends before it starts: %+v", s.name, iv)
			}
			switch was := state[id]; {
			case e.Kind == detect.Opened && was != "", e.Kind != detect.Opened && (was == "" || was == detect.Closed):
				t.Errorf("%s: interval %d is %s after %q", s.name, id, e.Kind, was)
			}
			state[id] = e.Kind
		}
		for id, k := range state {
			if k != detect.Closed {
				t.Errorf("%s: interval %d is left %s", s.name, id, k)
			}
		}
	}
}

func TestMissingTicks(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	j.warmUp()
	j.run(10)
	j.frame(300) // the agent was stopped for 30 s; the job was not
	j.run(10)
	v := j.finish()
	sumsToWall(t, v, j.now)
	if s := v.share(0, detect.PhaseDataWait); s < 0.38 || s > 0.5 {
		t.Errorf("data_wait %.2f across a gap", s)
	}
}

func TestFrameThatDoesNotMoveTime(t *testing.T) {
	j := loaders(1, 1, always(readDisk))()
	j.warmUp()
	f := &model.Frame{Mono: j.now - time.Second}
	if got := j.set.Observe(f); len(got.Events) != 0 || len(got.Budgets) != 1 {
		t.Errorf("%+v", got)
	}
	j.run(5)
	sumsToWall(t, j.finish(), j.now)
}

func TestVeryShortJob(t *testing.T) {
	j := newJob(1, 0)
	j.rank(0).play = always(computing)
	j.frame(2)
	v := j.finish()
	sumsToWall(t, v, j.now)
	if len(v.stalls)+len(v.checkpoints) > 0 {
		t.Errorf("found %v %v", v.stalls, v.checkpoints)
	}
}

func TestNoFrameAtAll(t *testing.T) {
	f := detect.NewSet(detect.Default()).Finish(0, model.Outcome{})
	if len(f.Events)+len(f.Budgets) != 0 {
		t.Errorf("%+v", f)
	}
}

// TestRestartedRank: torchrun starts the rank again; it is another life with a budget of its own.
func TestRestartedRank(t *testing.T) {
	j := newJob(1, 0)
	j.rank(0).play = pattern(turn{computing, 5}, turn{readDisk, 5})
	j.warmUp()
	j.run(10)
	j.kill(j.rank(0))
	j.run(2)
	second := &fake{
		id: j.procs[0].id, role: model.RoleRank, slot: model.None, start: j.now, rss: 1 << 30, play: pattern(turn{computing, 5}, turn{readDisk, 5}),
	}
	second.id.StartTicks += 1800
	second.of = second.id
	j.procs = append(j.procs, second)
	j.run(15)
	v := j.finish()
	if len(v.budgets) != 2 {
		t.Fatalf("%d budgets, want 2", len(v.budgets))
	}
	sumsToWall(t, v, j.now)
}

// TestAttachedLate: a rank that is old in the first frame is accounted from there, and is not starting.
func TestAttachedLate(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	for _, p := range j.procs {
		p.start = 10 * time.Second
		p.sched.Run = 50 * time.Second
	}
	j.run(20)
	v := j.finish()
	if s := v.share(0, detect.PhaseStartup); s != 0 {
		t.Errorf("startup %.2f", s)
	}
	if s := v.stall(0, detect.PhaseDataWait); s == nil || s.Cause != detect.CauseStorageThroughput {
		t.Errorf("stall %+v", s)
	}
}

// TestMemoryIsBounded plays a long run and compares the heap halfway with the heap at its end.
func TestMemoryIsBounded(t *testing.T) {
	j := trainer(saving, 3)
	j.rank(0).play = pattern(turn{computing, 40}, turn{forData, 30}, turn{saving, 10})
	heap := func() uint64 {
		j.verdict = verdict{}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	step := func(n int) uint64 {
		for range n {
			j.run(10)
			j.verdict = verdict{}
		}
		return heap()
	}
	j.warmUp()
	first := step(100)
	second := step(400)
	if second > first+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes in 4000 frames", first, second)
	}
}

func BenchmarkObserve(b *testing.B) {
	j := loaders(8, 8, always(readDisk))()
	j.warmUp()
	b.ResetTimer()
	for b.Loop() {
		j.run(1)
		j.verdict = verdict{}
	}
}
