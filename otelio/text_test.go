package otelio

import (
	"strings"
	"testing"
	"unicode/utf8"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/otlptest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// textRequest holds s in every place in which a text can be.
func textRequest(s string) *coltrace.ExportTraceServiceRequest {
	text := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	list := &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{text}}}}
	return &coltrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: s, Value: list}}},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{
			TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: s, StartTimeUnixNano: 1 << 60,
			Status: &tracepb.Status{Message: s, Code: tracepb.Status_STATUS_CODE_ERROR}, Attributes: []*commonpb.KeyValue{{Key: "k", Value: text}},
		}}}},
	}}}
}

// FuzzText: whatever bytes a process calls itself by, the request can be sent, and the file says the same.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "train.py", "\xff\xfe", "a\x00b\n\"\\", "\u2028\U0001F600", `"traceId":"zz"`, strings.Repeat("\xc3", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m := textRequest(s)
		b, err := marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		sent := new(coltrace.ExportTraceServiceRequest)
		if err := proto.Unmarshal(b, sent); err != nil {
			t.Fatal(err)
		}
		name := sent.ResourceSpans[0].ScopeSpans[0].Spans[0].Name
		if !utf8.ValidString(name) || utf8.ValidString(s) && name != s {
			t.Fatalf("%q became %q", s, name)
		}
		line := appendJSON(nil, m.ProtoReflect())
		if strings.ContainsAny(string(line), "\n\r") {
			t.Fatal("not one line")
		}
		written, readBack := new(coltrace.ExportTraceServiceRequest), new(coltrace.ExportTraceServiceRequest)
		if err := otlptest.DecodeJSON(line, written); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := parseJSON(line, readBack); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(sent, written) || !proto.Equal(sent, readBack) {
			t.Fatalf("the line differs from what is sent: %s", line)
		}
	})
}

// FuzzParseJSON: a damaged line of a run folder is an error, no panic.
func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0g","spanId":"01"}]}]}]}`))
	f.Add(appendJSON(nil, textRequest("x").ProtoReflect()))
	f.Fuzz(func(t *testing.T, line []byte) {
		m := traces.wire().request()
		if parseJSON(line, m) == nil {
			if _, err := marshal(m); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestForeignBytes: names that are not UTF-8 anywhere in a run reach the endpoint and do not stop what comes after.
func TestForeignBytes(t *testing.T) {
	srv := otlptest.Start(t)
	dir := t.TempDir()
	cfg := Config{Run: testRun(), Dir: dir, Lookup: env("OTEL_EXPORTER_OTLP_ENDPOINT", srv.GRPC(), "OTEL_RESOURCE_ATTRIBUTES", "x=\xff"), Logger: testLog(t)}
	cfg.Run.Name, cfg.Run.Command, cfg.Run.Host = "tr\xffin", []string{"\xfe"}, "\xfd"
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f, found := fullFrame(4), fullFindings(detect.Closed)
	found.Events[0].Checkpoint.Path = "/data/\xff"
	found.Events[1].Stall.Evidence = []string{"\xff"}
	f.Raw.Mounts[0].Mountpoint = "/\xff"
	f.Raw.Gaps = append(f.Raw.Gaps, snapshot.Gap{Source: "\xff", Reason: snapshot.GapDenied, Detail: "\xff"})
	s.Consume(f, found)
	consume(s, 5, 30)
	if err := closeWithin(t, s, 20e9, 30); err != nil {
		t.Fatal(err)
	}
	sameAsFiles(t, srv, dir)
}
