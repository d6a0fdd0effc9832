package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sec(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }

// aRank waits for data half of its time: startup 0-2, then 1 s of data_wait and 1 s of compute until 12.
func aRank() RankTruth {
	r := RankTruth{Phases: []PhaseSpan{{"startup", sec(0), sec(2)}}}
	for s := 2.0; s < 12; s += 2 {
		r.Phases = append(r.Phases, PhaseSpan{"data_wait", sec(s), sec(s + 1)}, PhaseSpan{"compute", sec(s + 1), sec(s + 2)})
	}
	return r
}

func perfect() *Findings {
	return &Findings{
		Stalls:      []Stall{{Phase: "data_wait", Cause: "storage_latency", Lost: 5 * time.Second, Start: sec(2), End: sec(11)}},
		Phases:      map[int]map[string]time.Duration{0: {"startup": 2e9, "data_wait": 5e9, "compute": 5e9}},
		Checkpoints: []Checkpoint{{Path: "/c/a.pt", Size: 100 * mb, Mode: "blocking", Start: sec(3.25), End: sec(4)}},
	}
}

func TestJudge(t *testing.T) {
	truth := &Truth{
		Ranks: []RankTruth{aRank()},
		Saves: []Save{{Path: "/c/a.pt", Size: 100 * mb, Mode: "blocking", Start: sec(3), End: sec(4)}},
	}
	scenario := Scenario{Name: "x", Causes: dataWait("storage_latency")}
	for _, tc := range []struct {
		name   string
		change func(*Findings)
		want   Score
	}{
		{"all right", func(*Findings) {}, Score{Found: 1, Right: 1, Covered: 5 * time.Second}},
		{"wrong cause", func(f *Findings) { f.Stalls[0].Cause = "worker_cpu" }, Score{Found: 1, Wrong: 1, Covered: 5 * time.Second}},
		{"unknown", func(f *Findings) { f.Stalls[0].Cause = "unknown" }, Score{Found: 1, Unknown: 1, Covered: 5 * time.Second}},
		{"nothing said", func(f *Findings) { f.Stalls = nil }, Score{Found: 1, Missed: 1}},
		{"save missed", func(f *Findings) { f.Checkpoints = nil }, Score{Right: 1, Covered: 5 * time.Second}},
		{"save of another time", func(f *Findings) { f.Checkpoints[0].Start, f.Checkpoints[0].End = sec(8), sec(9) },
			Score{FalseSaves: 1, Right: 1, Covered: 5 * time.Second}},
		{"mode wrong", func(f *Findings) { f.Checkpoints[0].Mode = "background" }, Score{Found: 1, ModeWrong: 1, Right: 1, Covered: 5 * time.Second}},
		{"size wrong", func(f *Findings) { f.Checkpoints[0].Size = 90 * mb }, Score{Found: 1, SizeError: 0.1, Right: 1, Covered: 5 * time.Second}},
		{"stall out of nothing", func(f *Findings) {
			f.Stalls = append(f.Stalls, Stall{Phase: "peer_wait", Cause: "peer", Lost: 4 * time.Second, Start: sec(11.5), End: sec(16)})
		}, Score{Found: 1, Right: 1, FalseStalls: 1, Covered: 5 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := perfect()
			tc.change(f)
			got := Judge(scenario, truth, f)
			if got.PhaseError > 1e-9 {
				t.Errorf("phase error %v (%s)", got.PhaseError, got.PhaseWorst)
			}
			tc.want.Scenario, tc.want.Saves, tc.want.Lost = "x", 1, 5*time.Second
			got.First, got.Later, got.Notes, got.PhaseError, got.PhaseWorst = Edges{}, Edges{}, nil, 0, ""
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestJudgeEdges(t *testing.T) {
	truth := &Truth{Saves: []Save{
		{Path: "/c/a.pt", Size: 100 * mb, Start: sec(3), End: sec(4)},
		{Path: "/c/b.pt", Size: 100 * mb, Start: sec(13), End: sec(14)},
	}}
	got := Judge(Scenario{}, truth, &Findings{Checkpoints: []Checkpoint{
		{Start: sec(13), End: sec(14.5), Size: 100 * mb}, {Start: sec(2.75), End: sec(4), Size: 100 * mb},
	}})
	want := [2]Edges{
		{Start: []time.Duration{250 * time.Millisecond}, End: []time.Duration{0}},
		{Start: []time.Duration{0}, End: []time.Duration{500 * time.Millisecond}},
	}
	if d := cmp.Diff(want, [2]Edges{got.First, got.Later}); d != "" {
		t.Error(d)
	}
}

func TestJudgePhases(t *testing.T) {
	f := perfect()
	f.Phases[0] = map[string]time.Duration{"startup": 2e9, "data_wait": 2e9, "compute": 8e9}
	got := Judge(Scenario{}, &Truth{Ranks: []RankTruth{aRank()}}, f)
	if got.PhaseError < 24.9 || got.PhaseError > 25.1 { // 5 s of 12 s became 2 s
		t.Errorf("phase error %.2f points (%s), want 25", got.PhaseError, got.PhaseWorst)
	}
}
