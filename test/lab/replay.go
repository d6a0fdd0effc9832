package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// replay judges a run's recording with today's rules. change, where it is not nil, takes away from every snapshot what the
// judgement shall do without.
func replay(run string, change func(*snapshot.Snapshot)) (*Findings, error) {
	reader, err := snapshot.NewReader(filepath.Join(run, "recording"))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var (
		builder = model.NewBuilder(model.BuilderConfig{})
		judge   = detect.NewSet(detect.Default())
		f       = &Findings{Phases: map[int]map[string]time.Duration{}}
		last    *snapshot.Snapshot
	)
	for {
		s, err := reader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("replay: %v", err)
		}
		if change != nil {
			change(s)
		}
		f.take(judge.Observe(builder.Add(s)), s)
		last = s
	}
	if last == nil {
		return nil, fmt.Errorf("replay %s: an empty recording", run)
	}
	f.take(judge.Finish(last.Mono, model.Outcome{End: last.Wall, EndMono: last.Mono}), last)
	return f, nil
}

// take adds what was closed, and replaces the phases by the newest budgets.
func (f *Findings) take(found *detect.Findings, s *snapshot.Snapshot) {
	at := func(mono time.Duration) time.Time { return s.Wall.Add(mono - s.Mono) }
	for _, e := range found.Events {
		if e.Kind != detect.Closed {
			continue
		}
		if c := e.Checkpoint; c != nil {
			mode := "blocking"
			if c.Background {
				mode = "background"
			}
			f.Checkpoints = append(f.Checkpoints, Checkpoint{
				Rank: c.Rank, Path: c.Path, Size: c.Size, Mode: mode, Start: at(c.Start), End: at(c.End),
			})
		}
		if c := e.Stall; c != nil {
			f.Stalls = append(f.Stalls, Stall{
				Rank: c.Rank, Phase: string(c.Phase), Cause: string(c.Cause), Culprit: c.Culprit, Lost: c.Lost,
				Start: at(c.Start), End: at(c.End),
			})
		}
	}
	clear(f.Phases)
	for _, b := range found.Budgets {
		for phase, spent := range b.Time {
			f.setPhase(b.Rank, string(phase), f.Phases[b.Rank][string(phase)]+spent) // lives of one rank add up
		}
	}
}

// withoutPtrace takes away what /proc gives to tracers only: a user under Yama's ptrace_scope 1, whose agent is no ancestor
// of the job, sees the rest.
func withoutPtrace(s *snapshot.Snapshot) {
	for i := range s.Procs {
		s.Procs[i].Wait = dropSyscall(s.Procs[i].Wait)
	}
	for i := range s.Fast {
		s.Fast[i].Wait = dropSyscall(s.Fast[i].Wait)
	}
	s.Gaps = append(s.Gaps, snapshot.Gap{Source: "procfs.syscall", Reason: snapshot.GapDenied})
}

func dropSyscall(w *snapshot.Wait) *snapshot.Wait {
	if w == nil || w.Syscall == nil {
		return w
	}
	c := *w
	c.Syscall = nil
	return &c
}
