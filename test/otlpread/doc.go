// Package otlpread reads the OTLP-JSON files of a run folder back, for tests that judge a run by what it published.
//
// It knows the OTLP file format only (one export request per line, https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/)
// and none of ptlaunch's packages, on purpose: what it reads is what any other reader of those files would see.
package otlpread
