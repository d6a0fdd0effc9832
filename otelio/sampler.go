package otelio

import (
	"encoding/hex"
	"strconv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// dropsTrace reads OTEL_TRACES_SAMPLER and decides once for the whole trace, from its id, so that all nodes of a job decide
// alike. A run is one trace, and a rare one: without the variable it is always sent, whatever the flag of an incoming
// TRACEPARENT says, and a parent-based sampler takes the parent for sampled.
func dropsTrace(r *reader, traceID string) bool {
	const name = "OTEL_TRACES_SAMPLER"
	switch r.choice(name, "always_on", "always_on", "always_off", "traceidratio",
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio") {
	case "always_off":
		return true
	case "traceidratio":
		var id trace.TraceID
		if b, err := hex.DecodeString(traceID); err == nil {
			copy(id[:], b)
		}
		s := sdktrace.TraceIDRatioBased(samplerRatio(r))
		return s.ShouldSample(sdktrace.SamplingParameters{TraceID: id}).Decision == sdktrace.Drop
	}
	return false
}

// samplerRatio reads OTEL_TRACES_SAMPLER_ARG.
func samplerRatio(r *reader) float64 {
	v := r.get("OTEL_TRACES_SAMPLER_ARG")
	if v == "" {
		return 1
	}
	ratio, err := strconv.ParseFloat(v, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		r.complain("OTEL_TRACES_SAMPLER_ARG=%q is not a number between 0 and 1; going on with 1", v)
		return 1
	}
	return ratio
}
