package agent

import (
	"context"
	"errors"
	"io"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Run observes until the job has ended, the source is exhausted, or the context ends; then it shuts down, see shutDown. It
// never fails: what goes wrong is logged and, where the user should know it, part of the result.
func (a *Agent) Run(ctx context.Context) Result {
	l := &loop{Agent: a}
	if a.Resume != nil {
		l.resume(ctx)
	}
	outcome, reader := l.observe(ctx)
	return l.shutDown(outcome, reader)
}

// loop is the state of one Run.
type loop struct {
	*Agent
	last    *model.Frame
	frames  int
	signals []model.SignalSeen
}

// reader takes snapshots in a goroutine of its own, so that the end of the job is acted upon at once even while a read hangs
// in the kernel.
type reader struct {
	snapshots chan *snapshot.Snapshot
	cancel    context.CancelFunc
	done      chan struct{}
	err       error              // valid once done is closed, as the next
	unfed     *snapshot.Snapshot // taken, recorded, and not handed over before the context ended
}

func (a *Agent) startReader(ctx context.Context) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{snapshots: make(chan *snapshot.Snapshot), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			snap, err := a.Source.Next(ctx)
			if err != nil {
				r.err = err
				return
			}
			select {
			case r.snapshots <- snap:
			case <-ctx.Done():
				r.err, r.unfed = ctx.Err(), snap
				return
			}
		}
	}()
	return r
}

// observe feeds snapshots to the pipeline until the run is over, and returns how it ended as far as it is known.
func (l *loop) observe(ctx context.Context) (model.Outcome, *reader) {
	r := l.startReader(ctx)
	notices := l.Notices
	untilGone := false
	for {
		select {
		case snap := <-r.snapshots:
			frame := l.feed(snap)
			if l.Over != nil {
				if outcome, over := l.Over(frame); over {
					return outcome, r
				}
			}
			// One frame without processes may be a pass that saw nothing; members that just ended were still seen.
			if untilGone && len(frame.Procs) == 0 && len(frame.Ended) == 0 {
				return l.unknownEnd(frame), r
			}
		case n, ok := <-notices:
			switch {
			case !ok:
				notices = nil
			case n.Ended != nil:
				return *n.Ended, r
			case n.Gone:
				l.Log.Warn("the supervisor is gone; observing until the job has ended")
				untilGone = true
			case n.Signal != nil:
				l.signal(*n.Signal)
			}
		case <-r.done:
			if r.err != nil && !errors.Is(r.err, io.EOF) && ctx.Err() == nil {
				l.Log.Error("read the next snapshot", "err", r.err)
			}
			if errors.Is(r.err, io.EOF) && l.Recorded != nil {
				return *l.Recorded, r
			}
			if errors.Is(r.err, io.EOF) || notices == nil || ctx.Err() != nil {
				return l.unknownEnd(l.last), r
			}
			return l.awaitEnd(ctx, notices), r
		}
	}
}

// awaitEnd waits for the job's end without a source: sampling failed for good, but the run still has an end to report.
func (l *loop) awaitEnd(ctx context.Context, notices <-chan Notice) model.Outcome {
	for {
		select {
		case n, ok := <-notices:
			switch {
			case !ok || n.Gone:
				return l.unknownEnd(l.last)
			case n.Ended != nil:
				return *n.Ended
			case n.Signal != nil:
				l.signal(*n.Signal)
			}
		case <-ctx.Done():
			return l.unknownEnd(l.last)
		}
	}
}

// signal notes a signal that usually ends a job, and has the sinks send what they hold: there may be no later.
func (l *loop) signal(s model.SignalSeen) {
	l.Log.Info("signal seen", "signal", s.Signal)
	l.signals = append(l.signals, s)
	for _, sink := range l.Sinks {
		if f, ok := sink.(Flusher); ok {
			f.Flush()
		}
	}
}

// feed takes one snapshot through all hops.
func (l *loop) feed(snap *snapshot.Snapshot) *model.Frame {
	frame := l.Builder.Add(snap)
	findings := l.Judge.Observe(frame)
	l.consume(frame, findings)
	return frame
}

func (l *loop) consume(frame *model.Frame, findings *detect.Findings) {
	l.last = frame
	l.frames++
	if l.Report != nil {
		l.Report.Consume(frame, findings)
	}
	for _, sink := range l.Sinks {
		sink.Consume(frame, findings)
	}
}

// resume takes over what an earlier agent of this run recorded: builder, judge and report continue as if they had never
// been away; sinks that deliver elsewhere only learn what was there already.
func (l *loop) resume(ctx context.Context) {
	n := 0
	for {
		snap, err := l.Resume.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.Log.Warn("read the recording of the earlier agent", "err", err)
			}
			break
		}
		n++
		frame := l.Builder.Add(snap)
		findings := l.Judge.Observe(frame)
		l.last = frame
		if l.Report != nil {
			l.Report.Consume(frame, findings)
		}
		for _, sink := range l.Sinks {
			if r, ok := sink.(Resumer); ok {
				r.Resume(frame, findings)
			}
		}
	}
	l.Log.Info("continuing the run", "recorded_frames", n)
}

// unknownEnd is the outcome when nobody told: the last moment that was seen.
func (l *loop) unknownEnd(frame *model.Frame) model.Outcome {
	if frame == nil {
		return model.Outcome{}
	}
	return model.Outcome{End: frame.Wall, EndMono: frame.Mono}
}
