package main

import (
	"context"
	"slices"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// maxFast bounds the fast lane: its cost is per process, ten times a second.
const maxFast = 32

// fastLane is a sink that tells the sampler which processes can write a checkpoint: the ranks, and what a rank has forked that
// is no worker of its loaders (a saver). Only the model knows them; until it has seen a rank, the sampler's own guess stands.
type fastLane struct {
	set  func([]snapshot.ProcID)
	last []snapshot.ProcID
}

// Consume implements agent.Sink.
func (l *fastLane) Consume(f *model.Frame, _ *detect.Findings) {
	var ranks, savers []snapshot.ProcID
	for i := range f.Procs {
		p := &f.Procs[i]
		switch {
		case p.Role == model.RoleRank:
			ranks = append(ranks, p.ID)
		case p.Role != model.RoleWorker && p.Parent == p.OfRank && forked(f, p):
			savers = append(savers, p.ID)
		}
	}
	all := append(ranks, savers...)
	all = all[:min(len(all), maxFast)]
	if len(ranks) == 0 || slices.Equal(all, l.last) {
		return
	}
	l.last = all
	l.set(slices.Clone(all))
}

// forked says that a child still runs its rank's program: fork without exec leaves the command line as it was.
func forked(f *model.Frame, p *model.Proc) bool {
	if p.Info == nil || p.OfRank == (snapshot.ProcID{}) {
		return false
	}
	for i := range f.Procs {
		if r := &f.Procs[i]; r.ID == p.OfRank {
			return r.Info != nil && slices.Equal(r.Info.Cmdline, p.Info.Cmdline)
		}
	}
	return false
}

// Close implements agent.Sink.
func (l *fastLane) Close(context.Context, model.Outcome) error { return nil }
