package otelio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// batch is what one call of Consume hands over. Every part may be empty.
type batch struct {
	spans   []sdktrace.ReadOnlySpan
	metrics *metricdata.ResourceMetrics
	records []sdklog.Record
	last    bool // of the run
}

// encoder turns batches into OTLP requests with the SDK's own exporters. Their connection never dials: an interceptor
// takes each request and answers OK. It belongs to one goroutine.
type encoder struct {
	conn    *grpc.ClientConn
	spans   *otlptrace.Exporter
	metrics *otlpmetricgrpc.Exporter
	logs    *otlploggrpc.Exporter
	emit    func(signal, proto.Message)
}

// newEncoder returns an encoder that hands every request to emit.
func newEncoder(ctx context.Context, metricOptions []otlpmetricgrpc.Option, emit func(signal, proto.Message)) (*encoder, error) {
	e := &encoder{emit: emit}
	var err error
	e.conn, err = grpc.NewClient("passthrough:///encoder",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(e.catch))
	if err != nil {
		return nil, fmt.Errorf("prepare OTLP encoder: %v", err)
	}
	var errs [numSignals]error
	e.spans, errs[traces] = otlptracegrpc.New(ctx, otlptracegrpc.WithGRPCConn(e.conn))
	e.metrics, errs[metrics] = otlpmetricgrpc.New(ctx, append(metricOptions, otlpmetricgrpc.WithGRPCConn(e.conn))...)
	e.logs, errs[logs] = otlploggrpc.New(ctx, otlploggrpc.WithGRPCConn(e.conn))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("prepare OTLP encoder: %v", err)
	}
	return e, nil
}

// catch is the interceptor.
func (e *encoder) catch(_ context.Context, method string, req, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	m, ok := req.(proto.Message)
	if !ok {
		return fmt.Errorf("encode %s: %T is no message", method, req)
	}
	for s := range numSignals {
		if s.wire().grpcMethod == method {
			e.emit(s, m)
			return nil
		}
	}
	return fmt.Errorf("encode %s: no such signal", method)
}

// encode emits the requests of b.
func (e *encoder) encode(b batch) error {
	// Nothing is sent here, so nothing can take long: the exporters need a context all the same.
	ctx := context.Background()
	var errs [numSignals]error
	if len(b.spans) > 0 {
		errs[traces] = e.spans.ExportSpans(ctx, b.spans)
	}
	if b.metrics != nil {
		errs[metrics] = e.metrics.Export(ctx, b.metrics)
	}
	if len(b.records) > 0 {
		errs[logs] = e.logs.Export(ctx, b.records)
	}
	return errors.Join(errs[:]...)
}

// marshal returns m in protobuf. It is the one gate for text: comm, command lines and paths are bytes, and one string that
// is not UTF-8 would make protobuf refuse the whole request, and every later one that holds the same series. Such strings
// are repaired in m itself, so that the files agree.
func marshal(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err == nil {
		return b, nil
	}
	repairText(m.ProtoReflect())
	return proto.Marshal(m)
}

// repairText replaces what is not UTF-8 in every string below m.
func repairText(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i, list := 0, v.List(); i < list.Len(); i++ {
				repairText(list.Get(i).Message())
			}
		case fd.IsList() && fd.Kind() == protoreflect.StringKind:
			for i, list := 0, v.List(); i < list.Len(); i++ {
				list.Set(i, protoreflect.ValueOfString(validText(list.Get(i).String())))
			}
		case fd.IsList():
		case fd.Kind() == protoreflect.MessageKind:
			repairText(v.Message())
		case fd.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			m.Set(fd, protoreflect.ValueOfString(validText(v.String())))
		}
		return true
	})
}

// validText is s with U+FFFD for each run of bytes that is not UTF-8.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// close releases the encoder's connection, which never reached anything.
func (e *encoder) close() { _ = e.conn.Close() }
