package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Truth is what a job really did, by its own log.
type Truth struct {
	Ranks []RankTruth
	Saves []Save
}

// RankTruth is the phases of one rank, without a hole from its birth to its last line.
type RankTruth struct {
	Rank   int
	PID    int
	Phases []PhaseSpan
}

// PhaseSpan is one stretch of time in one phase. Times are wall time derived from CLOCK_MONOTONIC and one common offset, so
// that a clock step in the middle of a run moves nothing.
type PhaseSpan struct {
	Phase      string
	Start, End time.Time
}

// Save is one checkpoint file that was written, from before open to after close or rename.
type Save struct {
	Rank       int
	Path       string
	Size       int64
	Mode       string // "blocking" or "background"
	Synced     bool
	Start, End time.Time
}

// Wall is the time from the rank's birth to its last line.
func (r RankTruth) Wall() time.Duration {
	if len(r.Phases) == 0 {
		return 0
	}
	return r.Phases[len(r.Phases)-1].End.Sub(r.Phases[0].Start)
}

// Time is how long the rank was in a phase.
func (r RankTruth) Time(phase string) time.Duration {
	var sum time.Duration
	for _, p := range r.Phases {
		if p.Phase == phase {
			sum += p.End.Sub(p.Start)
		}
	}
	return sum
}

type truthLine struct {
	T      int64  `json:"t"`
	W      int64  `json:"w"`
	PID    int    `json:"pid"`
	Rank   int    `json:"rank"`
	Event  string `json:"e"`
	Phase  string `json:"phase"`
	Start  int64  `json:"start"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	Synced bool   `json:"synced"`
}

// ReadTruth reads all the logs of one job below folder.
func ReadTruth(folder string) (*Truth, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.jsonl*"))
	if err != nil {
		return nil, err
	}
	var lines []truthLine
	for _, name := range names {
		own, err := readLines(name)
		if err != nil {
			return nil, fmt.Errorf("read truth: %v", err)
		}
		lines = append(lines, own...)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("read truth: no line below %s", folder)
	}
	return buildTruth(lines), nil
}

func readLines(name string) ([]truthLine, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %v", name, err)
		}
	}
	var lines []truthLine
	for scan := bufio.NewScanner(r); scan.Scan(); {
		var l truthLine
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			continue // the job was killed in the middle of a line
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func buildTruth(lines []truthLine) *Truth {
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].T < lines[j].T })
	// A line's own wall time is right at the moment of writing; the birth line tells an earlier T, so it cannot give the offset.
	last := lines[len(lines)-1]
	offset := last.W - last.T
	at := func(mono int64) time.Time { return time.Unix(0, mono+offset) }

	truth := &Truth{}
	byRank := map[int]*RankTruth{}
	for _, l := range lines {
		switch l.Event {
		case "save":
			truth.Saves = append(truth.Saves, Save{
				Rank: l.Rank, Path: l.Path, Size: l.Size, Mode: l.Mode, Synced: l.Synced, Start: at(l.Start), End: at(l.T),
			})
		case "phase", "end":
			r := byRank[l.Rank]
			if r == nil {
				r = &RankTruth{Rank: l.Rank, PID: l.PID}
				byRank[l.Rank] = r
			}
			if n := len(r.Phases); n > 0 {
				r.Phases[n-1].End = at(l.T)
			}
			if l.Event == "phase" {
				r.Phases = append(r.Phases, PhaseSpan{Phase: l.Phase, Start: at(l.T), End: at(l.T)})
			}
		}
	}
	for _, r := range byRank {
		truth.Ranks = append(truth.Ranks, *r)
	}
	sort.Slice(truth.Ranks, func(i, j int) bool { return truth.Ranks[i].Rank < truth.Ranks[j].Rank })
	return truth
}
