package otelio

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ptlaunch/ptlaunch/internal/otlptest"
)

// protocols are the two ways to an endpoint.
func protocols(srv *otlptest.Server) map[string][]string {
	return map[string][]string{
		"grpc": {"OTEL_EXPORTER_OTLP_ENDPOINT", srv.GRPC()},
		"http": {"OTEL_EXPORTER_OTLP_ENDPOINT", srv.HTTP(), "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
	}
}

// consume feeds a Sink the seconds from (inclusive) to (exclusive) of a run.
func consume(s *Sink, from, to int) {
	for n := from; n < to; n++ {
		s.Consume(testFrame(n), nil)
	}
}

// sameAsFiles fails unless the endpoint took exactly the requests of the run folder, in their order.
func sameAsFiles(t *testing.T, srv *otlptest.Server, dir string) {
	t.Helper()
	for sig := range numSignals {
		var got []proto.Message
		for _, r := range srv.Requests() {
			if r.Signal == sig.String() {
				got = append(got, r.Message)
			}
		}
		if want := readRequests(t, dir, sig); !slices.EqualFunc(got, want, proto.Equal) {
			t.Errorf("%s: the endpoint took %d requests that differ from the %d in the file", sig, len(got), len(want))
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	cases := map[string]func(otlptest.Request) otlptest.Answer{
		"busy": func(r otlptest.Request) otlptest.Answer {
			if r.Attempt < 6 {
				return otlptest.Busy(0)
			}
			return otlptest.OK
		},
		"throttled": func(r otlptest.Request) otlptest.Answer {
			if r.Attempt < 3 {
				return otlptest.Throttled(time.Second)
			}
			return otlptest.OK
		},
		"hanging": func(r otlptest.Request) otlptest.Answer {
			if r.Attempt < 3 {
				return otlptest.Hang
			}
			return otlptest.OK
		},
		"partial": func(otlptest.Request) otlptest.Answer { return otlptest.Partial(1, "one item is odd") },
	}
	for name, respond := range cases {
		for protocol := range protocols(new(otlptest.Server)) {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				srv := otlptest.Start(t)
				srv.Respond(respond)
				dir := t.TempDir()
				s := newSink(t, dir, env(append(protocols(srv)[protocol], "OTEL_EXPORTER_OTLP_TIMEOUT", "300")...))
				consume(s, 1, 25)
				if err := closeWithin(t, s, 25*time.Second, 25); err != nil {
					t.Fatal(err)
				}
				sameAsFiles(t, srv, dir)
			})
		}
	}
}

// TestEndpointAway: late, away in the middle, and the spans of the outage arrive in order.
func TestEndpointAway(t *testing.T) {
	for protocol := range protocols(new(otlptest.Server)) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			srv := otlptest.Start(t)
			srv.Stop()
			dir := t.TempDir()
			s := newSink(t, dir, env(protocols(srv)[protocol]...))
			consume(s, 1, 12)
			srv.Await(t, func() bool { return len(s.Problems()) > 0 }) // late: an attempt has failed
			srv.Start(t)
			srv.Await(t, func() bool { return len(srv.Spans()) >= 2 && len(srv.Metrics()) > 0 })
			srv.Stop()
			consume(s, 12, 40)
			srv.Start(t)
			if err := closeWithin(t, s, 25*time.Second, 40); err != nil {
				t.Fatal(err)
			}
			sameAsFiles(t, srv, dir)
			if p := s.Problems(); len(p) == 0 || !strings.Contains(strings.Join(p, "\n"), "was away") {
				t.Errorf("the outage is not in the problems: %q", p)
			}
		})
	}
}

// TestOneBadItem: the endpoint refuses every request that holds a certain span; the others arrive.
func TestOneBadItem(t *testing.T) {
	for protocol := range protocols(new(otlptest.Server)) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			srv := otlptest.Start(t)
			srv.Respond(func(r otlptest.Request) otlptest.Answer {
				if m, ok := r.Message.(*coltrace.ExportTraceServiceRequest); ok {
					for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
						if s.Name == spanPool {
							return otlptest.Bad
						}
					}
				}
				return otlptest.OK
			})
			dir := t.TempDir()
			s := newSink(t, dir, env(protocols(srv)[protocol]...))
			consume(s, 1, 5)
			if err := closeWithin(t, s, 25*time.Second, 5); err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for _, s := range spansIn(t, dir) {
				if s.Name != spanPool {
					want = append(want, string(s.SpanId))
				}
			}
			for _, s := range srv.Spans() {
				got = append(got, string(s.SpanId))
			}
			if len(want) != 5 || !slices.Equal(want, got) {
				t.Errorf("%d spans arrived, %d should have", len(got), len(want))
			}
		})
	}
}

