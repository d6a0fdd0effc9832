// Package identity decides which run this is and where it stands in the trace, before the job starts: the job is given the
// answer as TRACEPARENT, so that OpenTelemetry inside the training code joins the same trace.
//
// Nodes of one job never talk to each other. They agree because each derives the trace id, the run id and the id of the
// root span from a job id that all of them see: ten nodes make one trace.
//
// It imports the standard library and package handoff only: the supervisor calls it before anything heavier is initialised.
// It is pure but for the random ids.
package identity
