package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// Shares of the budget, in the order of the steps. What a step leaves over falls to the following ones.
const (
	// lastSampleShare bounds waiting for the pass in progress plus the last sample: a read of a stuck process may hang.
	lastSampleShare = 5
	// reserveShare is kept back from the sinks for the farewell and the exit itself.
	reserveShare = 20
	maxReserve   = 250 * time.Millisecond
)

// shutDown ends a run in a fixed order, within Budget counted from the end of the job:
//
//  1. stop the reader and take a last sample, so that the final counters are in (at most a fifth of the budget);
//  2. Finish the judge: intervals that are still open are closed at the end of the run;
//  3. conclude the report, on disk before anything that needs a network: its verdict goes into the Outcome;
//  4. close all sinks at the same time, each under the same deadline, a reserve kept back; one that does not come back is
//     left behind and named.
//
// The farewell to the supervisor is the caller's, with the Result.
func (l *loop) shutDown(outcome model.Outcome, r *reader) Result {
	deadline := time.Now().Add(l.Budget - l.late(outcome))
	replayed := isDone(r.done) && errors.Is(r.err, io.EOF)

	r.cancel()
	if !replayed {
		l.lastSample(r)
	}
	if outcome.EndMono == 0 && l.Now != nil {
		outcome.EndMono, outcome.End = l.Now(), time.Now()
	}
	outcome.Signals = append(outcome.Signals, l.signals...)

	if l.last != nil {
		l.finish(max(outcome.EndMono, l.last.Mono), outcome)
	}
	if l.Report != nil {
		outcome.Verdict = l.Report.Conclude(outcome)
	}
	reserve := min(l.Budget/reserveShare, maxReserve)
	undelivered := l.closeSinks(deadline.Add(-reserve), outcome)
	return Result{Outcome: outcome, Frames: l.frames, Undelivered: undelivered, SourceHangs: !isDone(r.done)}
}

// late is how long ago the job ended: the notice of it may have had to wait for a frame.
func (l *loop) late(outcome model.Outcome) time.Duration {
	if l.Now == nil || outcome.EndMono == 0 || outcome.Status == nil {
		return 0
	}
	return min(max(0, l.Now()-outcome.EndMono), l.Budget)
}

// finish hands the last findings out with a frame in which no time passes: the levels of the last one, and nothing that
// happened in it, so that no sink counts a step twice.
func (l *loop) finish(at time.Duration, outcome model.Outcome) {
	findings := l.Judge.Finish(at, outcome)
	if findings == nil {
		return
	}
	frame := *l.last
	frame.Wall = frame.Wall.Add(at - frame.Mono)
	frame.Mono, frame.Elapsed = at, 0
	frame.Ended, frame.Born = nil, nil
	frame.Procs = make([]model.Proc, len(l.last.Procs))
	for i, p := range l.last.Procs {
		p.Delta = nil
		frame.Procs[i] = p
	}
	frame.Pools = nil
	for _, p := range l.last.Pools {
		if p.End == 0 {
			frame.Pools = append(frame.Pools, p)
		}
	}
	if l.last.Raw != nil {
		raw := *l.last.Raw
		raw.Infos, raw.Exits, raw.Fast, raw.Files, raw.FileEvents, raw.Gaps = nil, nil, nil, nil, nil, nil
		frame.Raw = &raw
	}
	frame.Cgroup = nil
	l.consume(&frame, findings)
	l.frames--
}

// lastSample waits for the pass in progress, feeds it, and takes one more where the source can.
func (l *loop) lastSample(r *reader) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Budget/lastSampleShare)
	defer cancel()
	for waiting := true; waiting; {
		select {
		case snap := <-r.snapshots:
			l.feed(snap)
		case <-r.done:
			waiting = false
		case <-ctx.Done():
			// The source belongs to the goroutine that hangs in it: it cannot be asked again.
			l.Log.Warn("the last sample is missing: the pass in progress did not end in time")
			return
		}
	}
	if r.unfed != nil {
		l.feed(r.unfed) // the recording has it: without it a replay would see more than we did
	}
	last, ok := l.Source.(LastSource)
	if !ok {
		return
	}
	snap, err := last.Last(ctx)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			l.Log.Warn("take the last sample", "err", err)
		}
		return
	}
	l.feed(snap)
}

// closeSinks closes all sinks at once and waits for them until the deadline.
func (l *loop) closeSinks(deadline time.Time, outcome model.Outcome) []string {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	sinks := append([]Sink(nil), l.Sinks...)
	if l.Report != nil {
		sinks = append(sinks, l.Report)
	}
	var (
		mu   sync.Mutex
		errs = make([]error, len(sinks))
		left = len(sinks)
		done = make(chan struct{})
	)
	if left == 0 {
		return nil
	}
	for i, s := range sinks {
		errs[i] = errNotClosed
		go func() {
			err := s.Close(ctx, outcome)
			mu.Lock()
			defer mu.Unlock()
			errs[i] = err
			if left--; left == 0 {
				close(done)
			}
		}()
	}
	select {
	case <-done:
	case <-ctx.Done():
		// A sink that heeds its context returns at this very moment: let it say what it could not deliver.
		select {
		case <-done:
		case <-time.After(closeGrace):
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var out []string
	for _, err := range errs {
		if err != nil {
			out = append(out, fmt.Sprint(err))
			l.Log.Warn("close a sink", "err", err)
		}
	}
	return out
}

// closeGrace is how long a sink may take to return once its context has ended.
const closeGrace = 50 * time.Millisecond

var errNotClosed = errors.New("telemetry: not closed in time")

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
