package otelio

import (
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// deltaKinds says which instruments report differences instead of totals.
type deltaKinds struct{ counters, histograms bool }

// readTemporality reads OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE. All of our counters would be observable ones in
// the SDK, because the kernel keeps the totals: lowmemory leaves those cumulative, and makes histograms delta.
func readTemporality(r *reader) deltaKinds {
	switch r.choice("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative", "cumulative", "delta", "lowmemory") {
	case "delta":
		return deltaKinds{counters: true, histograms: true}
	case "lowmemory":
		return deltaKinds{histograms: true}
	}
	return deltaKinds{}
}

// temporality is the SDK's selector for the synchronous instruments.
func (d deltaKinds) temporality(kind metric.InstrumentKind) metricdata.Temporality {
	if d.histograms && kind == metric.InstrumentKindHistogram {
		return metricdata.DeltaTemporality
	}
	return metricdata.CumulativeTemporality
}

// aggregation is the SDK's selector, with exponential histograms when they are asked for.
func (s settings) aggregation(kind metric.InstrumentKind) metric.Aggregation {
	if s.expoHist && kind == metric.InstrumentKindHistogram {
		return metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}
	}
	return metric.DefaultAggregationSelector(kind)
}

func (s settings) metricOptions() []otlpmetricgrpc.Option {
	return []otlpmetricgrpc.Option{
		otlpmetricgrpc.WithTemporalitySelector(s.delta.temporality),
		otlpmetricgrpc.WithAggregationSelector(s.aggregation),
	}
}
