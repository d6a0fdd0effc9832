package otlptest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

type traceService struct {
	coltrace.UnimplementedTraceServiceServer
	s *Server
}

func (x traceService) Export(ctx context.Context, m *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	a, err := x.s.overGRPC(ctx, "traces", m)
	if err != nil {
		return nil, err
	}
	r := &coltrace.ExportTraceServiceResponse{}
	if a.message != "" {
		r.PartialSuccess = &coltrace.ExportTracePartialSuccess{RejectedSpans: a.rejected, ErrorMessage: a.message}
	}
	return r, nil
}

type metricsService struct {
	colmetrics.UnimplementedMetricsServiceServer
	s *Server
}

func (x metricsService) Export(ctx context.Context, m *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	a, err := x.s.overGRPC(ctx, "metrics", m)
	if err != nil {
		return nil, err
	}
	r := &colmetrics.ExportMetricsServiceResponse{}
	if a.message != "" {
		r.PartialSuccess = &colmetrics.ExportMetricsPartialSuccess{RejectedDataPoints: a.rejected, ErrorMessage: a.message}
	}
	return r, nil
}

type logsService struct {
	collogs.UnimplementedLogsServiceServer
	s *Server
}

func (x logsService) Export(ctx context.Context, m *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	a, err := x.s.overGRPC(ctx, "logs", m)
	if err != nil {
		return nil, err
	}
	r := &collogs.ExportLogsServiceResponse{}
	if a.message != "" {
		r.PartialSuccess = &collogs.ExportLogsPartialSuccess{RejectedLogRecords: a.rejected, ErrorMessage: a.message}
	}
	return r, nil
}

// overGRPC takes a request and turns its answer into a gRPC error.
func (s *Server) overGRPC(ctx context.Context, signal string, m proto.Message) (Answer, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	header := http.Header{}
	for k, vs := range md {
		for _, v := range vs {
			header.Add(k, v)
		}
	}
	a := s.take(Request{Signal: signal, Header: header, GRPC: true, Message: m})
	if a.hang {
		<-ctx.Done()
		return a, ctx.Err()
	}
	code := map[status]codes.Code{statusBusy: codes.Unavailable, statusThrottled: codes.ResourceExhausted,
		statusBad: codes.InvalidArgument, statusForbidden: codes.PermissionDenied}[a.status]
	if code == codes.OK {
		return a, nil
	}
	st := grpcstatus.New(code, a.message)
	if a.retryAfter > 0 {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(a.retryAfter)}); err == nil {
			st = detailed
		}
	}
	return a, st.Err()
}

// ServeHTTP implements OTLP over HTTP, with protobuf and JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signal := strings.TrimPrefix(r.URL.Path, "/v1/")
	request, response := messages(signal)
	if request == nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	req := Request{Signal: signal, Header: r.Header.Clone(), Message: request}
	if err := req.read(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := s.take(req)
	if a.hang {
		<-r.Context().Done()
		return
	}
	code := map[status]int{statusBusy: 503, statusThrottled: 429, statusBad: 400, statusForbidden: 403}[a.status]
	if code != 0 {
		if a.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(a.retryAfter.Seconds())))
		}
		http.Error(w, a.message, code)
		return
	}
	if a.message != "" {
		setPartial(response, a)
	}
	if req.JSON {
		w.Header().Set("Content-Type", "application/json")
		b, _ := protojson.Marshal(response)
		_, _ = w.Write(b)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	b, _ := proto.Marshal(response)
	_, _ = w.Write(b)
}

// read decodes the body.
func (req *Request) read(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		req.Gzip = true
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(z); err != nil {
			return err
		}
	}
	if r.Header.Get("Content-Type") == "application/json" {
		req.JSON = true
		return DecodeJSON(body, req.Message)
	}
	return proto.Unmarshal(body, req.Message)
}

var idInJSON = regexp.MustCompile(`"(traceId|spanId|parentSpanId)":"([0-9a-f]*)"`)

// DecodeJSON fills m from OTLP/JSON, whose ids are hex where proto3 JSON has base64. It is stricter than a receiver has to
// be: unknown fields, enum names and ids in upper case are errors.
func DecodeJSON(body []byte, m proto.Message) error {
	body = idInJSON.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := idInJSON.FindSubmatch(match)
		id, _ := hex.DecodeString(string(parts[2]))
		return []byte(`"` + string(parts[1]) + `":"` + base64.StdEncoding.EncodeToString(id) + `"`)
	})
	return protojson.Unmarshal(body, m)
}

// messages returns an empty request and response of a signal, nil for another path.
func messages(signal string) (request, response proto.Message) {
	switch signal {
	case "traces":
		return &coltrace.ExportTraceServiceRequest{}, &coltrace.ExportTraceServiceResponse{}
	case "metrics":
		return &colmetrics.ExportMetricsServiceRequest{}, &colmetrics.ExportMetricsServiceResponse{}
	case "logs":
		return &collogs.ExportLogsServiceRequest{}, &collogs.ExportLogsServiceResponse{}
	}
	return nil, nil
}

func setPartial(response proto.Message, a Answer) {
	switch r := response.(type) {
	case *coltrace.ExportTraceServiceResponse:
		r.PartialSuccess = &coltrace.ExportTracePartialSuccess{RejectedSpans: a.rejected, ErrorMessage: a.message}
	case *colmetrics.ExportMetricsServiceResponse:
		r.PartialSuccess = &colmetrics.ExportMetricsPartialSuccess{RejectedDataPoints: a.rejected, ErrorMessage: a.message}
	case *collogs.ExportLogsServiceResponse:
		r.PartialSuccess = &collogs.ExportLogsPartialSuccess{RejectedLogRecords: a.rejected, ErrorMessage: a.message}
	}
}
