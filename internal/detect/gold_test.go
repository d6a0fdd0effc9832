package detect_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The gold recordings are real jobs (two DDP ranks, two workers each; the last one without workers), with the truth that the
// job logged about itself. testdata/goldconv made them.
var goldRuns = []string{"gold_fast", "gold_slow", "gold_w0"}

type truthSpan struct {
	Rank  int     `json:"rank"`
	Phase string  `json:"phase"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
}

// truthPhase maps what the job logged to our phases.
var truthPhase = map[string]detect.Phase{
	"start": detect.PhaseStartup, "data": detect.PhaseDataWait, "compute": detect.PhaseCompute,
	"ckpt": detect.PhaseCheckpoint, "barrier": detect.PhasePeerWait, "end": detect.PhaseShutdown,
}

func readTruth(t *testing.T, run string) []truthSpan {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", run, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spans []truthSpan
	if err := json.Unmarshal(b, &spans); err != nil {
		t.Fatal(err)
	}
	return spans
}

// verdict is what a replay found.
type verdict struct {
	budgets     []detect.Budget
	checkpoints []*detect.Checkpoint // closed
	stalls      []*detect.Stall      // closed
	ranks       []model.Rank
	events      []detect.Event
}

// replay judges a recording; change may alter every snapshot first.
func replay(t *testing.T, run string, change func(*snapshot.Snapshot)) verdict {
	t.Helper()
	r, err := snapshot.NewReader(filepath.Join("testdata", run))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := model.NewBuilder(model.BuilderConfig{})
	set := detect.NewSet(detect.Default())
	var v verdict
	var last *model.Frame
	for {
		s, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(s)
		}
		last = b.Add(s)
		v.take(set.Observe(last))
	}
	v.ranks = last.Ranks
	v.take(set.Finish(last.Mono, model.Outcome{}))
	return v
}

func (v *verdict) take(f *detect.Findings) {
	v.budgets = f.Budgets
	v.events = append(v.events, f.Events...)
	for _, e := range f.Events {
		if e.Kind != detect.Closed {
			continue
		}
		if e.Checkpoint != nil {
			v.checkpoints = append(v.checkpoints, e.Checkpoint)
		} else {
			v.stalls = append(v.stalls, e.Stall)
		}
	}
}

// withoutSyscalls is what a user sees whose kernel denies /proc/PID/syscall (Yama's ptrace scope 1).
func withoutSyscalls(s *snapshot.Snapshot) {
	for i := range s.Procs {
		if s.Procs[i].Wait != nil {
			s.Procs[i].Wait.Syscall = nil
		}
	}
	for i := range s.Fast {
		if s.Fast[i].Wait != nil {
			s.Fast[i].Wait.Syscall = nil
		}
	}
}

// goldShares is the truth of a rank in seconds by phase. What the job logged before its first batch is its start, as the
// product defines it, and so is the time before its first line; its end lasts until the process is gone.
func goldShares(v verdict, truth []truthSpan, rank int) map[detect.Phase]float64 {
	want := map[detect.Phase]float64{}
	first := true
	for _, s := range truth {
		if s.Rank != rank {
			continue
		}
		p := truthPhase[s.Phase]
		if first && p == detect.PhaseDataWait {
			p, first = detect.PhaseStartup, false
		}
		want[p] += s.To - s.From
	}
	for _, r := range v.ranks {
		if r.Rank == rank {
			want[detect.PhaseStartup] += firstOf(truth, rank) - r.Start.Seconds()
			want[detect.PhaseShutdown] += r.End.Seconds() - lastOf(truth, rank)
		}
	}
	return want
}

// goldTolerance is in shares of the wall time. The machine of these recordings was loaded several times over, and the truth
// does not split what a step spends in its collectives: compute and peer_wait are compared together.
const goldTolerance = 0.08

func TestGoldPhases(t *testing.T) {
	for _, run := range goldRuns {
		for name, change := range map[string]func(*snapshot.Snapshot){"": nil, " without system calls": withoutSyscalls} {
			t.Run(run+name, func(t *testing.T) {
				v, truth := replay(t, run, change), readTruth(t, run)
				for _, b := range v.budgets {
					comparePhases(t, b, goldShares(v, truth, b.Rank))
				}
			})
		}
	}
}

func comparePhases(t *testing.T, b detect.Budget, want map[detect.Phase]float64) {
	t.Helper()
	var wall, sum float64
	for _, p := range detect.Phases {
		wall += want[p]
		sum += b.Time[p].Seconds()
	}
	if sum < wall-0.3 || sum > wall+0.3 {
		t.Errorf("rank %d: phases sum to %.2f s, it lived %.2f s", b.Rank, sum, wall)
	}
	step := func(m func(detect.Phase) float64) float64 { return m(detect.PhaseCompute) + m(detect.PhasePeerWait) }
	got := func(p detect.Phase) float64 { return b.Time[p].Seconds() / sum }
	real := func(p detect.Phase) float64 { return want[p] / wall }
	for _, p := range detect.Phases {
		g, w := got(p), real(p)
		switch p {
		case detect.PhaseCompute:
			g, w = step(got), step(real)
		case detect.PhasePeerWait:
			continue
		}
		if g < w-goldTolerance || g > w+goldTolerance {
			t.Errorf("rank %d: %s %.1f%%, the job says %.1f%%", b.Rank, p, 100*g, 100*w)
		}
	}
}

// TestGoldCheckpoints: every save is found, nothing else is, and the bounds are those of the job within two samples.
func TestGoldCheckpoints(t *testing.T) {
	for _, run := range goldRuns {
		for name, change := range map[string]func(*snapshot.Snapshot){"": nil, " without system calls": withoutSyscalls} {
			t.Run(run+name, func(t *testing.T) {
				v := replay(t, run, change)
				var want []truthSpan
				for _, s := range readTruth(t, run) {
					if s.Phase == "ckpt" {
						want = append(want, s)
					}
				}
				if len(v.checkpoints) != len(want) {
					t.Fatalf("%d checkpoints, the job made %d: %+v", len(v.checkpoints), len(want), v.checkpoints)
				}
				for i, c := range v.checkpoints {
					near(t, "start", c.Start, time.Duration(want[i].From*float64(time.Second)), 200*time.Millisecond)
					near(t, "end", c.End, time.Duration(want[i].To*float64(time.Second)), 200*time.Millisecond)
					if c.Rank != want[i].Rank || c.Background || c.Size < 83_500_000 || c.Size > 84_500_000 {
						t.Errorf("%+v, want 84 MB of rank %d", c, want[i].Rank)
					}
				}
			})
		}
	}
}

// TestGoldCauses: what the recordings show is known from how they were made.
func TestGoldCauses(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Snapshot){"": nil, " without system calls": withoutSyscalls} {
		t.Run("gold_w0"+name, func(t *testing.T) {
			v := replay(t, "gold_w0", change)
			for rank := range 2 {
				if s := v.stall(rank, detect.PhaseDataWait); s == nil || s.Cause != detect.CauseNoWorkers {
					t.Errorf("rank %d: %+v", rank, s)
				}
			}
			if s := v.stall(1, detect.PhasePeerWait); s == nil || s.Cause != detect.CausePeer || s.Culprit != "rank 0" {
				t.Errorf("rank 1 waits for rank 0's save: %+v", s)
			}
		})
	}
}

func firstOf(spans []truthSpan, rank int) float64 {
	for _, s := range spans {
		if s.Rank == rank {
			return s.From
		}
	}
	return 0
}

func lastOf(spans []truthSpan, rank int) (at float64) {
	for _, s := range spans {
		if s.Rank == rank {
			at = s.To
		}
	}
	return at
}
