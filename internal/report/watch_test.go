package report

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// TestWatch: one line when an interval has lasted long enough, one at its end, none for short ones.
func TestWatch(t *testing.T) {
	var buf bytes.Buffer
	w := NewWatch(detect.Default(), slog.New(slog.NewTextHandler(&buf, nil)))
	stalled := func(kind detect.EventKind, id uint64) detect.Event {
		return detect.Event{Kind: kind, Stall: &detect.Stall{Interval: detect.Interval{ID: id, Rank: 3}, Phase: detect.PhaseDataWait,
			Cause: detect.CauseNetwork, Culprit: "/data (nfs4)", Lost: 25 * time.Second}}
	}
	saved := func(kind detect.EventKind, id uint64) detect.Event {
		return detect.Event{Kind: kind, Checkpoint: &detect.Checkpoint{Interval: detect.Interval{ID: id, Rank: 0}, Path: "/ckpt/a.pt", Size: 5}}
	}
	at := func(seconds int, events ...detect.Event) {
		w.Consume(&model.Frame{Mono: time.Duration(seconds) * time.Second}, &detect.Findings{Events: events})
	}
	at(1, stalled(detect.Opened, 1), saved(detect.Opened, 2), stalled(detect.Opened, 3))
	at(10, stalled(detect.Closed, 3))
	at(29)
	if buf.Len() != 0 {
		t.Errorf("said too early:\n%s", &buf)
	}
	at(30)
	at(31, stalled(detect.Updated, 1))
	at(120)
	at(121, stalled(detect.Closed, 1), saved(detect.Closed, 2))
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	for i, want := range []string{
		`msg="a stall goes on" rank=3 phase=data_wait cause=network culprit="/data (nfs4)" lost=25s since=30s`,
		`msg="a save goes on; ranks that wait for it in a collective give up after the timeout" rank=0 path=/ckpt/a.pt bytes=5 background=false since=2m0s usual_timeout=10m0s`,
		`msg="the stall is over" rank=3`,
		`msg="the save is over" rank=0`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is not %q in:\n%s", i, want, &buf)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines, want 4:\n%s", len(lines), &buf)
	}
	if len(w.open) != 0 || len(w.waited) != 0 {
		t.Errorf("closed intervals are kept: %v %v", w.open, w.waited)
	}
}
