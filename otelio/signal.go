package otelio

import (
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// signal is one of OpenTelemetry's kinds of telemetry.
type signal int

const (
	traces signal = iota
	metrics
	logs
	numSignals
)

// wire is what differs between the signals on their way out.
type wire struct {
	name       string // as in messages and in the state file
	env        string // as in OTEL_EXPORTER_OTLP_<env>_ENDPOINT
	file       string // in the run folder
	grpcMethod string
	httpPath   string
	request    func() proto.Message
	response   func() proto.Message
}

// wire returns how the signal travels.
func (s signal) wire() wire {
	switch s {
	case traces:
		return wire{
			"traces", "TRACES", "spans.otlp.jsonl",
			"/opentelemetry.proto.collector.trace.v1.TraceService/Export", "v1/traces",
			func() proto.Message { return new(coltrace.ExportTraceServiceRequest) },
			func() proto.Message { return new(coltrace.ExportTraceServiceResponse) },
		}
	case metrics:
		return wire{
			"metrics", "METRICS", "metrics.otlp.jsonl",
			"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "v1/metrics",
			func() proto.Message { return new(colmetrics.ExportMetricsServiceRequest) },
			func() proto.Message { return new(colmetrics.ExportMetricsServiceResponse) },
		}
	default:
		return wire{
			"logs", "LOGS", "logs.otlp.jsonl",
			"/opentelemetry.proto.collector.logs.v1.LogsService/Export", "v1/logs",
			func() proto.Message { return new(collogs.ExportLogsServiceRequest) },
			func() proto.Message { return new(collogs.ExportLogsServiceResponse) },
		}
	}
}

func (s signal) String() string { return s.wire().name }

// rejected reads the partial success of a response: how many items the server refused and what it said.
func rejected(response proto.Message) (items int64, message string) {
	switch r := response.(type) {
	case *coltrace.ExportTraceServiceResponse:
		return r.GetPartialSuccess().GetRejectedSpans(), r.GetPartialSuccess().GetErrorMessage()
	case *colmetrics.ExportMetricsServiceResponse:
		return r.GetPartialSuccess().GetRejectedDataPoints(), r.GetPartialSuccess().GetErrorMessage()
	case *collogs.ExportLogsServiceResponse:
		return r.GetPartialSuccess().GetRejectedLogRecords(), r.GetPartialSuccess().GetErrorMessage()
	}
	return 0, ""
}