// TestSendLater: what a dead endpoint did not take stays in the run folder, and Send delivers it, once.
func TestSendLater(t *testing.T) {
	srv := otlptest.Start(t)
	lookup := env(protocols(srv)["grpc"]...)
	dir := t.TempDir()
	s := newSink(t, dir, lookup)
	consume(s, 1, 12)
	srv.Await(t, func() bool { return len(srv.Spans()) >= 2 && len(srv.Metrics()) > 0 })
	srv.Stop()
	consume(s, 12, 30)
	err := closeWithin(t, s, time.Second, 30)
	if err == nil || !strings.Contains(err.Error(), "ptlaunch replay --otlp "+dir) {
		t.Fatalf("Close says %v", err)
	}
	srv.Start(t)
	sent, err := Send(t.Context(), SendConfig{Dir: dir, Lookup: lookup, Logger: testLog(t)})
	if err != nil || sent.Left != 0 || sent.Requests == 0 {
		t.Fatalf("Send: %+v, %v", sent, err)
	}
	sameAsFiles(t, srv, dir)
	sent, err = Send(t.Context(), SendConfig{Dir: dir, Lookup: lookup, Logger: testLog(t)})
	if err != nil || sent.Requests != 0 {
		t.Errorf("sent again: %+v, %v", sent, err)
	}
}

// TestRestartedAgent: a new Sink cuts a torn line off, goes on in the same files and sends what the dead one left.
func TestRestartedAgent(t *testing.T) {
	srv := otlptest.Start(t)
	dir := t.TempDir()
	first := newSink(t, dir, env())
	consume(first, 1, 12)
	if err := closeWithin(t, first, 10*time.Second, 12); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, metrics.wire().file)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	torn := `{"resourceMetrics":[{"res` + strings.Repeat("x", 1<<20) // longer than all that is written after it
	if _, err := f.WriteString(torn); err != nil {
		t.Fatal(err)
	}
	f.Close()
	second := newSink(t, dir, env(protocols(srv)["grpc"]...))
	consume(second, 12, 24)
	if err := closeWithin(t, second, 20*time.Second, 24); err != nil {
		t.Fatal(err)
	}
	sameAsFiles(t, srv, dir)
}

func TestTLS(t *testing.T) {
	for protocol := range protocols(new(otlptest.Server)) {
		srv, c := otlptest.StartTLS(t)
		good := append(protocols(srv)[protocol], "OTEL_EXPORTER_OTLP_CERTIFICATE", c.CA,
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", c.ClientCert, "OTEL_EXPORTER_OTLP_CLIENT_KEY", c.ClientKey)
		t.Run(protocol, func(t *testing.T) {
			dir := t.TempDir()
			s := newSink(t, dir, env(good...))
			consume(s, 1, 3)
			if err := closeWithin(t, s, 20*time.Second, 3); err != nil {
				t.Fatal(err)
			}
			sameAsFiles(t, srv, dir)
		})
		t.Run(protocol+" of a stranger", func(t *testing.T) {
			s := newSink(t, t.TempDir(), env(protocols(srv)[protocol]...))
			consume(s, 1, 3)
			if err := closeWithin(t, s, time.Second, 3); err == nil {
				t.Error("an unknown authority was trusted")
			}
			if p := strings.Join(s.Problems(), "\n"); !strings.Contains(p, "certificate") {
				t.Errorf("the problems do not speak of the certificate: %s", p)
			}
		})
	}
}

// TestNobodyThere: endpoints that refuse, accept and never answer, or speak another protocol cost the exit its budget at
// most and lose nothing.
func TestNobodyThere(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	srv := otlptest.Start(t)
	for name, vars := range map[string][]string{
		"refused":      {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"},
		"silent grpc":  {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://" + silent.Addr().String()},
		"silent http":  {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://" + silent.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
		"no such host": {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://no-such-host.invalid:4317"},
		"grpc to http": {"OTEL_EXPORTER_OTLP_ENDPOINT", srv.HTTP()},
		"http to grpc": {"OTEL_EXPORTER_OTLP_ENDPOINT", srv.GRPC(), "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
		"wrong path":   {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", srv.HTTP() + "/nowhere", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newSink(t, dir, env(vars...))
			consume(s, 1, 3)
			err := closeWithin(t, s, time.Second, 3)
			if err == nil || !strings.Contains(err.Error(), "not delivered") {
				t.Errorf("Close says %v", err)
			}
			if n := len(readRequests(t, dir, traces)); n == 0 {
				t.Error("no spans in the run folder")
			}
			if err != nil && !regexp.MustCompile(`\((http://)?[a-z0-9.-]+:\d+.*(:| did) .+\)`).MatchString(err.Error()) {
				t.Errorf("Close does not say why: %v", err)
			}
		})
	}
}
