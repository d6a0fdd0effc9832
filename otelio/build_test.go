package otelio

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// t0 is the start of the runs in these tests, and mono0 its monotonic time.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mono0 = 1000 * time.Second

// The processes of the runs in these tests.
var (
	rank0   = snapshot.ProcID{PID: 100, StartTicks: 100100}
	worker0 = snapshot.ProcID{PID: 110, StartTicks: 100200}
)

// testRun is a run on one node with a trace of its own.
func testRun() model.Run {
	return model.Run{
		ID: "0123456789abcdef0123456789abcdef", Name: "train.py", Command: []string{"python", "train.py"}, Version: "0.1.0",
		Host: "node1", Start: t0, StartMono: mono0,
		Trace: model.Trace{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", RootSpan: "00f067aa0ba902b7", NodeSpan: "1111111111111111"},
	}
}

// testFrame is the run n seconds after its start: one rank with two workers.
func testFrame(n int) *model.Frame {
	at := mono0 + time.Duration(n)*time.Second
	series := func(role model.Role, rank, loader, slot int) model.Series {
		return model.Series{Role: role, Rank: rank, Loader: loader, Slot: slot}
	}
	total := func(s model.Series) model.Total {
		return model.Total{Series: s, Start: mono0 + time.Second, Procs: 1, User: time.Duration(n) * time.Second, RChar: uint64(n) << 20,
			ReadBytes: uint64(n) << 19, SyscR: uint64(n), HasIO: true, RSS: 100 << 20, VSize: 1 << 30, Threads: 4, WorkerStarts: 1}
	}
	return &model.Frame{
		Seq: uint64(n), Wall: t0.Add(time.Duration(n) * time.Second), Mono: at, Elapsed: time.Second,
		Ranks: []model.Rank{{ID: rank0, Rank: 0, LocalRank: 0, WorldSize: 1, Start: mono0, StartWall: t0, Workers: 2}},
		Pools: []model.Pool{{Rank: 0, OfRank: rank0, Workers: 2, StartMethod: "fork", Start: mono0 + time.Second, ReadBytes: uint64(n) << 21}},
		Totals: []model.Total{
			total(series(model.RoleRank, 0, model.None, model.None)),
			total(series(model.RoleWorker, 0, 0, 0)),
			total(series(model.RoleWorker, 0, 0, 1)),
		},
		Raw: &snapshot.Snapshot{Seq: uint64(n), Self: &snapshot.Self{CPU: time.Duration(n) * time.Millisecond, RSS: 20 << 20, Sample: 3 * time.Millisecond}},
	}
}

// outcome ends a run n seconds after its start.
func outcome(n int, st snapshot.ExitStatus) model.Outcome {
	return model.Outcome{End: t0.Add(time.Duration(n) * time.Second), EndMono: mono0 + time.Duration(n)*time.Second, Status: &st, Verdict: "healthy"}
}

func stallEvent(kind detect.EventKind, n int, s detect.Stall) detect.Event {
	return detect.Event{Kind: kind, At: mono0 + time.Duration(n)*time.Second, Stall: &s}
}

// env makes a Lookup.
func env(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// testLog writes to the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newSink makes a Sink for testRun.
func newSink(t testing.TB, dir string, lookup Lookup) *Sink {
	t.Helper()
	s, err := New(t.Context(), Config{Run: testRun(), Dir: dir, Lookup: lookup, SpanRotation: 10 * time.Minute, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
