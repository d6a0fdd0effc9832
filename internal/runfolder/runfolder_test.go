package runfolder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC)

func open(t *testing.T, p Place) *Folder {
	t.Helper()
	f, err := Open(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOpen: a folder of its own for each run, the same one for a later agent of the same run, and latest on the newest.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	place := Place{Dir: dir, Out: "runs", Name: "a b/../train.py", RunID: "r1", Start: start}
	first := open(t, place)
	if want := "20261130T120000Z-a_b_.._train.py"; filepath.Base(first.Path) != want || first.Shown != filepath.Join("runs", want) {
		t.Errorf("path %s, shown %s", first.Path, first.Shown)
	}
	run := model.Run{ID: "r1", Start: start}
	if err := New(run).Write(first.Path); err != nil {
		t.Fatal(err)
	}
	again := open(t, place)
	if again.Path != first.Path || !again.Found || first.Found {
		t.Errorf("the second agent got %+v, the first %+v", again, first)
	}
	place.RunID = "r2"
	other := open(t, place)
	if other.Path != first.Path+"-2" || other.Found {
		t.Errorf("another run in the same second got %+v", other)
	}
	if to, err := os.Readlink(filepath.Join(dir, "runs/latest")); err != nil || to != filepath.Base(other.Path) {
		t.Errorf("latest points to %q (%v)", to, err)
	}
}

// TestUnwritable: a private temporary folder takes the place of one that cannot be made; a planted one is refused.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	p := Place{Dir: dir, Out: "file/runs", Name: "n", Start: start, Temp: t.TempDir()}
	f := open(t, p)
	if !strings.HasPrefix(f.Path, p.Temp) || !strings.Contains(f.Trouble, "not a directory") {
		t.Errorf("got %+v, want a folder below %s and the reason", f, p.Temp)
	}
	if info, err := os.Stat(filepath.Dir(f.Path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v: want a folder that only its owner can read", info.Mode(), err)
	}
	p.Temp = t.TempDir()
	if err := os.Symlink(dir, filepath.Join(p.Temp, filepath.Base(filepath.Dir(f.Path)))); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(p); err == nil {
		t.Errorf("a link that somebody planted was followed to %s", f.Path)
	}
}

func TestLatestOfAPersonStays(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "latest")
	if err := os.Mkdir(mine, 0o777); err != nil {
		t.Fatal(err)
	}
	open(t, Place{Dir: "/", Out: dir, Name: "n", Start: start})
	if info, err := os.Lstat(mine); err != nil || !info.IsDir() {
		t.Errorf("latest is %v (%v) now", info, err)
	}
}

// TestManifest: what is written is read back, run and outcome alike.
func TestManifest(t *testing.T) {
	yes := true
	run := model.Run{
		ID: "r", Name: "n", Command: []string{"a", ""}, Version: "v", Host: "h", Attached: true, Root: snapshot.ProcID{PID: 3, StartTicks: 9},
		Start: start, StartMono: 7, Env: map[string]string{"RANK": "0"}, Dir: t.TempDir(),
		Trace: model.Trace{TraceID: "t", RootSpan: "s", NodeSpan: "n", JobID: "j", EmitRoot: &yes},
	}
	outcome := model.Outcome{
		End: start.Add(time.Hour), EndMono: 8, Status: &snapshot.ExitStatus{Signal: 9}, Verdict: "bad",
		Signals: []model.SignalSeen{{Signal: 15, At: 2}},
	}
	m := New(run)
	if err := m.Write(run.Dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(run.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, got.Run(run.Dir)); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if _, ok := got.Outcome(); ok {
		t.Error("a run that has not ended has an outcome")
	}
	m.SetOutcome(outcome)
	if err := m.Write(run.Dir); err != nil {
		t.Fatal(err)
	}
	if got, err = Read(run.Dir); err != nil {
		t.Fatal(err)
	}
	if o, ok := got.Outcome(); !ok || cmp.Diff(outcome, o) != "" {
		t.Errorf("outcome (-want +got):\n%s", cmp.Diff(outcome, o))
	}
	if left, _ := filepath.Glob(filepath.Join(run.Dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// FuzzManifest: no text makes the reader fail otherwise than with an error, and what it accepts it writes back.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schema":"ptlaunch.run/1","run_id":"x","end":{"status":{"c":1}}}`))
	f.Add([]byte(`{"schema":"ptlaunch.run/2"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse("run.json", data)
		if err != nil {
			return
		}
		m.Run("")
		m.Outcome()
		if !strings.HasPrefix(m.Schema, Schema) {
			t.Errorf("schema %q was accepted", m.Schema)
		}
	})
}
