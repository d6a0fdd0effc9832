package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

const (
	// A save smaller than this need not be found; one that is found is no false alarm.
	smallestSave = 32 * mb
	// A phase that took a smaller share of a rank's wall time needs no cause.
	smallestLoss = 0.10
	// Reported intervals match the truth's when they overlap after widening by this much: ten fast samples.
	slack = time.Second
)

var (
	phases     = []string{"startup", "compute", "data_wait", "checkpoint", "peer_wait", "other_wait", "shutdown"}
	lossPhases = []string{"data_wait", "checkpoint", "peer_wait", "other_wait"}
)

// Score is how well one run was judged.
type Score struct {
	Scenario string
	Via      string // "live", "replay", "replay without ptrace"

	Saves, Found, FalseSaves int // of smallestSave or more; reported ones that no save of any size explains
	ModeWrong                int // blocking called background or the other way round
	First, Later             Edges
	SizeError                float64 // the largest, as a share

	PhaseError float64 // the largest difference of shares over ranks and phases, in points
	PhaseWorst string  // where that was
	Blurred    bool    // the shares cannot be told from outside in this scenario

	Lost, Covered                 time.Duration // truly lost time, and how much of it lies inside reported stalls
	Right, Wrong, Unknown, Missed int           // causes of losses of smallestLoss or more
	FalseStalls                   int
	Notes                         []string
}

// Edges are the errors of the reported starts and ends.
type Edges struct{ Start, End []time.Duration }

// Judge compares findings with the truth.
func Judge(s Scenario, t *Truth, f *Findings) Score {
	score := Score{Scenario: s.Name, Blurred: s.Blurred != ""}
	score.saves(t, f)
	score.phases(t, f)
	score.causes(s, t, f)
	score.named(s, f)
	score.falseStalls(s, t, f)
	return score
}

func (sc *Score) note(format string, args ...any) {
	sc.Notes = append(sc.Notes, fmt.Sprintf(format, args...))
}

func (sc *Score) saves(t *Truth, f *Findings) {
	used := make([]bool, len(f.Checkpoints))
	seen := map[string]bool{} // directories that a save of some rank has gone to
	saves := slices.Clone(t.Saves)
	sort.Slice(saves, func(i, j int) bool { return saves[i].Start.Before(saves[j].Start) })
	for _, save := range saves {
		at := closest(save, f.Checkpoints, used)
		if at >= 0 {
			used[at] = true
		}
		if save.Size < smallestSave {
			continue
		}
		folder := filepath.Dir(save.Path)
		first := !seen[folder]
		seen[folder] = true
		sc.Saves++
		if at < 0 {
			sc.note("missed the save of %s (%d MB) by rank %d", filepath.Base(save.Path), save.Size/mb, save.Rank)
			continue
		}
		sc.Found++
		sc.saveDetails(save, f.Checkpoints[at], first)
	}
	for i, c := range f.Checkpoints {
		if !used[i] {
			sc.FalseSaves++
			sc.note("no such save: %q (%d bytes, rank %d, %.1fs)", c.Path, c.Size, c.Rank, c.End.Sub(c.Start).Seconds())
		}
	}
}

// closest is the unused checkpoint of the save's rank that overlaps it most, -1 when none does.
func closest(s Save, list []Checkpoint, used []bool) int {
	best, at := -slack, -1
	for i, c := range list {
		if o := overlap(s.Start, s.End, c.Start, c.End); !used[i] && (c.Rank == s.Rank || c.Rank < 0) && o > best {
			best, at = o, i
		}
	}
	return at
}

func (sc *Score) saveDetails(s Save, c Checkpoint, first bool) {
	edges := &sc.Later
	if first {
		edges = &sc.First
	}
	edges.Start = append(edges.Start, c.Start.Sub(s.Start).Abs())
	edges.End = append(edges.End, c.End.Sub(s.End).Abs())
	if e := math.Abs(float64(c.Size-s.Size)) / float64(s.Size); e > sc.SizeError {
		sc.SizeError = e
	}
	if c.Mode != s.Mode {
		sc.ModeWrong++
		sc.note("%s was %s, called %q", filepath.Base(s.Path), s.Mode, c.Mode)
	}
}

