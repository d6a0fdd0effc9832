package otelio

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// runOf makes a run folder of testRun changed by change, with the frames that feed gives.
func runOf(t *testing.T, change func(*Config), feed func(*Sink), out model.Outcome) string {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Run: testRun(), Dir: dir, Lookup: env(), SpanRotation: 10 * time.Minute, Logger: testLog(t), Wait: true}
	if change != nil {
		change(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	feed(s)
	if err := s.Close(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLongSpansComeInPieces(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		lost := detect.Stall{Interval: detect.Interval{ID: 1, OfRank: rank0, Start: mono0 + 650*time.Second}, Cause: detect.CauseUnknown, Phase: detect.PhaseDataWait}
		for n := 1; n <= 1900; n++ {
			found := &detect.Findings{}
			if n >= 650 && n <= 1880 {
				kind := map[int]detect.EventKind{650: detect.Opened, 1880: detect.Closed}[n]
				if kind == "" {
					kind = detect.Updated
				}
				lost.End = mono0 + time.Duration(n)*time.Second
				lost.Lost = (lost.End - lost.Start) / 2
				found.Events = append(found.Events, stallEvent(kind, n, lost))
			}
			s.Consume(testFrame(n), found)
		}
	}, outcome(1900, snapshot.ExitStatus{}))
	got := spanTree(t, dir)
	want := []string{
		"dataloader.pool < training.rank 10m0s piece 2", // from 20m to 30m
		"dataloader.pool < training.rank 19m59s piece 1",
		"dataloader.pool < training.rank 31m39s",
		"training.node < training.run 0s piece 0",
		"training.node < training.run 10m0s piece 1",
		"training.node < training.run 10m0s piece 2",
		"training.node < training.run 10m0s piece 3",
		"training.node < training.run 31m40s",
		"training.rank < training.node 10m0s piece 1",
		"training.rank < training.node 10m0s piece 2",
		"training.rank < training.node 10m0s piece 3",
		"training.rank < training.node 31m40s",
		"training.run < none 0s piece 0",
		"training.run < none 10m0s piece 1",
		"training.run < none 10m0s piece 2",
		"training.run < none 10m0s piece 3",
		"training.run < none 31m40s",
		"training.stall < training.rank 19m10s piece 1",
		"training.stall < training.rank 20m30s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
	// The pieces of a pool hold the figures of their slice: together at most the whole.
	var pieces, whole int64
	ids := map[string]bool{}
	for _, s := range spansIn(t, dir) {
		id := hex.EncodeToString(s.SpanId)
		if ids[id] {
			t.Errorf("span id %s comes twice", id)
		}
		ids[id] = true
		if s.Name != spanPool {
			continue
		}
		a := attributesOf(s.Attributes)
		if a["ptlaunch.span.final"] == true {
			whole = a["pytorch.io.read_bytes"].(int64)
		} else {
			pieces += a["pytorch.io.read_bytes"].(int64)
		}
	}
	if pieces != 1800<<21 || whole != 1900<<21 {
		t.Errorf("pool pieces hold %d bytes, the whole %d", pieces, whole)
	}
}

func TestIDsOfTheTrace(t *testing.T) {
	feed := func(s *Sink) { consume(s, 1, 3) }
	dir := runOf(t, func(c *Config) { c.Run.Trace.Parent = "2222222222222222" }, feed, outcome(3, snapshot.ExitStatus{}))
	byName := finals(t, dir)
	for name, want := range map[string][2]string{
		spanRun:  {"00f067aa0ba902b7", "2222222222222222"},
		spanNode: {"1111111111111111", "00f067aa0ba902b7"},
	} {
		s := byName[name]
		if got := [2]string{hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId)}; got != want {
			t.Errorf("%s has id and parent %v, want %v", name, got, want)
		}
		if hex.EncodeToString(s.TraceId) != testRun().Trace.TraceID {
			t.Errorf("%s is in trace %x", name, s.TraceId)
		}
	}
	// A replay makes the same ids.
	again := finals(t, runOf(t, func(c *Config) { c.Run.Trace.Parent = "2222222222222222" }, feed, outcome(3, snapshot.ExitStatus{})))
	for name, s := range byName {
		if string(again[name].SpanId) != string(s.SpanId) {
			t.Errorf("%s has another id in a replay", name)
		}
	}
}

func TestWhoExportsTheRoot(t *testing.T) {
	noRanks := func(s *Sink) {
		f := testFrame(1)
		f.Ranks, f.Pools = nil, nil
		s.Consume(f, nil)
	}
	withRank := func(rank int) func(*Sink) {
		return func(s *Sink) {
			f := testFrame(1)
			f.Ranks[0].Rank = rank
			s.Consume(f, nil)
		}
	}
	for name, c := range map[string]struct {
		job  string
		emit *bool
		feed func(*Sink)
		want bool
	}{
		"alone, no ranks":             {"", nil, noRanks, true},
		"shared, rank 0 here":         {"job", nil, withRank(0), true},
		"shared, rank 8 here":         {"job", nil, withRank(8), false},
		"shared, no ranks":            {"job", nil, noRanks, false},
		"told to, rank 8 here":        {"job", ptr(true), withRank(8), true},
		"told not to, rank 0 is here": {"job", ptr(false), withRank(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runOf(t, func(cfg *Config) { cfg.Run.Trace.JobID, cfg.Run.Trace.EmitRoot = c.job, c.emit }, c.feed, outcome(2, snapshot.ExitStatus{}))
			roots := 0
			for _, s := range spansIn(t, dir) {
				if s.Name == spanRun {
					roots++
				}
			}
			if want := map[bool]int{true: 2, false: 0}[c.want]; roots != want { // sequence 0 and final
				t.Errorf("%d training.run spans, want %d", roots, want)
			}
		})
	}
}

// finals returns the final spans of a run folder by name.
func finals(t *testing.T, dir string) map[string]*tracepb.Span {
	t.Helper()
	out := map[string]*tracepb.Span{}
	for _, s := range spansIn(t, dir) {
		if attributesOf(s.Attributes)["ptlaunch.span.final"] == true {
			out[s.Name] = s
		}
	}
	return out
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		out    model.Outcome
		failed string
		code   any
	}{
		"exit 0":      {outcome(2, snapshot.ExitStatus{}), "", int64(0)},
		"exit 3":      {outcome(2, snapshot.ExitStatus{Code: 3}), "exit code 3", int64(3)},
		"SIGKILL":     {outcome(2, snapshot.ExitStatus{Signal: 9}), "killed by signal 9", int64(137)},
		"not known":   {model.Outcome{EndMono: mono0 + 2*time.Second}, "", nil},
		"not started": {model.Outcome{StartError: "no such file"}, "the command could not be started: no such file", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := finals(t, runOf(t, nil, func(*Sink) {}, c.out))[spanRun]
			a := attributesOf(s.Attributes)
			if a["process.exit.code"] != c.code || s.Status.GetMessage() != c.failed || (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != (c.failed != "") {
				t.Errorf("exit code %v, status %v", a["process.exit.code"], s.Status)
			}
		})
	}
}

