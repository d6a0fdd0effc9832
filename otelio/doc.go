// Package otelio says in OpenTelemetry what a run showed: metrics, one trace, log events. It is the last hop of the flow
// and the only package that imports OpenTelemetry:
//
//	frame, findings -> Sink.Consume -> OTLP/JSON files in the run folder, always
//	                                -> OTLP endpoint, where the OTEL_* variables name one
//
// Inside, a run takes this way:
//
//	Consume    tracker (spans, log events) and producer (metrics) keep their state; pure, no I/O, on the loop's goroutine
//	   |       a batch when spans are ready or the export interval of the frames' own clock is over
//	encoder    the SDK's exporters turn it into OTLP requests; a gRPC interceptor catches these before they reach a network
//	   |----> journal   one goroutine appends each request as a line to the run folder's files
//	   '----> spool     one queue and one sending goroutine per signal: gRPC or HTTP, retried until delivered
//
// Only the first step runs on the caller's goroutine, so neither a dead collector nor a hanging disk is ever felt by it.
// Catching the requests, instead of letting each exporter send, is what makes the files and the endpoint agree to the byte,
// gives gRPC and HTTP the same retries, and lets Send deliver later what a run could not: the SDK's own exporters give a
// batch up after 10 s (gRPC) or at once when a connection is refused (HTTP).
//
// A Sink belongs to one goroutine (Consume and Close); Problems may be called from any. The package sets no global
// provider; it does route the SDK's global error handler and logger to the Sink's logger.
//
// It must not import sampler or anything that reads /proc of the job.
package otelio
