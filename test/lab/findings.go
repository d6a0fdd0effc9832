package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// Findings is what ptlaunch said about one run, whichever way it said it.
type Findings struct {
	Checkpoints []Checkpoint
	Stalls      []Stall
	// Phases is the time per rank and phase.
	Phases map[int]map[string]time.Duration
}

// Checkpoint is one checkpoint write that was reported.
type Checkpoint struct {
	Rank       int
	Path       string
	Size       int64
	Mode       string
	Start, End time.Time
}

// Stall is one stall that was reported.
type Stall struct {
	Rank       int
	Phase      string
	Cause      string
	Culprit    string
	Lost       time.Duration
	Start, End time.Time
}

// ReadFindings reads what a run published, from the OTLP files of its run folder.
func ReadFindings(runFolder string) (*Findings, error) {
	spans, err := otlpread.Spans(filepath.Join(runFolder, "spans.otlp.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read findings: %v", err)
	}
	points, err := otlpread.Points(filepath.Join(runFolder, "metrics.otlp.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read findings: %v", err)
	}
	f := &Findings{Phases: map[int]map[string]time.Duration{}}
	for _, s := range spans {
		if s.Final() {
			f.addSpan(s)
		}
	}
	for _, p := range points { // in order of time: the last one stays
		if p.Metric != "pytorch.rank.time" {
			continue
		}
		rank, _ := p.Attrs.Int("pytorch.rank")
		f.setPhase(int(rank), p.Attrs.String("pytorch.phase"), time.Duration(p.Value*float64(time.Second)))
	}
	return f, nil
}

func (f *Findings) addSpan(s otlpread.Span) {
	rank, ok := s.Attrs.Int("pytorch.rank")
	if !ok {
		rank = -1
	}
	switch s.Name {
	case "checkpoint.write":
		size, _ := s.Attrs.Int("pytorch.checkpoint.size")
		f.Checkpoints = append(f.Checkpoints, Checkpoint{
			Rank: int(rank), Path: s.Attrs.String("file.path"), Size: size,
			Mode: s.Attrs.String("pytorch.checkpoint.mode"), Start: s.Start, End: s.End,
		})
	case "training.stall":
		lost, _ := s.Attrs.Float("pytorch.stall.lost_time")
		f.Stalls = append(f.Stalls, Stall{
			Rank: int(rank), Phase: s.Attrs.String("pytorch.phase"), Cause: s.Attrs.String("pytorch.stall.cause"),
			Culprit: s.Attrs.String("pytorch.stall.culprit"), Lost: time.Duration(lost * float64(time.Second)),
			Start: s.Start, End: s.End,
		})
	}
}

func (f *Findings) setPhase(rank int, phase string, spent time.Duration) {
	if f.Phases[rank] == nil {
		f.Phases[rank] = map[string]time.Duration{}
	}
	f.Phases[rank][phase] = spent
}
