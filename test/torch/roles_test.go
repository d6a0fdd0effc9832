package torch

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

const mb = 1 << 20

const stamp = "05.000"

// TestProcessesAreNamed runs real jobs and asks of every process that wrote down who it is whether ptlaunch said the same.
func TestProcessesAreNamed(t *testing.T) {
	job := abs(t, "testdata/job.py")
	torchrun := []string{abs(t, "../../examples/torchrun.py"), "--standalone", "--nproc_per_node=2", job}
	for _, tc := range []struct {
		name   string
		start  []string // in front of the job's own arguments
		method string
		args   []string
		ranks  int
		pools  int // of each rank, over all loaders and generations
	}{
		{"plain fork, two loaders, a pool and a helper", []string{job}, "fork", []string{"--loaders=2", "--pool"}, 1, 4},
		{"plain fork, persistent", []string{job}, "fork", []string{"--persistent"}, 1, 1},
		{"plain spawn, a pool and a helper", []string{job}, "spawn", []string{"--pool"}, 1, 2},
		{"plain forkserver, persistent, two loaders", []string{job}, "forkserver", []string{"--persistent", "--loaders=2"}, 1, 2},
		{"torchrun fork", torchrun, "fork", nil, 2, 2},
		{"torchrun spawn, persistent", torchrun, "spawn", []string{"--persistent"}, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append(append([]string{}, tc.start...), "--data", blob(t, 8*mb), "--bytes-per-epoch", strconv.Itoa(8*mb),
				"--start-method", tc.method, "--step=0.8")
			r := launch(t, append(args, tc.args...)...)
			if r.code != 0 {
				t.Fatalf("exit code %d", r.code)
			}
			if n := len(r.of("rank")); n != tc.ranks {
				t.Fatalf("the job logged %d ranks, want %d", n, tc.ranks)
			}
			if n := len(r.of("worker")); n != 2*tc.ranks*tc.pools {
				t.Fatalf("the job logged %d workers, want %d", n, 2*tc.ranks*tc.pools)
			}
			if !slices.Contains(tc.args, "--persistent") {
				// Loaders whose workers never live at the same time cannot be told apart from outside: they count as
				// generations of one.
				for i := range r.truth {
					r.truth[i].Loader = 0
				}
			}
			checkNames(t, r, tc.method)
			checkSpans(t, r, tc.method, tc.pools)
		})
	}
}

// checkNames compares the last word on every process, and how soon workers were known.
func checkNames(t *testing.T, r *result, method string) {
	seen := sights(r.frames(t))
	workers := map[int32]bool{}
	for _, f := range r.truth {
		list := seen[f.id()]
		if len(list) == 0 {
			t.Errorf("%s %d was never seen", f.Role, f.PID)
			continue
		}
		last := list[len(list)-1]
		switch f.Role {
		case "rank":
			if last.Role != model.RoleRank || last.Rank != f.Rank {
				t.Errorf("rank %d (pid %d) is called %s %d: %s", f.Rank, f.PID, last.Role, last.Rank, last.Reason)
			}
		case "worker":
			workers[f.PID] = true
			checkWorker(t, f, list, method)
		}
	}
	for id, list := range seen {
		for _, s := range list {
			if s.Role == model.RoleWorker && !s.Undecided && !workers[id.PID] {
				t.Errorf("pid %d is called a worker but is none: %s", id.PID, s.Reason)
				break
			}
		}
	}
}

func checkWorker(t *testing.T, f fact, list []sight, method string) {
	last := list[len(list)-1]
	if last.Role != model.RoleWorker || last.Rank != f.Rank || last.Loader != f.Loader || last.Slot != f.Slot {
		t.Errorf("worker %d of loader %d of rank %d (pid %d) is called %s %d of loader %d of rank %d: %s",
			f.Slot, f.Loader, f.Rank, f.PID, last.Role, last.Slot, last.Loader, last.Rank, last.Reason)
		return
	}
	var slot = model.None
	for _, s := range list {
		decided := s.Role == model.RoleWorker && !s.Undecided
		// One more second for the tick in which it is seen.
		if method == "fork" && !decided && s.at-s.start > 3*time.Second {
			t.Errorf("worker %d (pid %d) was not known %.1fs after its start: %s", f.Slot, f.PID, (s.at - s.start).Seconds(), s.Reason)
			return
		}
		if !decided {
			continue
		}
		if slot != model.None && s.Slot != slot {
			t.Errorf("worker pid %d changed its slot from %d to %d", f.PID, slot, s.Slot)
		}
		slot = s.Slot
	}
}

// checkSpans compares the trace: a span per rank with its pid, and a span per pool.
func checkSpans(t *testing.T, r *result, method string, pools int) {
	spans, err := otlpread.Spans(filepath.Join(r.folder, "spans.otlp.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	pids := map[int64]int64{} // of the rank spans, by rank
	got := map[int64]int{}    // pools by rank
	for _, s := range spans {
		if !s.Final() {
			continue
		}
		rank, _ := s.Attrs.Int("pytorch.rank")
		switch s.Name {
		case "training.rank":
			pids[rank], _ = s.Attrs.Int("process.pid")
		case "dataloader.pool":
			got[rank]++
			t.Logf("pool of rank %d: %v to %v, %v", rank, s.Start.Format(stamp), s.End.Format(stamp), s.Attrs)
			if n, _ := s.Attrs.Int("pytorch.dataloader.workers"); n != 2 {
				t.Errorf("a pool of %d workers, want 2", n)
			}
			if m := s.Attrs.String("pytorch.dataloader.start_method"); m != method {
				t.Errorf("a pool is said to be started by %q, want %q", m, method)
			}
		}
	}
	for _, f := range r.of("rank") {
		if pids[int64(f.Rank)] != int64(f.PID) {
			t.Errorf("the span of rank %d has pid %d, want %d", f.Rank, pids[int64(f.Rank)], f.PID)
		}
		if got[int64(f.Rank)] != pools {
			t.Errorf("rank %d: %d pool spans, want %d", f.Rank, got[int64(f.Rank)], pools)
		}
	}
}
