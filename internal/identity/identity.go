package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// Identity is a run's name for itself.
type Identity struct {
	RunID string // 32 hex digits; the same on all nodes when they share a job id
	Trace handoff.Trace

	flags string // trace flags to hand on to the job
}

// New derives the identity of a run from the command's arguments, its environment and the job id that --job-id or
// PTLAUNCH_JOB_ID set ("" when neither did). The trace id is, first that applies, that of an incoming TRACEPARENT, a hash of
// the shared job id, or random. The error is that of the system's random source; nothing else can fail.
func New(argv, environ []string, configJobID string) (Identity, error) {
	env := lookup(environ)
	jobID := JobID(argv, env, configJobID)
	random := make([]byte, 48)
	for i := 0; i < len(random); i += 8 {
		// Not crypto/rand: it brings math/big, which Go initialises after google.golang.org/..., and with that the supervisor
		// would initialise all of gRPC first. This generator is seeded by the system, and ids need no secrecy.
		binary.LittleEndian.PutUint64(random[i:], rand.Uint64())
	}
	id := Identity{
		RunID: hex.EncodeToString(random[:16]),
		flags: "01",
		Trace: handoff.Trace{
			TraceID:  hex.EncodeToString(random[16:32]),
			RootSpan: hex.EncodeToString(random[32:40]),
			NodeSpan: hex.EncodeToString(random[40:48]),
			JobID:    jobID,
			EmitRoot: emitRoot(jobID, argv, env),
		},
	}
	if jobID != "" {
		id.RunID = derive("run", jobID)[:32]
		id.Trace.TraceID = derive("trace", jobID)[:32]
	}
	if parent, ok := ParseTraceparent(env("TRACEPARENT")); ok {
		id.Trace.TraceID, id.Trace.Parent, id.flags = parent.TraceID, parent.SpanID, parent.Flags
		id.Trace.State = env("TRACESTATE")
	}
	if jobID != "" {
		// The trace id is part of it: two jobs that a workflow engine starts under one TRACEPARENT stay apart even if
		// they share a job id by mistake, and the ids of two traces never collide.
		id.Trace.RootSpan = derive("root", id.Trace.TraceID, jobID)[:16]
	}
	return id, nil
}

// JobEnv returns the job's environment: environ byte for byte, with TRACEPARENT naming this node's span. TRACESTATE and
// BAGGAGE stay as they came. With OTEL_SDK_DISABLED nothing is added: there will be no span to point at.
func (id Identity) JobEnv(environ []string) []string {
	if strings.EqualFold(lookup(environ)("OTEL_SDK_DISABLED"), "true") {
		return environ
	}
	entry := "TRACEPARENT=00-" + id.Trace.TraceID + "-" + id.Trace.NodeSpan + "-" + id.flags
	out := make([]string, 0, len(environ)+1)
	done := false
	for _, e := range environ {
		if strings.HasPrefix(e, "TRACEPARENT=") {
			if done {
				continue // a second entry would contradict the first
			}
			e, done = entry, true
		}
		out = append(out, e)
	}
	if !done {
		out = append(out, entry)
	}
	return out
}

// derive hashes its parts, kept apart by their lengths, to 64 hex digits. An all-zero id, which the trace format forbids,
// would need a SHA-256 prefix of 64 zero bits.
func derive(parts ...string) string {
	h := sha256.New()
	h.Write([]byte("ptlaunch"))
	for _, p := range parts {
		fmt.Fprintf(h, "/%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// lookup returns a function from a variable's name to its first value, "" when it is not there: what getenv(3) gives.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}
