package otlptest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
)

// Request is what a client sent.
type Request struct {
	Signal  string // "traces", "metrics", "logs"
	Attempt int    // how many requests of any signal came before it
	Header  http.Header
	GRPC    bool
	Gzip    bool          // HTTP only: gRPC undoes the compression itself
	JSON    bool          // HTTP only
	Message proto.Message // the Export…ServiceRequest
}

// Answer is what the server does with a request.
type Answer struct {
	status     status
	retryAfter time.Duration
	rejected   int64
	hang       bool
	taken      bool // the request is kept although the answer says otherwise
	message    string
}

// status is an outcome in both protocols.
type status int

const (
	statusOK status = iota
	statusBusy
	statusThrottled
	statusBad
	statusForbidden
)

// The answers.
var (
	OK        = Answer{taken: true}
	Forbidden = Answer{status: statusForbidden, message: "no such token"}
	// Bad says that this request cannot be taken: HTTP 400, gRPC InvalidArgument.
	Bad = Answer{status: statusBad, message: "an item is bad"}
	// Hang never answers, until the client gives up or the server is stopped.
	Hang = Answer{hang: true}
	// TakenThenHang keeps the request but never answers: the client will send it again.
	TakenThenHang = Answer{hang: true, taken: true}
)

// Busy asks to come back: HTTP 503, gRPC Unavailable.
func Busy(after time.Duration) Answer { return Answer{status: statusBusy, retryAfter: after} }

// Throttled asks to slow down: HTTP 429 with Retry-After, gRPC ResourceExhausted with RetryInfo.
func Throttled(after time.Duration) Answer {
	return Answer{status: statusThrottled, retryAfter: after}
}

// Partial takes the request but says that it rejected some items.
func Partial(rejected int64, message string) Answer {
	return Answer{taken: true, rejected: rejected, message: message}
}

// Server is an OTLP endpoint.
type Server struct {
	tls      *tls.Config
	grpcAddr string
	httpAddr string

	mu       sync.Mutex
	respond  func(Request) Answer
	attempts int
	taken    []Request
	stop     func() // nil while stopped
}

// Start starts a server on free ports and stops it at the test's end.
func Start(t testing.TB) *Server { return start(t, nil) }

func start(t testing.TB, config *tls.Config) *Server {
	t.Helper()
	s := &Server{tls: config}
	s.grpcAddr, s.httpAddr = "127.0.0.1:0", "127.0.0.1:0"
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Start starts a stopped server again, on the same ports.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	grpcListener, err := net.Listen("tcp", s.grpcAddr)
	if err != nil {
		t.Fatalf("listen for gRPC: %v", err)
	}
	httpListener, err := net.Listen("tcp", s.httpAddr)
	if err != nil {
		t.Fatalf("listen for HTTP: %v", err)
	}
	s.grpcAddr, s.httpAddr = grpcListener.Addr().String(), httpListener.Addr().String()
	if s.tls != nil {
		httpListener = tls.NewListener(httpListener, s.tls)
	}
	var opts []grpc.ServerOption
	if s.tls != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	gs := grpc.NewServer(opts...)
	coltrace.RegisterTraceServiceServer(gs, traceService{s: s})
	colmetrics.RegisterMetricsServiceServer(gs, metricsService{s: s})
	collogs.RegisterLogsServiceServer(gs, logsService{s: s})
	// Requests hang on this context, so that Stop ends them.
	ctx, cancel := context.WithCancel(context.Background())
	hs := &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)} // failed handshakes are what some tests are about
	var done sync.WaitGroup
	done.Go(func() { _ = gs.Serve(grpcListener) })
	done.Go(func() { _ = hs.Serve(httpListener) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = func() {
		cancel()
		gs.Stop()
		_ = hs.Close()
		done.Wait()
	}
}

// Stop closes all connections and both ports. What was taken stays.
func (s *Server) Stop() {
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Respond sets what the server answers from now on; nil is OK to everything. It is called for one request at a time.
func (s *Server) Respond(f func(Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = f
}

// GRPC is the endpoint's URL for gRPC.
func (s *Server) GRPC() string { return s.scheme() + s.grpcAddr }

// HTTP is the endpoint's base URL for HTTP.
func (s *Server) HTTP() string { return s.scheme() + s.httpAddr }

func (s *Server) scheme() string {
	if s.tls != nil {
		return "https://"
	}
	return "http://"
}

// take decides on a request and keeps it if it is to be taken.
func (s *Server) take(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Attempt = s.attempts
	s.attempts++
	a := OK
	if s.respond != nil {
		a = s.respond(r)
	}
	if a.taken {
		s.taken = append(s.taken, r)
	}
	return a
}

// Attempts returns how many requests came, taken or not.
func (s *Server) Attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

// Requests returns what was taken, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.taken...)
}

// Spans returns all spans taken.
func (s *Server) Spans() []*tracepb.Span {
	var out []*tracepb.Span
	for _, r := range s.Requests() {
		if m, ok := r.Message.(*coltrace.ExportTraceServiceRequest); ok {
			for _, rs := range m.ResourceSpans {
				for _, ss := range rs.ScopeSpans {
					out = append(out, ss.Spans...)
				}
			}
		}
	}
	return out
}

// Metrics returns all metrics taken: one of a name for each export.
func (s *Server) Metrics() []*metricspb.Metric {
	var out []*metricspb.Metric
	for _, r := range s.Requests() {
		if m, ok := r.Message.(*colmetrics.ExportMetricsServiceRequest); ok {
			for _, rm := range m.ResourceMetrics {
				for _, sm := range rm.ScopeMetrics {
					out = append(out, sm.Metrics...)
				}
			}
		}
	}
	return out
}

// Logs returns all log records taken.
func (s *Server) Logs() []*logspb.LogRecord {
	var out []*logspb.LogRecord
	for _, r := range s.Requests() {
		if m, ok := r.Message.(*collogs.ExportLogsServiceRequest); ok {
			for _, rl := range m.ResourceLogs {
				for _, sl := range rl.ScopeLogs {
					out = append(out, sl.LogRecords...)
				}
			}
		}
	}
	return out
}

// Await waits until cond holds, and fails the test when it never does.
func (s *Server) Await(t testing.TB, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("the endpoint did not get what was awaited within 30 s: %d requests came, %d were taken", s.Attempts(), len(s.Requests()))
}
