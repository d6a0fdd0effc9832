package otelio

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// TestResume: what an earlier agent had consumed is not handed out again, and its totals are in the next export.
func TestResume(t *testing.T) {
	run := model.Run{
		ID: "0af7651916cd43dd8448eb211c80319c", Name: "train.py", Start: time.Unix(1_700_000_000, 0), StartMono: time.Second,
		Trace: model.Trace{TraceID: "0af7651916cd43dd8448eb211c80319c", RootSpan: "b7ad6b7169203331", NodeSpan: "00f067aa0ba902b7"},
	}
	s, err := New(context.Background(), Config{Run: run, Logger: slog.New(slog.DiscardHandler), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	rank := snapshot.ProcID{PID: 7, StartTicks: 100}
	f := &model.Frame{
		Seq: 1, Mono: 3 * time.Second, Wall: run.Start.Add(2 * time.Second), Raw: &snapshot.Snapshot{},
		Ranks: []model.Rank{{ID: rank, Start: time.Second, End: 2 * time.Second}},
		Pools: []model.Pool{{OfRank: rank, Start: time.Second, End: 2 * time.Second}},
	}
	s.Resume(f, &detect.Findings{})
	if len(s.tracer.ended) != 0 || len(s.events.records) != 0 {
		t.Errorf("%d spans and %d records are to be sent again", len(s.tracer.ended), len(s.events.records))
	}
	if s.meter.frame == nil {
		t.Error("the meter has not seen the step")
	}
	if err := s.Close(context.Background(), model.Outcome{}); err != nil {
		t.Fatal(err)
	}
}
