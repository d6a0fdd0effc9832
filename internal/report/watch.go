package report

import (
	"context"
	"log/slog"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// Watch is a sink that says in the log, while the run goes on, what a person would want to know before its end: a stall that
// lasts, and a save that takes a good part of the time after which the other ranks give up waiting for it. One line each.
type Watch struct {
	log   *slog.Logger
	stall time.Duration
	save  time.Duration
	limit time.Duration // of the usual collective

	open   map[uint64]open
	waited map[uint64]bool // that have had their line
}

// open is an interval that has not been closed.
type open struct {
	start time.Duration
	event detect.Event
}

// NewWatch makes the sink for a run that is judged by t.
func NewWatch(t detect.Thresholds, log *slog.Logger) *Watch {
	return &Watch{
		log: log, stall: seconds(t.LiveStallSeconds), limit: seconds(t.CollectiveTimeoutSeconds),
		save: seconds(t.CollectiveTimeoutSeconds * t.LiveSaveShare),
		open: map[uint64]open{}, waited: map[uint64]bool{},
	}
}

// Consume implements agent.Sink.
func (w *Watch) Consume(f *model.Frame, found *detect.Findings) {
	for _, e := range found.Events {
		id, start := interval(e)
		if e.Kind == detect.Closed {
			w.tellClosed(id, e)
			delete(w.open, id)
			delete(w.waited, id)
			continue
		}
		w.open[id] = open{start, e}
	}
	for id, o := range w.open {
		if !w.waited[id] && f.Mono-o.start >= w.patience(o.event) {
			w.waited[id] = true
			w.tell(o.event, f.Mono-o.start)
		}
	}
}

// Close implements agent.Sink.
func (w *Watch) Close(context.Context, model.Outcome) error { return nil }

func interval(e detect.Event) (id uint64, start time.Duration) {
	if e.Stall != nil {
		return e.Stall.ID, e.Stall.Start
	}
	return e.Checkpoint.ID, e.Checkpoint.Start
}

func (w *Watch) patience(e detect.Event) time.Duration {
	if e.Stall != nil {
		return w.stall
	}
	return w.save
}

func (w *Watch) tell(e detect.Event, lasting time.Duration) {
	if s := e.Stall; s != nil {
		w.log.Warn("a stall goes on", "rank", s.Rank, "phase", s.Phase, "cause", s.Cause, "culprit", s.Culprit,
			"lost", s.Lost.Round(time.Second), "since", lasting.Round(time.Second))
		return
	}
	c := e.Checkpoint
	w.log.Warn("a save goes on; ranks that wait for it in a collective give up after the timeout", "rank", c.Rank,
		"path", c.Path, "bytes", c.Size, "background", c.Background, "since", lasting.Round(time.Second), "usual_timeout", w.limit)
}

// tellClosed ends what tell has begun.
func (w *Watch) tellClosed(id uint64, e detect.Event) {
	if !w.waited[id] {
		return
	}
	if s := e.Stall; s != nil {
		w.log.Info("the stall is over", "rank", s.Rank, "cause", s.Cause, "lost", s.Lost.Round(time.Second))
		return
	}
	w.log.Info("the save is over", "rank", e.Checkpoint.Rank, "path", e.Checkpoint.Path)
}
