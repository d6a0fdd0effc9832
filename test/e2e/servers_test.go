//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 60 * time.Second // for a server or a figure to appear; nothing is asserted about how long it takes

// freePort finds a port of loopback that nobody uses now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// binary is a server that the Makefile built and named in a variable.
func binary(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v; run: make e2e", variable, path, err)
	}
	return path
}

// serve starts a server, waits until it is ready, and stops it when the test ends. It returns the file with what it says.
func serve(t *testing.T, ready func() error, environ []string, command ...string) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s said:\n%s", filepath.Base(command[0]), tail(string(text), 1000))
		}
	})
	eventually(t, filepath.Base(command[0])+" to be ready", ready)
	return log
}

// answers is ready when a URL answers 200; listens when something accepts connections.
func answers(url string) func() error {
	return func() error {
		_, err := get(url)
		return err
	}
}

func listens(addr string) func() error {
	return func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// eventually repeats a check until it passes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("waited %v for %s: %v", patience, what, err)
}

func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, tail(string(body), 300))
	}
	return body, err
}

// jaeger is a running Jaeger.
type jaeger struct{ otlp, query string }

func startJaeger(t *testing.T) jaeger {
	t.Helper()
	j := jaeger{otlp: address(freePort(t)), query: "http://" + address(freePort(t))}
	health := address(freePort(t))
	config := filepath.Join(t.TempDir(), "jaeger.yaml")
	text := fmt.Sprintf(`
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  pipelines: {traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry: {metrics: {level: none}}
extensions:
  healthcheckv2: {use_v2: true, http: {endpoint: %s}}
  jaeger_query:
    storage: {traces: mem}
    http: {endpoint: %s}
    grpc: {endpoint: %s}
  jaeger_storage: {backends: {mem: {memory: {max_traces: 1000}}}}
receivers: {otlp: {protocols: {grpc: {endpoint: %s}}}}
exporters: {jaeger_storage_exporter: {trace_storage: mem}}
`, health, strings.TrimPrefix(j.query, "http://"), address(freePort(t)), j.otlp)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, answers("http://"+health+"/status"), nil, binary(t, "PTLAUNCH_JAEGER"), "--config", config)
	return j
}

// jaegerSpan is a span as Jaeger's query API tells it.
type jaegerSpan struct {
	OperationName, SpanID string
	References            []struct{ RefType, TraceID, SpanID string }
	Tags                  []struct {
		Key   string
		Value any
	}
}

func (s jaegerSpan) parent() string {
	for _, r := range s.References {
		if r.RefType == "CHILD_OF" {
			return r.SpanID
		}
	}
	return ""
}

func (s jaegerSpan) tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// trace asks for a whole trace.
func (j jaeger) trace(id string) ([]jaegerSpan, error) {
	body, err := get(j.query + "/api/traces/" + id)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data []struct{ Spans []jaegerSpan }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Data) != 1 {
		return nil, fmt.Errorf("Jaeger has %d traces with id %s", len(answer.Data), id)
	}
	return answer.Data[0].Spans, nil
}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

func startPrometheus(t *testing.T) prometheus {
	t.Helper()
	return servePrometheus(t, binary(t, "PTLAUNCH_PROMETHEUS"), repo(t, "collector-config/prometheus/prometheus.yaml"))
}

// startScraper is Debian's Prometheus 2, which scrapes a page.
func startScraper(t *testing.T, target string) prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v; run: make e2e", err)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yaml")
	text := fmt.Sprintf("scrape_configs: [{job_name: ptlaunch, honor_labels: true, scrape_interval: 1s, static_configs: [{targets: [%q]}]}]", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return servePrometheus(t, program, config)
}

func servePrometheus(t *testing.T, program, config string) prometheus {
	t.Helper()
	p := prometheus{url: "http://" + address(freePort(t))}
	serve(t, answers(p.url+"/-/ready"), nil, program, "--config.file="+config, "--storage.tsdb.path="+t.TempDir(),
		"--web.listen-address="+strings.TrimPrefix(p.url, "http://"),
		"--web.enable-remote-write-receiver", "--enable-feature=exemplar-storage")
	return p
}

// sample is one series of an answer: its labels and its last value.
type sample struct {
	Metric map[string]string
	Value  float64
}

// query evaluates an expression over the last ten minutes, as a panel or an annotation would, and returns the series found.
func (p prometheus) query(expr string) ([]sample, error) {
	now := time.Now()
	body, err := get(fmt.Sprintf("%s/api/v1/query_range?query=%s&start=%d&end=%d&step=5",
		p.url, url.QueryEscape(expr), now.Add(-10*time.Minute).Unix(), now.Unix()))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	var out []sample
	for _, r := range answer.Data.Result {
		s := sample{Metric: r.Metric}
		if _, err := fmt.Sscan(fmt.Sprint(r.Values[len(r.Values)-1][1]), &s.Value); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// collector is a running Collector, by the addresses at which it takes OTLP.
type collector struct{ grpc, http, scrape, log string }

// startCollector runs the Collector with one of the project's own configurations.
func startCollector(t *testing.T, config string, environ ...string) collector {
	t.Helper()
	c := collector{grpc: address(freePort(t)), http: address(freePort(t)), scrape: address(freePort(t))}
	environ = append(environ, "OTLP_GRPC_ENDPOINT="+c.grpc, "OTLP_HTTP_ENDPOINT="+c.http, "PTLAUNCH_STATE="+t.TempDir(),
		"HEALTH_ENDPOINT="+address(freePort(t)), "PROMETHEUS_SCRAPE_ENDPOINT="+c.scrape)
	c.log = serve(t, listens(c.grpc), environ, binary(t, "PTLAUNCH_OTELCOL"), "--config", repo(t, "collector-config/"+config))
	return c
}

// says waits until the Collector has printed all of the texts.
func (c collector) says(t *testing.T, texts ...string) {
	t.Helper()
	eventually(t, "the Collector to print the run", func() error {
		out, err := os.ReadFile(c.log)
		for _, text := range texts {
			if err == nil && !strings.Contains(string(out), text) {
				err = fmt.Errorf("%q is not in its output", text)
			}
		}
		return err
	})
}

// repo is the absolute path of a file of the repository.
func repo(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
