package otlpread

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSpans(t *testing.T) {
	path := write(t, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"training.stall","traceId":"aa","spanId":"bb","parentSpanId":"cc",`+
		`"startTimeUnixNano":"1500000000","endTimeUnixNano":"2500000001","status":{"code":2},"attributes":[`+
		`{"key":"pytorch.rank","value":{"intValue":"3"}},{"key":"s","value":{"doubleValue":0.5}},`+
		`{"key":"ptlaunch.span.final","value":{"boolValue":false}},`+
		`{"key":"e","value":{"arrayValue":{"values":[{"stringValue":"x"}]}}}]}]}]}]}`+"\n"+`{"cut off`)
	got, err := Spans(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Span{{
		Name: "training.stall", TraceID: "aa", SpanID: "bb", ParentID: "cc", Error: true,
		Start: time.Unix(1, 5e8), End: time.Unix(2, 5e8+1),
		Attrs: Attrs{"pytorch.rank": int64(3), "s": 0.5, "ptlaunch.span.final": false, "e": []any{"x"}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got[0].Final() {
		t.Error("a piece of a span reads as final")
	}
}

func TestPoints(t *testing.T) {
	path := write(t, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{"isMonotonic":true,"dataPoints":[`+
		`{"timeUnixNano":"1","asInt":"42","attributes":[{"key":"b","value":{"stringValue":"2"}},{"key":"a","value":{"intValue":"1"}}]}]}},`+
		`{"name":"g","gauge":{"dataPoints":[{"timeUnixNano":"2","asDouble":1.5}]}}]}]}]}`+"\n")
	got, err := Points(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Value != 42 || !got[0].Monotonic || got[1].Value != 1.5 || got[1].Monotonic {
		t.Errorf("points: %+v", got)
	}
	if s := got[0].Series(); s != "m{a=1,b=2}" {
		t.Errorf("series: %s", s)
	}
}

func TestMalformedLine(t *testing.T) {
	if _, err := Spans(write(t, "{\n")); err == nil {
		t.Error("a malformed line in the middle of a file was accepted")
	}
}
