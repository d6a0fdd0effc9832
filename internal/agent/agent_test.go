package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// ticker is a source that ticks once a second of the test's own time.
type ticker struct {
	start time.Time
	seq   uint64
	limit uint64        // after which comes io.EOF; 0 for none
	hang  uint64        // the tick at which Next hangs for hung, heedless of the context; 0 for none
	hung  time.Duration //
	procs func(seq uint64) int
	lasts int
}

func (s *ticker) snap() *snapshot.Snapshot {
	s.seq++
	out := &snapshot.Snapshot{Seq: s.seq, Wall: time.Now(), Mono: time.Since(s.start)}
	n := 1
	if s.procs != nil {
		n = s.procs(s.seq)
	}
	out.Procs = make([]snapshot.Proc, n)
	return out
}

func (s *ticker) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	if s.limit != 0 && s.seq >= s.limit {
		return nil, io.EOF
	}
	if s.hang != 0 && s.seq+1 == s.hang {
		time.Sleep(s.hung)
	}
	select {
	case <-time.After(time.Second):
		return s.snap(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *ticker) Last(context.Context) (*snapshot.Snapshot, error) {
	s.lasts++
	return s.snap(), nil
}

// steps is the simplest builder.
type steps struct{}

func (steps) Add(s *snapshot.Snapshot) *model.Frame {
	return &model.Frame{
		Seq: s.Seq, Wall: s.Wall, Mono: s.Mono, Elapsed: time.Second, Raw: s, Procs: make([]model.Proc, len(s.Procs)),
		Ended: []model.Ended{{}}[:min(1, len(s.Procs))], Pools: []model.Pool{{Loader: 0}, {Loader: 1, End: 1}},
	}
}

type judge struct{}

func (judge) Observe(*model.Frame) *detect.Findings { return &detect.Findings{} }
func (judge) Finish(at time.Duration, _ model.Outcome) *detect.Findings {
	return &detect.Findings{Events: []detect.Event{{Kind: detect.Closed, At: at}}}
}

// sink notes what it gets, in a journal that all sinks of a test share. It is used by one goroutine at a time.
type sink struct {
	name    string
	journal *[]string
	close   func(context.Context) error
	frames  []*model.Frame
	resumed int
	outcome model.Outcome
	flushed int
}

func (s *sink) Consume(f *model.Frame, found *detect.Findings) {
	s.frames = append(s.frames, f)
	if len(found.Events) > 0 && s.journal != nil {
		*s.journal = append(*s.journal, s.name+" last findings")
	}
}

func (s *sink) Close(ctx context.Context, o model.Outcome) error {
	s.outcome = o
	if s.close != nil {
		return s.close(ctx)
	}
	return nil
}

func (s *sink) Resume(*model.Frame, *detect.Findings) { s.resumed++ }
func (s *sink) Flush()                                { s.flushed++ }

// verdict is a sink that judges.
type verdict struct{ sink }

func (v *verdict) Conclude(model.Outcome) string {
	*v.journal = append(*v.journal, "concluded")
	return "all is well"
}

// bench is an agent in parts.
type bench struct {
	*Agent
	source  *ticker
	report  *verdict
	sink    *sink
	notices chan Notice
	journal *[]string
}

func newBench() bench {
	var journal []string
	b := bench{
		source: &ticker{start: time.Now()}, notices: make(chan Notice), journal: &journal,
		report: &verdict{sink{name: "report", journal: &journal}}, sink: &sink{name: "sink", journal: &journal},
	}
	start := time.Now()
	b.Agent = &Agent{
		Source: b.source, Builder: steps{}, Judge: judge{}, Report: b.report, Sinks: []Sink{b.sink},
		Log: slog.New(slog.DiscardHandler), Notices: b.notices, Budget: 5 * time.Second,
		Now: func() time.Duration { return time.Since(start) },
	}
	return b
}

func (b bench) endAfter(d time.Duration) {
	go func() {
		time.Sleep(d)
		b.notices <- Notice{Ended: &model.Outcome{End: time.Now(), EndMono: b.Now(), Status: &snapshot.ExitStatus{Code: 3}}}
	}()
}

// TestRun: frames at each tick, one more at the end, then the report, then the sinks with its verdict.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.endAfter(3500 * time.Millisecond)
		begin := time.Now()
		got := b.Run(context.Background())
		if took := time.Since(begin); took != 3500*time.Millisecond {
			t.Errorf("took %v, want to end with the job at 3.5s", took)
		}
		if got.Frames != 4 || b.source.lasts != 1 {
			t.Errorf("%d frames, %d last samples; want 3 ticks and 1 last sample", got.Frames, b.source.lasts)
		}
		if got.Outcome.Verdict != "all is well" || b.sink.outcome.Verdict != "all is well" || b.sink.outcome.Status.Code != 3 {
			t.Errorf("outcome %+v, the sink's %+v: want the verdict and the job's status in both", got.Outcome, b.sink.outcome)
		}
		want := []string{"report last findings", "sink last findings", "concluded"}
		if diff := cmp.Diff(want, *b.journal); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestFinalFindings come with a frame in which nothing happens a second time.
func TestFinalFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.endAfter(1500 * time.Millisecond)
		b.Run(context.Background())
		f := b.sink.frames[len(b.sink.frames)-1]
		if f.Elapsed != 0 || f.Ended != nil || f.Born != nil || len(f.Pools) != 1 || len(f.Procs) != 1 {
			t.Errorf("final frame %+v: want no time, no ends, only pools that live", f)
		}
		if before := b.sink.frames[len(b.sink.frames)-2]; before.Ended == nil || before.Elapsed == 0 {
			t.Error("the frame before it was changed")
		}
	})
}

