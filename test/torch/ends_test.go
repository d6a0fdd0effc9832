package torch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/report"
)

// TestEnd: the exit code is the job's own, and the summary names it and what was seen.
func TestEnd(t *testing.T) {
	r := launch(t, abs(t, "testdata/job.py"), "--data", blob(t, 8*mb), "--epochs=1", "--step=0.8", "--exit=3")
	if r.code != 3 {
		t.Errorf("exit code %d, want 3", r.code)
	}
	for _, want := range []string{"job.py", "1 rank x 2 workers", "exit 3"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("the summary lacks %q:\n%s", want, r.stderr)
		}
	}
	data, err := os.ReadFile(filepath.Join(r.folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc report.Document
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.End.ExitCode == nil || *doc.End.ExitCode != 3 {
		t.Errorf("report.json: exit code %v, want 3", doc.End.ExitCode)
	}
	if doc.Shape.Ranks != 1 || doc.Shape.Workers != 2 || doc.Shape.WorkerStarts != 2 {
		t.Errorf("report.json: shape %+v, want 1 rank, 2 workers, 2 starts", doc.Shape)
	}
}

// TestExamples: the scripts that users start from run under ptlaunch as they are.
func TestExamples(t *testing.T) {
	small := []string{"--images=128", "--epochs=1", "--batch-size=16"}
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"train.py", []string{abs(t, "../../examples/train.py")}},
		{"ddp.py", []string{abs(t, "../../examples/torchrun.py"), "--standalone", "--nproc_per_node=2", abs(t, "../../examples/ddp.py")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := launch(t, append(tc.args, small...)...)
			if r.code != 0 {
				t.Fatalf("exit code %d", r.code)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(r.folder)), "checkpoints", "epoch-001.pt")); err != nil {
				t.Error(err)
			}
		})
	}
}
