//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTrainingJoinsTheTrace: a script with OpenTelemetry's own SDK, set up as its documentation says, finds itself in the run's
// trace, below this node's span, by TRACEPARENT alone.
func TestTrainingJoinsTheTrace(t *testing.T) {
	sdk := os.Getenv("PTLAUNCH_OTEL_PYTHON")
	if _, err := os.Stat(sdk); err != nil {
		t.Fatalf("PTLAUNCH_OTEL_PYTHON=%q: %v; run: make e2e", sdk, err)
	}
	const script = `
import os
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=os.environ["SCRIPT_ENDPOINT"])))
trace.set_tracer_provider(provider)
context = TraceContextTextMapPropagator().extract({"traceparent": os.environ["TRACEPARENT"]})
with trace.get_tracer("train").start_as_current_span("epoch", context=context):
    pass
provider.shutdown()
`
	j := startJaeger(t)
	collector := startCollector(t, "jaeger.yaml", "JAEGER_OTLP_ENDPOINT="+j.otlp)
	run := launch(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector.grpc,
		"SCRIPT_ENDPOINT=http://" + collector.http + "/v1/traces",
		"PYTHONPATH=" + sdk,
	}, "python3", "-c", script)

	var node string
	for _, s := range run.named("training.node") {
		if s.Final() {
			node = s.SpanID
		}
	}
	eventually(t, "the script's span in the run's trace", func() error {
		spans, err := j.trace(run.traceID(t))
		if err != nil {
			return err
		}
		var names []string
		for _, s := range spans {
			if s.OperationName == "epoch" && s.parent() == node {
				return nil
			}
			names = append(names, s.OperationName+" below "+s.parent())
		}
		return fmt.Errorf("no epoch below training.node %s:\n%s", node, strings.Join(names, "\n"))
	})
}
