package otelio

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// tracer makes finished spans with ids that are known beforehand: children are exported before their parents, and a
// restarted agent, or a replay, gives every span the id it had. It belongs to one goroutine.
type tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	trace    trace.TraceID
	state    trace.TraceState
	run      trace.SpanID
	node     trace.SpanID
	parent   trace.SpanID // of the run; zero without an incoming context

	next  trace.SpanID // what NewSpanID gives
	ended []sdktrace.ReadOnlySpan
}

func newTracer(res *resource.Resource, run *model.Run) (*tracer, error) {
	t := &tracer{}
	var err error
	if t.trace, err = trace.TraceIDFromHex(run.Trace.TraceID); err != nil {
		return nil, fmt.Errorf("read trace id %q: %v", run.Trace.TraceID, err)
	}
	if t.run, err = trace.SpanIDFromHex(run.Trace.RootSpan); err != nil {
		return nil, fmt.Errorf("read root span id %q: %v", run.Trace.RootSpan, err)
	}
	if t.node, err = trace.SpanIDFromHex(run.Trace.NodeSpan); err != nil {
		return nil, fmt.Errorf("read node span id %q: %v", run.Trace.NodeSpan, err)
	}
	if run.Trace.Parent != "" {
		if t.parent, err = trace.SpanIDFromHex(run.Trace.Parent); err != nil {
			return nil, fmt.Errorf("read parent span id %q: %v", run.Trace.Parent, err)
		}
	}
	t.state, _ = trace.ParseTraceState(run.Trace.State) // somebody else's: a malformed one is left out
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(res), sdktrace.WithIDGenerator(t), sdktrace.WithSpanProcessor(t),
		// Whether the trace is sent was decided once for all of it: see readSampler.
		sdktrace.WithSampler(sdktrace.AlwaysSample()))
	t.tracer = t.provider.Tracer(scopeName, trace.WithInstrumentationVersion(run.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return t, nil
}

// NewIDs implements sdktrace.IDGenerator.
func (t *tracer) NewIDs(context.Context) (trace.TraceID, trace.SpanID) { return t.trace, t.next }

// NewSpanID implements sdktrace.IDGenerator.
func (t *tracer) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return t.next }

// OnStart implements sdktrace.SpanProcessor.
func (t *tracer) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (t *tracer) OnEnd(s sdktrace.ReadOnlySpan) { t.ended = append(t.ended, s) }

// Shutdown implements sdktrace.SpanProcessor.
func (t *tracer) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (t *tracer) ForceFlush(context.Context) error { return nil }

// take returns the spans that have ended since the last call.
func (t *tracer) take() []sdktrace.ReadOnlySpan {
	s := t.ended
	t.ended = nil
	return s
}

// within returns a context in which span is the current one.
func (t *tracer) within(span trace.SpanID) context.Context {
	ctx := context.Background()
	if !span.IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, t.context(span))
}

// context is a span's place. It is sampled whatever the flag of an incoming TRACEPARENT said.
func (t *tracer) context(span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t.trace, SpanID: span, TraceFlags: trace.FlagsSampled, TraceState: t.state})
}

// finished is a span to export.
type finished struct {
	name       string
	id, parent trace.SpanID
	start, end time.Time
	attributes []attribute.KeyValue
	link       trace.SpanID // zero without one
	failed     string       // why, "" when it did not
}

// export makes the span.
func (t *tracer) export(f finished) {
	t.next = f.id
	options := []trace.SpanStartOption{trace.WithTimestamp(f.start), trace.WithAttributes(f.attributes...)}
	if f.link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: t.context(f.link)}))
	}
	_, span := t.tracer.Start(t.within(f.parent), f.name, options...)
	if f.failed != "" {
		span.SetStatus(codes.Error, f.failed)
	}
	if f.end.Before(f.start) {
		f.end = f.start
	}
	span.End(trace.WithTimestamp(f.end))
}

// derive makes a span id from what the span is of, within this node's part of the trace.
func (t *tracer) derive(what string, numbers ...uint64) trace.SpanID {
	b := append(append([]byte{}, t.trace[:]...), t.node[:]...)
	b = append(b, what...)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(b)
	var id trace.SpanID
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[7] = 1
	}
	return id
}

func hexSpan(id trace.SpanID) string { return hex.EncodeToString(id[:]) }
