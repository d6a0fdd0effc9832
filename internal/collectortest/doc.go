// Package collectortest runs a real OpenTelemetry Collector in tests. The binary is the one that PTLAUNCH_OTELCOL names,
// else <repository>/../.cache/otelcol, else it is built once from test/otelcol into <repository>/.cache/otelcol, which
// takes some minutes.
//
//	c := collectortest.Start(t, `
//	exporters: {file: {path: `+file+`}}
//	service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}}`)
//	… send to c.GRPC or c.HTTP …
//	c.Stop(t)
//
// It must not import anything of ptlaunch.
package collectortest