func (sc *Score) phases(t *Truth, f *Findings) {
	for _, r := range t.Ranks {
		said := f.Phases[r.Rank]
		var total time.Duration
		for _, d := range said {
			total += d
		}
		if r.Wall() == 0 {
			continue
		}
		if total == 0 {
			sc.PhaseError = 100
			sc.PhaseWorst = fmt.Sprintf("rank %d has no phases", r.Rank)
			continue
		}
		for _, p := range phases {
			true100 := 100 * float64(r.Time(p)) / float64(r.Wall())
			said100 := 100 * float64(said[p]) / float64(total)
			if e := math.Abs(true100 - said100); e > sc.PhaseError {
				sc.PhaseError = e
				sc.PhaseWorst = fmt.Sprintf("rank %d %s %.0f%%, said %.0f%%", r.Rank, p, true100, said100)
			}
		}
	}
}

// causes asks, for each rank and each phase that cost it much, which cause was named for most of the loss.
func (sc *Score) causes(s Scenario, t *Truth, f *Findings) {
	for _, r := range t.Ranks {
		for _, phase := range lossPhases {
			accepted, loss := s.Causes[phase], r.Time(phase)
			if len(accepted) == 0 || float64(loss) < smallestLoss*float64(r.Wall()) {
				continue
			}
			cause := mainCause(f.Stalls, r.Rank, phase)
			switch {
			case cause == "" && s.Blurred != "":
				sc.Unknown++ // nothing could be told, and nothing was
			case cause == "":
				sc.Missed++
				sc.note("rank %d lost %.1fs to %s, nothing said", r.Rank, loss.Seconds(), phase)
			case slices.Contains(accepted, cause):
				sc.Right++
			case cause == "unknown":
				sc.Unknown++
			default:
				sc.Wrong++
				sc.note("rank %d %s: said %s, it was %v", r.Rank, phase, cause, accepted)
			}
		}
	}
}

// mainCause is the cause that most of a rank's reported loss in a phase was put down to, "" when none was reported.
func mainCause(stalls []Stall, rank int, phase string) string {
	lost := map[string]time.Duration{}
	best := ""
	for _, s := range stalls {
		if s.Rank == rank && s.Phase == phase {
			lost[s.Cause] += s.Lost
			if best == "" || lost[s.Cause] > lost[best] {
				best = s.Cause
			}
		}
	}
	return best
}

// named asks for the cause that the job cannot feel.
func (sc *Score) named(s Scenario, f *Findings) {
	if s.Named == "" {
		return
	}
	if slices.ContainsFunc(f.Stalls, func(st Stall) bool { return st.Cause == s.Named }) {
		sc.Right++
		return
	}
	sc.Missed++
	sc.note("%s was not named", s.Named)
}

// falseStalls counts the stalls in which the rank truly lost less than a third of what they claim, and how much of the
// truly lost time the reported stalls cover.
func (sc *Score) falseStalls(sn Scenario, t *Truth, f *Findings) {
	for _, r := range t.Ranks {
		for _, p := range r.Phases {
			if !slices.Contains(lossPhases, p.Phase) {
				continue
			}
			sc.Lost += p.End.Sub(p.Start)
			sc.Covered += covered(p, f.Stalls, r.Rank)
		}
		for _, s := range f.Stalls {
			if s.Rank != r.Rank || s.Cause == sn.Named {
				continue
			}
			if really := lostWithin(r, s.Start.Add(-slack), s.End.Add(slack)); really < s.Lost/3 {
				sc.FalseStalls++
				sc.note("no such stall: rank %d %s/%s %.1fs, really %.1fs", s.Rank, s.Phase, s.Cause, s.Lost.Seconds(), really.Seconds())
			}
		}
	}
}

func covered(p PhaseSpan, stalls []Stall, rank int) time.Duration {
	var most time.Duration
	for _, s := range stalls {
		if s.Rank == rank {
			most = max(most, overlap(p.Start, p.End, s.Start, s.End))
		}
	}
	return most
}

func lostWithin(r RankTruth, from, to time.Time) time.Duration {
	var sum time.Duration
	for _, p := range r.Phases {
		if slices.Contains(lossPhases, p.Phase) {
			sum += max(0, overlap(p.Start, p.End, from, to))
		}
	}
	return sum
}

// overlap is how long two intervals overlap; negative: how far they are apart.
func overlap(aStart, aEnd, bStart, bEnd time.Time) time.Duration {
	start, end := aStart, aEnd
	if bStart.After(start) {
		start = bStart
	}
	if bEnd.Before(end) {
		end = bEnd
	}
	return end.Sub(start)
}
