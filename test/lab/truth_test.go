package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReadTruth: a log with a birth line that tells an earlier time, a save, a line cut by a kill, and a second process.
func TestReadTruth(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rank-0.jsonl", `{"t":1000,"w":500005000,"pid":7,"rank":0,"e":"phase","phase":"startup"}
{"t":3000,"w":500003000,"pid":7,"rank":0,"e":"phase","phase":"compute"}
{"t":9000,"w":500009000,"pid":7,"rank":0,"e":"end"}
{"t":9500,"w":5000`)
	write("saver-8.jsonl", `{"t":6000,"w":500006000,"pid":8,"rank":0,"e":"save","start":4000,"path":"/c/a.pt","size":5,"mode":"background","synced":true}
`)
	got, err := ReadTruth(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := func(mono int64) time.Time { return time.Unix(0, 500000000+mono) }
	want := &Truth{
		Ranks: []RankTruth{{Rank: 0, PID: 7, Phases: []PhaseSpan{{"startup", at(1000), at(3000)}, {"compute", at(3000), at(9000)}}}},
		Saves: []Save{{Path: "/c/a.pt", Size: 5, Mode: "background", Synced: true, Start: at(4000), End: at(6000)}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if r := got.Ranks[0]; r.Wall() != 8000 || r.Time("compute") != 6000 {
		t.Errorf("wall %v, compute %v", r.Wall(), r.Time("compute"))
	}
}

func TestReadTruthOfNothing(t *testing.T) {
	if _, err := ReadTruth(t.TempDir()); err == nil {
		t.Error("an empty folder was taken for a truth")
	}
}