// TestStallLinksToItsCheckpoint: and types are those of the contract.
func TestStallLinksToItsCheckpoint(t *testing.T) {
	byName := finals(t, runEverything(t))
	stall, cp := byName[spanStall], byName[spanCheckpoint]
	if len(stall.Links) != 1 || string(stall.Links[0].SpanId) != string(cp.SpanId) {
		t.Errorf("links of the stall: %v, checkpoint %x", stall.Links, cp.SpanId)
	}
	got := attributesOf(stall.Attributes)
	want := map[string]any{
		"pytorch.rank": int64(0), "pytorch.local_rank": int64(0), "pytorch.phase": "checkpoint", "pytorch.stall.cause": "checkpoint",
		"pytorch.stall.lost_time": 1.0, "pytorch.stall.share": 0.5, "pytorch.stall.culprit": "rank 0", "pytorch.stall.confidence": "high",
		"pytorch.stall.evidence": []any{"e"}, "pytorch.stall.caveats": []any{"c"}, "ptlaunch.span.final": true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("stall (-want +got):\n%s", d)
	}
	a := attributesOf(cp.Attributes)
	if a["pytorch.checkpoint.size"] != int64(1<<30) || a["pytorch.checkpoint.throughput"] != float64(1<<29) || a["pytorch.checkpoint.durable"] != true {
		t.Errorf("checkpoint: %v", a)
	}
}

// TestClockStep: a step of the wall clock in the middle makes no span negative and moves none that is open.
func TestClockStep(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		for n := 1; n < 20; n++ {
			f := testFrame(n)
			if n > 5 {
				f.Wall = f.Wall.Add(-time.Hour)
			}
			s.Consume(f, nil)
		}
	}, outcome(20, snapshot.ExitStatus{}))
	for name, s := range finals(t, dir) {
		if d := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano); d < 19*time.Second || d > 20*time.Second {
			t.Errorf("%s lasts %v", name, d)
		}
	}
}
