package otelio

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor that OTEL_EXPORTER_OTLP_COMPRESSION names
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fate is what became of a request.
type fate int

const (
	delivered fate = iota
	// busy: the endpoint is away or asks to come back later.
	busy
	// refused: the endpoint does not take this very request.
	refused
	// misaddressed: it would take none: wrong path, protocol, credentials. Somebody has to repair something; until then it
	// is tried now and then.
	misaddressed
)

// answer is the outcome of one attempt.
type answer struct {
	fate     fate
	after    time.Duration // the endpoint asked to wait this long; 0 when it did not
	err      error         // nil when delivered
	rejected int64         // items that the endpoint refused although it took the request
	message  string        // what it said about it
}

// client delivers requests to one endpoint. It is used by one goroutine per signal.
type client interface {
	send(ctx context.Context, sig signal, body []byte) answer
	close()
}

// newClient returns the client of a target. It does not reach for the network.
func newClient(t *target) (client, error) {
	tlsConfig, err := t.files.config()
	if err != nil && !t.insecure {
		return nil, err
	}
	if t.protocol != "grpc" {
		return &httpClient{target: t, http: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: t.timeout}).DialContext,
				TLSClientConfig:     tlsConfig,
				TLSHandshakeTimeout: t.timeout,
				ForceAttemptHTTP2:   true,
				IdleConnTimeout:     90 * time.Second,
			},
			// A redirect would turn the POST into a GET and count as delivered.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}, nil
	}
	creds := insecure.NewCredentials()
	if !t.insecure {
		creds = credentials.NewTLS(tlsConfig)
	}
	conn, err := grpc.NewClient(t.endpoint, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})),
		// gRPC's own back-off grows to two minutes, which outlasts the outage by as much.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 5 * time.Second, Backoff: backoff.Config{
			BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}}))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %v", t.endpoint, err)
	}
	return &grpcClient{target: t, conn: conn}, nil
}

// rawCodec passes protobuf through as it is: requests are encoded once, for the files and for every attempt.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("send request: %T is not encoded", v)
	}
	return b, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("read response: %T takes no bytes", v)
	}
	*b = bytes.Clone(data)
	return nil
}

type grpcClient struct {
	target *target
	conn   *grpc.ClientConn
}

func (c *grpcClient) close() { _ = c.conn.Close() }

func (c *grpcClient) send(ctx context.Context, sig signal, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, c.target.timeout)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.target.headers))
	if c.conn.GetState() == connectivity.TransientFailure {
		c.conn.ResetConnectBackoff() // when to try again is decided by the sender
	}
	var opts []grpc.CallOption
	if c.target.gzip {
		opts = append(opts, grpc.UseCompressor("gzip"))
	}
	var reply []byte
	if err := c.conn.Invoke(ctx, sig.wire().grpcMethod, body, &reply, opts...); err != nil {
		return judgeStatus(err)
	}
	return accepted(sig, reply)
}

// judgeStatus sorts a gRPC error by what a second attempt would bring. OTLP's specification lists the codes to retry.
func judgeStatus(err error) answer {
	s := status.Convert(err)
	a := answer{err: fmt.Errorf("%s: %.300s", s.Code(), validText(plainGRPCMessage(s.Message())))}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			a.after = info.GetRetryDelay().AsDuration()
		}
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss,
		codes.ResourceExhausted:
		a.fate = busy
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.NotFound:
		a.fate = misaddressed
	default:
		a.fate = refused
	}
	return a
}

// plainGRPCMessage leaves out how gRPC wraps the error of a connection.
func plainGRPCMessage(m string) string {
	if _, desc, ok := strings.Cut(m, "connection error: desc = "); ok {
		if inner, err := strconv.Unquote(desc); err == nil {
			m = strings.TrimPrefix(inner, "transport: ")
		}
	}
	return strings.TrimPrefix(m, "Error while dialing: ")
}

type httpClient struct {
	target *target
	http   *http.Client
}

func (c *httpClient) close() { c.http.CloseIdleConnections() }

func (c *httpClient) send(ctx context.Context, sig signal, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, c.target.timeout)
	defer cancel()
	contentType := "application/x-protobuf"
	if c.target.protocol == "http/json" {
		m := sig.wire().request()
		if err := proto.Unmarshal(body, m); err != nil {
			return answer{fate: refused, err: err}
		}
		contentType, body = "application/json", appendJSON(nil, m.ProtoReflect())
	}
	if c.target.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // into memory: it cannot fail
		_ = w.Close()
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target.endpoint, bytes.NewReader(body))
	if err != nil {
		return answer{fate: misaddressed, err: err}
	}
	for k, v := range c.target.headers {
		req.Header.Set(k, v)
		if k == "host" {
			req.Host = v
		}
	}
	req.Header.Set("Content-Type", contentType)
	if c.target.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{fate: busy, err: plainHTTPError(err)}
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if why := foreign(resp, reply); why != "" {
		return answer{fate: misaddressed, err: fmt.Errorf("%s: %s", resp.Status, why)}
	}
	if resp.StatusCode/100 != 2 {
		return judgeHTTP(resp, reply)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		m := sig.wire().response()
		if parseJSON(reply, m) != nil {
			return answer{}
		}
		n, message := rejected(m)
		return answer{rejected: n, message: message}
	}
	return accepted(sig, reply)
}

// foreign says why an answer cannot be one of an OTLP endpoint, "" when it can. A web server answers 200 to anything, and one that
// wants TLS answers 400 without it: neither has taken a request, nor does it refuse this one.
func foreign(resp *http.Response, reply []byte) string {
	switch {
	case strings.Contains(string(reply), "HTTPS") && resp.StatusCode == http.StatusBadRequest && resp.TLS == nil:
		return validText(firstLine(reply))
	case resp.StatusCode/100 == 2 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		return "the answer is a web page (text/html)"
	}
	return ""
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%.200s", line)
}

// plainHTTPError leaves out the URL that net/http repeats in its errors: the sender names the endpoint.
func plainHTTPError(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), "Post ") {
			return err
		}
		err = inner
	}
}

// judgeHTTP sorts a status that is not 2xx.
func judgeHTTP(resp *http.Response, reply []byte) answer {
	a := answer{err: errors.New(resp.Status), after: retryAfter(resp.Header.Get("Retry-After"))}
	if isText(resp.Header.Get("Content-Type")) && len(reply) > 0 {
		a.err = fmt.Errorf("%s: %.200s", resp.Status, validText(strings.TrimSpace(string(reply))))
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		a.fate = busy
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		a.fate = refused
	default:
		a.fate = misaddressed
	}
	return a
}

func isText(contentType string) bool {
	return strings.HasPrefix(contentType, "text/plain") || strings.HasPrefix(contentType, "application/json")
}

// retryAfter reads the header: seconds or a date.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseInt(v, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// accepted reads the response to a request that was taken, which may still tell of rejected items.
func accepted(sig signal, reply []byte) answer {
	m := sig.wire().response()
	if proto.Unmarshal(reply, m) != nil {
		return answer{} // taken all the same
	}
	n, message := rejected(m)
	return answer{rejected: n, message: message}
}
