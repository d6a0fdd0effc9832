//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// churnJob replaces its two workers five times a second, and says how often.
const churnJob = `
import ctypes, os, sys, time
libc, end, n = ctypes.CDLL(None), time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    pids = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            libc.prctl(15, b"pt_data_worker")
            open("/proc/self/exe", "rb").read(1000000)
            time.sleep(0.2)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    n += 1
print(n)
`

// TestChurn: hundreds of generations of workers, sampled ten times a second with a piece of each long span every two seconds: as
// many pools as there were, pieces that add up to their span, no new series, and an agent that does not grow.
func TestChurn(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	cmd := exec.Command(ptlaunch, "--out", out, "--span-rotation", "2s", "--interval", "100ms", "--", python(t), "-c", churnJob, "60")
	cmd.Env = append(os.Environ(), "OTEL_METRIC_EXPORT_INTERVAL=1000", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	run := readRun(t, filepath.Join(out, "latest"), stderr.String())
	oneTrace(t, run.dir)

	var generations int
	if _, err := fmt.Sscan(stdout.String(), &generations); err != nil {
		t.Fatal(err)
	}
	pools := run.named("dataloader.pool")
	// On a loaded machine a generation may come and go between two samples.
	if n := len(pools); n > generations || n < generations*9/10 {
		t.Errorf("%d pools, the job made %d", n, generations)
	}
	for i, p := range pools {
		workers, _ := p.Attrs.Int("pytorch.dataloader.workers")
		generation, _ := p.Attrs.Int("pytorch.dataloader.generation")
		loader, _ := p.Attrs.Int("pytorch.dataloader.id")
		if workers != 2 || int(generation) != i || loader != 0 {
			t.Fatalf("pool %d is generation %d of loader %d with %d workers", i, generation, loader, workers)
		}
	}
	for _, name := range []string{"training.run", "training.node", "training.rank"} {
		checkPieces(t, run.named(name))
	}
	checkGrowth(t, run.dir)
}

// checkPieces: the pieces of a span follow each other without a hole, numbered in order, and end with the last boundary before its end.
func checkPieces(t *testing.T, spans []otlpread.Span) {
	t.Helper()
	whole := spans[slices.IndexFunc(spans, otlpread.Span.Final)]
	at, last := whole.Start, int64(-1)
	for _, s := range spans {
		if s.Final() {
			continue
		}
		sequence, _ := s.Attrs.Int("ptlaunch.span.sequence")
		if d := s.Start.Sub(at).Abs(); d > time.Millisecond || sequence <= last || s.ParentID != whole.ParentID {
			t.Fatalf("%s: piece %d after %d begins %v off the end of the one before, below %s", s.Name, sequence, last, d, s.ParentID)
		}
		at, last = s.End, sequence
	}
	if tail := whole.End.Sub(at); tail < 0 || tail > 4*time.Second || last < 20 {
		t.Errorf("%s: the last piece is number %d, %v before the end", whole.Name, last, tail)
	}
}

// checkGrowth: what the agent holds and what it exports is the same in the last third of the run as in the second.
func checkGrowth(t *testing.T, dir string) {
	t.Helper()
	points := readPoints(t, dir)
	began, length := points[0].Time, points[len(points)-1].Time.Sub(points[0].Time)
	var series [3]map[string]bool
	var memory [3]float64
	for i := range series {
		series[i] = map[string]bool{}
	}
	for _, p := range points {
		third := min(2, int(3*p.Time.Sub(began)/length))
		series[third][p.Series()] = true
		if p.Metric == "ptlaunch.self.memory.usage" {
			memory[third] = math.Max(memory[third], p.Value)
		}
	}
	for s := range series[2] {
		if !series[1][s] && !series[0][s] {
			t.Errorf("a series that was not there before: %s", s)
		}
	}
	if memory[2] > memory[1]+8<<20 {
		t.Errorf("the agent's memory grows: %.0f bytes by thirds of the run", memory)
	}
}
