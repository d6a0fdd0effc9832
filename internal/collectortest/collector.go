package collectortest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// root is the repository's folder.
func root(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("where the sources lie is not known")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Find returns the path of a Collector, built if need be. It fails the test when there is none and it cannot be built.
func Find(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("PTLAUNCH_OTELCOL"); path != "" {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("PTLAUNCH_OTELCOL: %v", err)
		}
		return path
	}
	dir := root(t)
	cached := filepath.Join(dir, ".cache", "otelcol")
	for _, path := range []string{filepath.Join(dir, "..", ".cache", "otelcol"), cached} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	build(t, dir, cached)
	return cached
}

// build builds test/otelcol. Test binaries of several packages may want it at once: one builds, the others wait.
func build(t testing.TB, dir, target string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatalf("build the Collector: %v", err)
	}
	lock, err := os.OpenFile(target+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatalf("build the Collector: %v", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("build the Collector: %v", err)
	}
	if _, err := os.Stat(target); err == nil {
		return
	}
	t.Log("building the OpenTelemetry Collector, once; this takes some minutes")
	cmd := exec.Command("go", "build", "-o", target+".tmp", ".")
	cmd.Dir = filepath.Join(dir, "test", "otelcol")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the Collector: %v\n%s", err, out)
	}
	if err := os.Rename(target+".tmp", target); err != nil {
		t.Fatalf("build the Collector: %v", err)
	}
}

// Collector is a running one.
type Collector struct {
	GRPC, HTTP string // URLs of its OTLP receiver

	cmd    *exec.Cmd
	exited chan struct{}
	output *output
}

// output keeps what the Collector prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start runs a Collector with the given configuration, to which the otlp receiver on free loopback ports and a health
// check are added, waits until it is ready, and kills it at the test's end if it still runs. Where config needs an
// address of its own, Address gives one.
func Start(t testing.TB, config string) *Collector {
	t.Helper()
	grpc, http, health := Address(t), Address(t), Address(t)
	own := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
extensions: {health_check: {endpoint: %q}}
service: {extensions: [health_check], telemetry: {metrics: {level: none}, logs: {level: warn}}}
`, grpc, http, health)
	c := run(t, []string{own, config})
	c.GRPC, c.HTTP = "http://"+grpc, "http://"+http
	c.await(t, "http://"+health)
	return c
}

// run starts the process with several configurations, which it merges.
func run(t testing.TB, configs []string) *Collector {
	t.Helper()
	dir := t.TempDir()
	args := []string{}
	for i, text := range configs {
		name := filepath.Join(dir, fmt.Sprintf("config%d.yaml", i))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", "file:"+name)
	}
	c := &Collector{cmd: exec.Command(Find(t), args...), exited: make(chan struct{}), output: new(output)}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start the Collector: %v", err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended shows in its output
		close(c.exited)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("the Collector said:\n%s", c.output)
		}
	})
	return c
}

// await waits until the health check answers.
func (c *Collector) await(t testing.TB, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-c.exited:
			t.Fatalf("the Collector ended:\n%s", c.output)
		default:
		}
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatalf("the Collector was not ready within a minute:\n%s", c.output)
}

// Stop ends the Collector in order: what it has received is in its exporters' files when Stop returns.
func (c *Collector) Stop(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("stop the Collector: %v", err)
	}
	select {
	case <-c.exited:
	case <-time.After(time.Minute):
		t.Fatalf("the Collector did not end within a minute:\n%s", c.output)
	}
}

// Output is what it has printed so far.
func (c *Collector) Output() string { return strings.TrimSpace(c.output.String()) }

// Address returns a loopback address with a port that is free now.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