// TestSlowSinks: closing them is bounded by the budget, all at the same time, and those that did not make it are named.
func TestSlowSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		deaf := make(chan struct{})
		heeds := func(ctx context.Context) error { <-ctx.Done(); return errors.New("3 spans not delivered") }
		b.Sinks = []Sink{
			&sink{close: heeds}, &sink{close: heeds},
			&sink{close: func(context.Context) error { <-deaf; return nil }},
		}
		b.endAfter(time.Second)
		begin := time.Now()
		got := b.Run(context.Background())
		close(deaf)
		if took := time.Since(begin) - time.Second; took > b.Budget {
			t.Errorf("shutdown took %v of %v", took, b.Budget)
		}
		slices.Sort(got.Undelivered)
		want := []string{"3 spans not delivered", "3 spans not delivered", errNotClosed.Error()}
		if diff := cmp.Diff(want, got.Undelivered); diff != "" {
			t.Errorf("undelivered (-want +got):\n%s", diff)
		}
	})
}

// TestHungSource: a read that hangs costs the last sample, not the exit.
func TestHungSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.source.hang, b.source.hung = 3, time.Hour
		b.endAfter(2500 * time.Millisecond)
		begin := time.Now()
		got := b.Run(context.Background())
		if took := time.Since(begin) - 2500*time.Millisecond; took > b.Budget/lastSampleShare {
			t.Errorf("shutdown took %v, want at most a fifth of %v", took, b.Budget)
		}
		if got.Frames != 2 || b.source.lasts != 0 {
			t.Errorf("%d frames, %d last samples; want 2 and none", got.Frames, b.source.lasts)
		}
		if !got.SourceHangs {
			t.Error("the result does not say that the source is still in use")
		}
		time.Sleep(b.source.hung)
	})
}

// TestNothingTakenIsLost: a snapshot that was taken as the job ended is judged, not dropped: it is in the recording.
func TestNothingTakenIsLost(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.endAfter(2 * time.Second) // together with a tick
			got := b.Run(context.Background())
			if uint64(got.Frames) != b.source.seq {
				t.Errorf("%d of %d snapshots judged", got.Frames, b.source.seq)
			}
		})
	}
}

// TestSupervisorGone: without an exit notice the agent goes on until no process is left, and the end stays unknown.
func TestSupervisorGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.source.procs = func(seq uint64) int {
			if seq > 5 {
				return 0
			}
			return 2
		}
		go func() {
			time.Sleep(1500 * time.Millisecond)
			b.notices <- Notice{Gone: true}
			close(b.notices)
		}()
		got := b.Run(context.Background())
		if got.Outcome.Status != nil || got.Outcome.EndMono != 6*time.Second {
			t.Errorf("outcome %+v, want an unknown end at 6s", got.Outcome)
		}
	})
}

// TestSignal is noted in the outcome, and sinks send what they hold.
func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		go func() {
			b.notices <- Notice{Signal: &model.SignalSeen{Signal: 15, At: 7}}
			b.endAfter(time.Second)
		}()
		got := b.Run(context.Background())
		if diff := cmp.Diff([]model.SignalSeen{{Signal: 15, At: 7}}, got.Outcome.Signals); diff != "" || b.sink.flushed != 1 {
			t.Errorf("flushed %d times, signals (-want +got):\n%s", b.sink.flushed, diff)
		}
	})
}

// TestReplay: a source that ends is the end; the recorded outcome is taken over and no last sample is asked for.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.source.limit, b.Notices, b.Now = 4, nil, nil
		b.Recorded = &model.Outcome{EndMono: 4200 * time.Millisecond, Status: &snapshot.ExitStatus{Signal: 9}}
		got := b.Run(context.Background())
		if got.Frames != 4 || b.source.lasts != 0 || got.Outcome.Status.Signal != 9 || got.Outcome.EndMono != 4200*time.Millisecond {
			t.Errorf("%+v after %d last samples, want 4 frames and the recorded end", got, b.source.lasts)
		}
	})
}

// TestResume: the report consumes what an earlier agent recorded, other sinks are only told.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Resume = &ticker{start: time.Now(), limit: 7}
		b.endAfter(9500 * time.Millisecond)
		b.Run(context.Background())
		if b.sink.resumed != 7 || len(b.report.frames) != len(b.sink.frames)+7 {
			t.Errorf("sink resumed %d, consumed %d; report consumed %d", b.sink.resumed, len(b.sink.frames), len(b.report.frames))
		}
	})
}

// TestOver: an observer whom nobody tells the end finds it in a frame.
func TestOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Over = func(f *model.Frame) (model.Outcome, bool) {
			return model.Outcome{EndMono: f.Mono, Status: &snapshot.ExitStatus{}}, f.Seq == 3
		}
		if got := b.Run(context.Background()); got.Outcome.EndMono != 3*time.Second || got.Outcome.Status == nil {
			t.Errorf("outcome %+v, want the third frame's", got.Outcome)
		}
	})
}

// TestBrokenSource: the run still has its end when sampling fails for good.
func TestBrokenSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		var log strings.Builder
		b.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.Source = broken{}
		b.endAfter(2 * time.Second)
		got := b.Run(context.Background())
		if got.Outcome.Status == nil || got.Outcome.Status.Code != 3 || got.Frames != 0 {
			t.Errorf("%+v, want the job's status and no frames", got)
		}
		if !strings.Contains(log.String(), "no such device") {
			t.Errorf("the log does not say why: %s", log.String())
		}
	})
}

type broken struct{}

func (broken) Next(context.Context) (*snapshot.Snapshot, error) {
	return nil, errors.New("no such device")
}
