package detect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func TestGoldDump(t *testing.T) {
	for _, run := range goldRuns {
		for _, blind := range []bool{false, true} {
			var change func(*snapshot.Snapshot)
			if blind {
				change = withoutSyscalls
			}
			v := replay(t, run, change)
			truth := readTruth(t, run)
			for _, b := range v.budgets {
				fmt.Println(run, "blind", blind, "rank", b.Rank)
				want := map[detect.Phase]float64{}
				var wall float64
				for _, s := range truth {
					if s.Rank == b.Rank {
						want[truthPhase[s.Phase]] += s.To - s.From
					}
				}
				var sum time.Duration
				for _, r := range v.ranks {
					if r.ID == b.OfRank {
						want[detect.PhaseStartup] += firstOf(truth, b.Rank) - r.Start.Seconds()
						want[detect.PhaseShutdown] += r.End.Seconds() - lastOf(truth, b.Rank)
					}
				}
				for _, p := range detect.Phases {
					wall += want[p]
					sum += b.Time[p]
				}
				for _, p := range detect.Phases {
					fmt.Printf("   %-11s %6.2f want %6.2f  %5.1f%% want %5.1f%%\n", p, b.Time[p].Seconds(), want[p], 100*b.Time[p].Seconds()/sum.Seconds(), 100*want[p]/wall)
				}
			}
			for _, c := range v.checkpoints {
				fmt.Printf("  ckpt rank %d %.2f-%.2f size %d bg %v files %d path %s ev %v caveats %v dur %v cut %q\n", c.Rank, c.Start.Seconds(), c.End.Seconds(), c.Size, c.Background, c.Files, c.Path, c.Evidence, c.Caveats, c.Durable, c.CutShort)
			}
			for _, s := range truth {
				if s.Phase == "ckpt" {
					fmt.Printf("  truth ckpt rank %d %.2f-%.2f\n", s.Rank, s.From, s.To)
				}
			}
			for _, s := range v.stalls {
				fmt.Printf("  stall rank %d %s %s %.2f-%.2f lost %.2f conf %s second %q culprit %q ev %q cav %q\n", s.Rank, s.Phase, s.Cause, s.Start.Seconds(), s.End.Seconds(), s.Lost.Seconds(), s.Confidence, s.Second, s.Culprit, s.Evidence, s.Caveats)
			}
		}
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
