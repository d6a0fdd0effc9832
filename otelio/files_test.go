package otelio

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// spansIn returns the spans of a run folder.
func spansIn(t testing.TB, dir string) []*tracepb.Span {
	t.Helper()
	var out []*tracepb.Span
	for _, m := range readRequests(t, dir, traces) {
		for _, rs := range m.(*coltrace.ExportTraceServiceRequest).ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				out = append(out, ss.Spans...)
			}
		}
	}
	return out
}

// spanTree describes the spans of a run folder, a line each, sorted: name, parent's name, length, piece.
func spanTree(t testing.TB, dir string) []string {
	t.Helper()
	all := spansIn(t, dir)
	names := map[string]string{"": "none"}
	for _, s := range all {
		if attributesOf(s.Attributes)["ptlaunch.span.final"] == true {
			names[hex.EncodeToString(s.SpanId)] = s.Name
		}
	}
	var out []string
	for _, s := range all {
		parent, ok := names[hex.EncodeToString(s.ParentSpanId)]
		if !ok {
			parent = "unknown " + hex.EncodeToString(s.ParentSpanId)
		}
		line := fmt.Sprintf("%s < %s %v", s.Name, parent, time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano))
		if n, ok := attributesOf(s.Attributes)["ptlaunch.span.sequence"]; ok {
			line += fmt.Sprintf(" piece %v", n)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// attributesOf turns attributes into plain values.
func attributesOf(kv []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range kv {
		out[a.Key] = plainValue(a.Value)
	}
	return out
}

func plainValue(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_ArrayValue:
		var list []any
		for _, x := range v.ArrayValue.Values {
			list = append(list, plainValue(x))
		}
		return list
	}
	return nil
}
