package torch

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
	"github.com/ptlaunch/ptlaunch/test/torchenv"
)

// Set by TestMain, read by the tests.
var ptlaunch, python string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: -short asks for the tests that need nothing but Go, and these need PyTorch")
		return 0
	}
	var err error
	if python, err = torchenv.Python(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "ptlaunch-torch-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ptlaunch = filepath.Join(dir, "ptlaunch")
	build := exec.Command("go", "build", "-o", ptlaunch, "../../cmd/ptlaunch")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build ptlaunch:", err)
		return 1
	}
	return m.Run()
}

// fact is what one process of a job wrote about itself.
type fact struct {
	Role       string `json:"role"` // rank, worker, pool_child
	PID        int32  `json:"pid"`
	Ticks      uint64 `json:"ticks"`
	Mono       int64  `json:"mono"` // when it wrote, ns
	Rank       int    `json:"rank"`
	Loader     int    `json:"loader"`
	Slot       int    `json:"slot"`
	Generation int    `json:"generation"`
}

func (f fact) id() snapshot.ProcID { return snapshot.ProcID{PID: f.PID, StartTicks: f.Ticks} }

// result is a job that has run under ptlaunch.
type result struct {
	code   int
	stderr string
	folder string // the run folder
	truth  []fact
}

// launch runs python with the arguments under ptlaunch, in a fresh folder of its own.
func launch(t *testing.T, args ...string) *result {
	t.Helper()
	dir := t.TempDir()
	truth := filepath.Join(dir, "truth")
	if err := os.Mkdir(truth, 0o755); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(ptlaunch, append([]string{"--", python}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "TRUTH="+truth, "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1",
		"OTEL_METRIC_EXPORT_INTERVAL=1000") // so that short jobs have a course of time to look at
	err := cmd.Run()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatalf("run ptlaunch: %v", err)
	}
	r := &result{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
	if r.folder, err = filepath.EvalSymlinks(filepath.Join(dir, "ptlaunch-runs", "latest")); err != nil {
		t.Fatalf("no run folder: %v\nstdout: %s\nstderr: %s", err, &stdout, &stderr)
	}
	files, err := filepath.Glob(filepath.Join(truth, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var f fact
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.truth = append(r.truth, f)
		}
	}
	if t.Failed() || r.code != 0 {
		t.Logf("exit %d\nstdout: %s\nstderr: %s", r.code, &stdout, &stderr)
	}
	return r
}

func (r *result) of(role string) []fact {
	var list []fact
	for _, f := range r.truth {
		if f.Role == role {
			list = append(list, f)
		}
	}
	return list
}

// frames judges the run's recording again.
func (r *result) frames(t *testing.T) []*model.Frame {
	t.Helper()
	reader, err := snapshot.NewReader(filepath.Join(r.folder, "recording"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	builder := model.NewBuilder(model.BuilderConfig{})
	var frames []*model.Frame
	for {
		s, err := reader.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, builder.Add(s))
	}
	if d := reader.Damage(); len(d) > 0 {
		t.Errorf("the recording is damaged: %v", d)
	}
	return frames
}

// sight is one process in one frame.
type sight struct {
	at time.Duration
	model.Identity
	start time.Duration
}

// sights is everything that was said about every process, in order of time.
func sights(frames []*model.Frame) map[snapshot.ProcID][]sight {
	seen := map[snapshot.ProcID][]sight{}
	for _, f := range frames {
		for _, p := range f.Procs {
			seen[p.ID] = append(seen[p.ID], sight{f.Mono, p.Identity, p.Start})
		}
		for _, e := range f.Ended {
			seen[e.ID] = append(seen[e.ID], sight{f.Mono, e.Identity, e.Start})
		}
	}
	return seen
}

// blob makes a file of so many bytes for the job to read.
func blob(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789abcdef"), size/16), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// abs is the path of a file of the repository, from this package's folder.
func abs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
