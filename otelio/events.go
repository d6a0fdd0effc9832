package otelio

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The log events, for backends that have no traces.
const (
	eventRunStarted  = "ptlaunch.run.started"
	eventStallOpened = "pytorch.stall.opened"
	eventStallClosed = "pytorch.stall.closed"
	eventCheckpoint  = "pytorch.checkpoint.written"
	eventWorkerDied  = "pytorch.dataloader.worker.died"
	eventRankDied    = "pytorch.rank.died"
	eventSourceLost  = "ptlaunch.source.lost"
)

// events makes the log records. It belongs to one goroutine.
type events struct {
	logger  log.Logger
	tracer  *tracer
	clock   *clock
	records []sdklog.Record
	started bool
	lost    map[sourceKey]bool
}

func newEvents(res *resource.Resource, run *model.Run, t *tracer, c *clock) *events {
	e := &events{tracer: t, clock: c, lost: map[sourceKey]bool{}}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(e))
	e.logger = provider.Logger(scopeName, log.WithInstrumentationVersion(run.Version), log.WithSchemaURL(semconv.SchemaURL))
	return e
}

// Enabled implements sdklog.Processor.
func (e *events) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements sdklog.Processor.
func (e *events) OnEmit(_ context.Context, r *sdklog.Record) error {
	e.records = append(e.records, r.Clone())
	return nil
}

// Shutdown implements sdklog.Processor.
func (e *events) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (e *events) ForceFlush(context.Context) error { return nil }

// take returns the records since the last call.
func (e *events) take() []sdklog.Record {
	r := e.records
	e.records = nil
	return r
}

// say emits one event within a span.
func (e *events) say(name string, at time.Time, span trace.SpanID, severity log.Severity, text string, kv []attribute.KeyValue) {
	var r log.Record
	r.SetEventName(name)
	r.SetTimestamp(at)
	r.SetObservedTimestamp(at)
	r.SetSeverity(severity)
	r.SetSeverityText(severity.String())
	r.SetBody(attribute.StringValue(text))
	r.AddAttributes(kv...)
	e.logger.Emit(e.tracer.within(span), r)
}

// runStarted says that the run began.
func (e *events) runStarted(run *model.Run) {
	if e.started {
		return
	}
	e.started = true
	e.say(eventRunStarted, run.Start, e.tracer.run, log.SeverityInfo, run.Name+" started",
		[]attribute.KeyValue{attribute.String("ptlaunch.run.id", run.ID)})
}

// finding says what became of a stall or a checkpoint; kv are the attributes of its span.
func (e *events) finding(ev *detect.Event, span trace.SpanID, kv []attribute.KeyValue) {
	at := e.clock.wall(ev.At)
	switch {
	case ev.Stall != nil && ev.Kind == detect.Opened:
		s := ev.Stall
		e.say(eventStallOpened, at, span, log.SeverityWarn, fmt.Sprintf("rank %d began to lose time: %s", s.Rank, s.Cause), kv)
	case ev.Stall != nil && ev.Kind == detect.Closed:
		s := ev.Stall
		e.say(eventStallClosed, at, span, log.SeverityWarn, fmt.Sprintf("rank %d lost %.1f s: %s", s.Rank, s.Lost.Seconds(), s.Cause), kv)
	case ev.Checkpoint != nil && ev.Kind == detect.Closed:
		c := ev.Checkpoint
		severity, text := log.SeverityInfo, fmt.Sprintf("checkpoint of %d bytes written in %.1f s", c.Size, (c.End-c.Start).Seconds())
		if c.CutShort != "" {
			severity, text = log.SeverityError, "checkpoint cut short: "+c.CutShort
		}
		e.say(eventCheckpoint, at, span, severity, text, kv)
	}
}

// step says which processes died and which sources became unreadable.
func (e *events) step(f *model.Frame, spanOf func(snapshot.ProcID) trace.SpanID) {
	for i := range f.Ended {
		x := &f.Ended[i]
		if !died(x) {
			continue
		}
		kv := []attribute.KeyValue{attribute.Int("process.pid", int(x.ID.PID))}
		for _, n := range [...]struct {
			key   string
			value int
		}{{"pytorch.rank", x.Rank}, {"pytorch.local_rank", x.LocalRank}, {"pytorch.dataloader.id", x.Loader}, {"pytorch.worker.slot", x.Slot}} {
			if n.value != model.None {
				kv = append(kv, attribute.Int(n.key, n.value))
			}
		}
		kv, why := exitAttributes(kv, x.Status)
		if x.Role == model.RoleRank {
			e.say(eventRankDied, e.clock.wall(x.At), spanOf(x.ID), log.SeverityError, fmt.Sprintf("rank %d died: %s", x.Rank, why), kv)
		} else {
			e.say(eventWorkerDied, e.clock.wall(x.At), spanOf(x.OfRank), log.SeverityError, fmt.Sprintf("worker %d of rank %d died: %s", x.Slot, x.Rank, why), kv)
		}
	}
	if f.Raw == nil {
		return
	}
	for i := range f.Raw.Gaps {
		g := &f.Raw.Gaps[i]
		key := sourceKey{g.Source, g.Reason}
		if g.Reason == snapshot.GapGone || e.lost[key] || len(e.lost) >= maxSeries {
			continue
		}
		e.lost[key] = true
		kv := []attribute.KeyValue{attribute.String("ptlaunch.source", g.Source), attribute.String("error.type", string(g.Reason))}
		text := fmt.Sprintf("%s cannot be read (%s)", g.Source, g.Reason)
		if g.Detail != "" {
			text += ": " + g.Detail
		}
		e.say(eventSourceLost, e.clock.wall(f.Mono), e.tracer.node, log.SeverityWarn, text, kv)
	}
}

// died reports whether a rank or worker ended badly. SIGINT and SIGTERM are how jobs are stopped and how PyTorch ends
// workers that are still busy.
func died(x *model.Ended) bool {
	if x.Status == nil || x.Role != model.RoleRank && x.Role != model.RoleWorker {
		return false
	}
	const sigint, sigterm = 2, 15
	return x.Status.Code != 0 || x.Status.Signal != 0 && x.Status.Signal != sigint && x.Status.Signal != sigterm
}
