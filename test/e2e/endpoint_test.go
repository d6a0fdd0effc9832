//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/otlptest"
)

// TestWrongEndpoints: whatever an endpoint answers, the job runs and ends as without it, and one line of the summary says what is
// wrong with the endpoint.
func TestWrongEndpoints(t *testing.T) {
	otlp := otlptest.Start(t)
	secure, certificates := otlptest.StartTLS(t)
	_, other := otlptest.StartTLS(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Welcome</html>") }))
	t.Cleanup(page.Close)
	token := otlptest.Start(t)
	token.Respond(func(otlptest.Request) otlptest.Answer { return otlptest.Forbidden })
	client := []string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + certificates.ClientCert, "OTEL_EXPORTER_OTLP_CLIENT_KEY=" + certificates.ClientKey}

	for _, c := range []struct {
		name, endpoint, protocol string
		environ                  []string
		says                     string
	}{
		{"gRPC to an HTTP port", otlp.HTTP(), "grpc", nil, "HTTP/1.1"},
		{"HTTP to a gRPC port", otlp.GRPC(), "http/protobuf", nil, "malformed HTTP response"},
		{"no OTLP at this path", web.URL, "http/protobuf", nil, "404"},
		{"a web page", page.URL, "http/protobuf", nil, "text/html"},
		{"a web page for gRPC", page.URL, "grpc", nil, "HTTP/1.1"},
		{"another protocol", "http://" + banner(t), "http/protobuf", nil, "SSH-2.0"},
		{"another protocol for gRPC", "http://" + banner(t), "grpc", nil, "Unavailable"},
		{"no TLS there", strings.Replace(otlp.GRPC(), "http:", "https:", 1), "grpc", nil, "handshake"},
		{"no TLS there, HTTP", strings.Replace(otlp.HTTP(), "http:", "https:", 1), "http/protobuf", nil, "HTTPS"},
		{"TLS there", strings.Replace(secure.HTTP(), "https:", "http:", 1), "http/protobuf", nil, "not delivered"},
		{"unknown authority", secure.GRPC(), "grpc", nil, "unknown authority"},
		{"unknown authority, HTTP", secure.HTTP(), "http/protobuf", nil, "unknown authority"},
		{"another authority", secure.GRPC(), "grpc", append(client, "OTEL_EXPORTER_OTLP_CERTIFICATE="+other.CA), "unknown authority"},
		{"no client certificate", secure.HTTP(), "http/protobuf", []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=" + certificates.CA}, "certificate required|connection reset"}, // the alert races with what the client still writes
		{"no permission", token.GRPC(), "grpc", nil, "no such token"},
		{"nobody there", "http://" + address(freePort(t)), "grpc", nil, "connection refused"},
		{"no such host", "http://no-such-host.invalid:4317", "grpc", nil, "no-such-host.invalid:4317: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(ptlaunch, "--out", t.TempDir(), "--flush-timeout", "2s", "--", "sh", "-c", "sleep 1; exit 7")
			cmd.Env = append(os.Environ(), append(c.environ, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL="+c.protocol)...)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != 7 {
				t.Errorf("exit code %d, the job's is 7", got)
			}
			var lines []string
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "Telemetry:") {
					lines = append(lines, line)
				}
			}
			if len(lines) != 1 || !regexp.MustCompile(c.says).MatchString(lines[0]) {
				t.Errorf("want one line about telemetry that says %q, got:\n%s", c.says, strings.Join(lines, ""))
			}
		})
	}
}

// banner listens like a server of another protocol, which speaks first.
func banner(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n")
			c.Close()
		}
	}()
	return l.Addr().String()
}
