package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// bench is what all scenarios share.
type bench struct {
	python   string
	repo     string
	ptlaunch string // "": bare
	keep     string
}

// scenario runs one scenario from set-up to tear-down and judges it in every way there is.
func (b *bench) scenario(ctx context.Context, s Scenario) (scores []Score, err error) {
	st, err := setUp(s, b.python, filepath.Join(b.repo, "test", "lab", "jobs"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	code, err := runJob(ctx, st, s, b.ptlaunch, b.repo)
	if err != nil {
		return nil, err
	}
	said, _ := os.ReadFile(st.path("output"))
	if code != s.Exit {
		return nil, fmt.Errorf("%s: exit code %d, want %d:\n%s", s.Name, code, s.Exit, tail(said, 2000))
	}
	truth, err := ReadTruth(st.path("truth"))
	if err != nil {
		return nil, err
	}
	if b.ptlaunch == "" {
		describe(s, truth)
		return nil, nil
	}
	run, err := filepath.EvalSymlinks(st.path("runs/latest"))
	if err != nil {
		return nil, fmt.Errorf("%s: find the run folder: %v", s.Name, err)
	}
	if s.Says != "" && !strings.Contains(string(said), s.Says) {
		fmt.Fprintf(os.Stderr, "lab: %s: the verdict does not say %q\n", s.Name, s.Says)
	}
	if b.keep != "" {
		if err := keepRun(run, st.path("truth"), b.repo, filepath.Join(b.keep, s.Name)); err != nil {
			return nil, err
		}
	}
	return judgeAll(s, truth, run)
}

// judgeAll scores what the run published and what its recording says when judged again.
func judgeAll(s Scenario, truth *Truth, run string) ([]Score, error) {
	live, err := ReadFindings(run)
	if err != nil {
		return nil, err
	}
	first := Judge(s, truth, live)
	first.Via = "live"
	replayed, err := judgeRecording(s, truth, run)
	return append([]Score{first}, replayed...), err
}

// judgeRecording scores the two replays of a recording.
func judgeRecording(s Scenario, truth *Truth, run string) ([]Score, error) {
	var scores []Score
	for _, way := range []struct {
		via    string
		change func(*snapshot.Snapshot)
	}{{"replay", nil}, {"no ptrace", withoutPtrace}} {
		f, err := replay(run, way.change)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %v", s.Name, err)
		}
		score := Judge(s, truth, f)
		score.Via = way.via
		scores = append(scores, score)
	}
	return scores, nil
}

// describe prints what the job's own log says.
func describe(s Scenario, t *Truth) {
	for _, r := range t.Ranks {
		fmt.Printf("%s rank %d (pid %d) %.1fs:", s.Name, r.Rank, r.PID, r.Wall().Seconds())
		for _, p := range phases {
			if d := r.Time(p); d > 0 {
				fmt.Printf("  %s %.1f%%", p, 100*float64(d)/float64(r.Wall()))
			}
		}
		fmt.Println()
	}
	for _, save := range t.Saves {
		fmt.Printf("%s save by rank %d: %s %.1f MB %s %.3fs\n", s.Name, save.Rank, filepath.Base(save.Path), float64(save.Size)/mb, save.Mode,
			save.End.Sub(save.Start).Seconds())
	}
}

func tail(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}
