//go:build e2e

package e2e

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/otlptest"
)

// TestDifficultEndpoint: an endpoint that asks to slow down, is busy, takes a request but not all of it, and never takes one certain
// metric, gets all spans and all other metrics. The summary says each thing once.
func TestDifficultEndpoint(t *testing.T) {
	const unwanted = "process.thread.count"
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			srv := otlptest.Start(t)
			partly := false
			srv.Respond(func(r otlptest.Request) otlptest.Answer {
				switch {
				case r.Attempt < 3:
					return otlptest.Throttled(time.Second)
				case r.Attempt < 6:
					return otlptest.Busy(0)
				case holdsMetric(r, unwanted):
					return otlptest.Bad
				case r.Signal == "traces" && !partly:
					partly = true
					return otlptest.Partial(0, "a span is very long")
				}
				return otlptest.OK
			})
			endpoint := srv.GRPC()
			if protocol != "grpc" {
				endpoint = srv.HTTP()
			}
			run := startOutageRun(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol}, 12*time.Second)
			ended := run.wait(t)

			got, seen := map[string]string{}, map[string]bool{}
			for _, s := range srv.Spans() {
				got[hex.EncodeToString(s.SpanId)] = s.Name
			}
			if diff := cmp.Diff(readSpans(t, ended.dir), got); diff != "" {
				t.Errorf("spans of the run folder (-) and of the endpoint (+):\n%s", diff)
			}
			for _, m := range srv.Metrics() {
				seen[m.Name] = true
			}
			for _, p := range readPoints(t, ended.dir) {
				if !seen[p.Metric] && p.Metric != unwanted {
					t.Errorf("%s never arrived", p.Metric)
					seen[p.Metric] = true
				}
			}
			for _, says := range []string{"an item is bad", "a span is very long"} {
				if n := strings.Count(ended.stderr, says); n != 1 {
					t.Errorf("the summary says %q %d times, want once:\n%s", says, n, ended.stderr)
				}
			}
		})
	}
}

func holdsMetric(r otlptest.Request, name string) bool {
	m, ok := r.Message.(*colmetrics.ExportMetricsServiceRequest)
	if !ok {
		return false
	}
	for _, rm := range m.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, metric := range sm.Metrics {
				if metric.Name == name {
					return true
				}
			}
		}
	}
	return false
}
