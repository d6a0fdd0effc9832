//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
	"github.com/ptlaunch/ptlaunch/test/torchenv"
)

// ptlaunch is the binary under test, built once.
var ptlaunch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ptlaunch-e2e")
	if err != nil {
		panic(err)
	}
	ptlaunch = filepath.Join(dir, "ptlaunch")
	if out, err := exec.Command("go", "build", "-o", ptlaunch, "../../cmd/ptlaunch").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build ptlaunch: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// launched is a finished run.
type launched struct {
	dir    string // the run folder
	stderr string
	spans  []otlpread.Span
	report report
}

// report is what these tests use of report.json.
type report struct {
	Run struct {
		ID      string `json:"id"`
		TraceID string `json:"trace_id"`
	} `json:"run"`
}

// launch runs a command under ptlaunch, with its run folder in a temporary folder, and reads what it left.
func launch(t *testing.T, environ []string, command ...string) launched {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command(ptlaunch, append([]string{"--out", out, "--"}, command...)...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, tail(stdout.String(), 2000), tail(stderr.String(), 4000))
	}
	t.Logf("ptlaunch said:\n%s", tail(stderr.String(), 2000))
	return readRun(t, filepath.Join(out, "latest"), stderr.String())
}

func readRun(t *testing.T, dir, stderr string) launched {
	t.Helper()
	run := launched{dir: dir, stderr: stderr}
	var err error
	if run.spans, err = otlpread.Spans(filepath.Join(dir, "spans.otlp.jsonl")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &run.report); err != nil {
		t.Fatal(err)
	}
	return run
}

// traceID is the trace that all spans of the run are in.
func (l launched) traceID(t *testing.T) string {
	t.Helper()
	if len(l.spans) == 0 {
		t.Fatal("the run folder holds no span")
	}
	id := l.spans[0].TraceID
	for _, s := range l.spans {
		if s.TraceID != id {
			t.Errorf("span %s %s is in trace %s, others in %s", s.Name, s.SpanID, s.TraceID, id)
		}
	}
	return id
}

func (l launched) named(name string) []otlpread.Span {
	var out []otlpread.Span
	for _, s := range l.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func python(t *testing.T) string {
	t.Helper()
	path, err := torchenv.Python()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ddp is a training of two ranks with two workers each, under torchrun.
func ddp(t *testing.T, torchrun ...string) []string {
	t.Helper()
	if len(torchrun) == 0 {
		torchrun = []string{"--standalone", "--nproc_per_node", "2"}
	}
	command := append([]string{python(t), repo(t, "examples/torchrun.py")}, torchrun...)
	return append(command, repo(t, "examples/ddp.py"), "--data", filepath.Join(os.TempDir(), "ptlaunch-e2e-data"),
		"--images", "600", "--epochs", "3", "--checkpoint-dir", t.TempDir())
}
