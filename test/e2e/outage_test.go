//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// outageJob is training-like: a rank whose DataLoader workers come and go, and which saves now and then. It says how long it took by
// its own clock and when it ended, and ends with a code of its own.
const outageJob = `
import ctypes, json, os, sys, time
libc, folder, began, end = ctypes.CDLL(None), sys.argv[1], time.monotonic(), float(sys.argv[2])
print("started", flush=True)
while time.monotonic() < began + end:
    workers = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            libc.prctl(15, b"pt_data_worker")
            for _ in range(25):
                open(sys.executable, "rb").read()
                time.sleep(0.1)
            os._exit(0)
        workers.append(pid)
    with open(folder + "/epoch.pt.tmp", "wb") as f:
        for _ in range(30):
            f.write(b"x" * (1 << 19))
            time.sleep(0.05)
    os.rename(f.name, folder + "/epoch.pt")
    for pid in workers:
        os.waitpid(pid, 0)
print(json.dumps({"seconds": time.monotonic() - began, "ended": time.time()}))
sys.exit(3)
`

const (
	outageFlush = 3 * time.Second
	// Room for a loaded machine. Nothing here is about speed: what would fail is a job or an exit that waits for the endpoint, which is
	// away for longer than this, or for ever.
	outageGrace = 15 * time.Second
	agentMemory = 100 << 20
)

// TestOutages: one run to a Collector that comes a minute late, is killed and is away for 45 s, hangs for 25 s, and dies at the
// end. All that the run made arrives, the job feels nothing of it, and what came too late is delivered by one command.
func TestOutages(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := newFragile(t)
			run := startOutageRun(t, c.environ(protocol), 165*time.Second)

			run.sleepUntil(60 * time.Second)
			c.start(t)
			run.sleepUntil(75 * time.Second)
			c.holds(t, run, 2, "what was made before it came")
			c.kill()
			killed := time.Now()
			run.sleepUntil(120 * time.Second)
			c.start(t)
			back := time.Now()
			run.sleepUntil(130 * time.Second)
			c.holds(t, run, 2, "what was made while it was away")
			c.signal(t, syscall.SIGSTOP)
			run.sleepUntil(155 * time.Second)
			c.signal(t, syscall.SIGCONT)
			c.holds(t, run, 2, "what was made while it hung")
			run.sleepUntil(162 * time.Second)
			c.kill()

			ended := run.wait(t)
			ended.saysHowToSend(t)
			missing := len(readSpans(t, ended.dir)) - len(readSpans(t, c.dir))
			before := c.spanCount(t)
			c.start(t)
			ended.replay(t, c.environ(protocol))
			c.agrees(t, ended, killed, back)
			if sent := c.spanCount(t) - before; sent != missing || missing == 0 {
				t.Errorf("replay sent %d spans, %d were missing", sent, missing)
			}
		})
	}
}

// TestHangingAtTheEnd: an endpoint that takes connections and never answers costs the exit no more than the flush budget.
func TestHangingAtTheEnd(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := newFragile(t)
			c.start(t)
			run := startOutageRun(t, c.environ(protocol), 12*time.Second)
			c.holds(t, run, 1, "the run's first spans")
			run.sleepUntil(8 * time.Second)
			c.signal(t, syscall.SIGSTOP)
			ended := run.wait(t)
			ended.saysHowToSend(t)
			c.signal(t, syscall.SIGCONT)
			ended.replay(t, c.environ(protocol))
			c.agrees(t, ended, time.Time{}, time.Time{})
		})
	}
}

// fragile is a Collector that a test kills, stops and starts again. It keeps what it gets in files, at once.
type fragile struct {
	grpc, http, dir string
	cmd             *exec.Cmd
}

func newFragile(t *testing.T) *fragile {
	t.Helper()
	c := &fragile{grpc: address(freePort(t)), http: address(freePort(t)), dir: t.TempDir()}
	t.Cleanup(c.kill)
	return c
}

func (c *fragile) environ(protocol string) []string {
	endpoint := c.grpc
	if protocol != "grpc" {
		endpoint = c.http
	}
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol}
}

func (c *fragile) file(name string) string { return filepath.Join(c.dir, name) }

func (c *fragile) start(t *testing.T) {
	t.Helper()
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
exporters:
  file/spans: {path: %s, append: true, flush_interval: 1ms}
  file/metrics: {path: %s, append: true, flush_interval: 1ms}
  file/logs: {path: %s, append: true, flush_interval: 1ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file/spans]}
    metrics: {receivers: [otlp], exporters: [file/metrics]}
    logs: {receivers: [otlp], exporters: [file/logs]}
`, c.grpc, c.http, c.file(spansFile), c.file(metricsFile), c.file("logs.otlp.jsonl"))
	if err := os.WriteFile(c.file("config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary(t, "PTLAUNCH_OTELCOL"), "--config", c.file("config.yaml"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.cmd = cmd
	eventually(t, "the Collector to listen", func() error {
		return errors.Join(listens(c.grpc)(), listens(c.http)())
	})
}

func (c *fragile) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (c *fragile) kill() {
	if c.cmd != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		c.cmd = nil
	}
}

// holds waits until all spans have arrived that the run has made so far and at least that many.
func (c *fragile) holds(t *testing.T, run *outageRun, atLeast int, what string) {
	t.Helper()
	made := readSpans(t, run.dir(t))
	if len(made) < atLeast {
		t.Errorf("the run has made %d spans so far, want some to judge by", len(made))
	}
	eventually(t, what, func() error {
		got := readSpans(t, c.dir)
		for id, name := range made {
			if got[id] == "" {
				return fmt.Errorf("%d of %d spans are there, %s %s is not", len(got), len(made), name, id)
			}
		}
		return nil
	})
}

// spanCount is how many spans have arrived, one that came twice counted twice.
func (c *fragile) spanCount(t *testing.T) int {
	t.Helper()
	spans, err := otlpread.Spans(c.file(spansFile))
	if err != nil {
		t.Fatal(err)
	}
	return len(spans)
}

// agrees compares all that arrived with the run folder: no span is missing, no counter jumps or ends elsewhere, and every export that
// the folder has is there. An answer that got lost makes a request arrive twice: that is no difference.
func (c *fragile) agrees(t *testing.T, run endedOutageRun, killed, back time.Time) {
	t.Helper()
	var diff string
	eventually(t, "the spans of the run folder", func() error {
		if diff = cmp.Diff(readSpans(t, run.dir), readSpans(t, c.dir)); diff != "" {
			return fmt.Errorf("spans of the run folder (-) and of the Collector (+):\n%s", diff)
		}
		return nil
	})
	eventually(t, "the counters of the run folder", func() error {
		if diff = cmp.Diff(readTicks(t, run.dir), readTicks(t, c.dir)); diff != "" {
			return fmt.Errorf("exports of the run folder (-) and of the Collector (+):\n%s", tail(diff, 3000))
		}
		return nil
	})
	during := 0
	for _, p := range readPoints(t, c.dir) {
		if p.Metric == "ptlaunch.self.cpu.time" && p.Time.After(killed) && p.Time.Before(back) {
			during++
		}
	}
	if !killed.IsZero() && during < int(back.Sub(killed).Seconds())/2 {
		t.Errorf("%d exports are of the %v while it was away: the counters have a hole there", during, back.Sub(killed))
	}
}

// outageRun is a run in progress.
type outageRun struct {
	began          time.Time
	length         time.Duration
	out            string
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// startOutageRun starts the job, with an export and a piece of each span every second.
func startOutageRun(t *testing.T, environ []string, length time.Duration) *outageRun {
	t.Helper()
	r := &outageRun{began: time.Now(), length: length, out: t.TempDir()}
	r.cmd = exec.Command(ptlaunch, "--out", r.out, "--name", "outage", "--span-rotation", "1s", "--flush-timeout", outageFlush.String(), "--",
		python(t), "-c", outageJob, t.TempDir(), fmt.Sprint(length.Seconds()))
	r.cmd.Env = append(os.Environ(), append(environ, "OTEL_METRIC_EXPORT_INTERVAL=1000", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1")...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

func (r *outageRun) sleepUntil(at time.Duration) { time.Sleep(time.Until(r.began.Add(at))) }

func (r *outageRun) dir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(r.out, "latest")
	eventually(t, "the run's first spans", func() error {
		_, err := os.Stat(filepath.Join(dir, spansFile))
		return err
	})
	return dir
}

// endedOutageRun is a run that is over.
type endedOutageRun struct{ dir, stderr string }

// wait waits for the end, and looks at what an outage must not touch: the job, the exit and the agent's memory.
func (r *outageRun) wait(t *testing.T) endedOutageRun {
	t.Helper()
	r.cmd.Wait()
	exited := time.Now()
	if got := r.cmd.ProcessState.ExitCode(); got != 3 {
		t.Fatalf("exit code %d, the job's is 3\n%s", got, &r.stderr)
	}
	var job struct{ Seconds, Ended float64 }
	_, last, _ := strings.Cut(r.stdout.String(), "\n")
	if err := json.Unmarshal([]byte(last), &job); err != nil {
		t.Fatalf("the job said %q: %v", &r.stdout, err)
	}
	if took := time.Duration(job.Seconds * 1e9); took > r.length+outageGrace {
		t.Errorf("the job took %v, alone %v", took, r.length)
	}
	if late := exited.Sub(time.UnixMicro(int64(job.Ended * 1e6))); late > outageFlush+outageGrace {
		t.Errorf("ptlaunch ended %v after the job, with --flush-timeout %v", late, outageFlush)
	}
	for _, p := range readPoints(t, r.dir(t)) {
		if p.Metric == "ptlaunch.self.memory.usage" && p.Value > agentMemory {
			t.Errorf("the agent had %v MB at %v", p.Value/1e6, p.Time.Sub(r.began))
			break
		}
	}
	return endedOutageRun{dir: r.dir(t), stderr: r.stderr.String()}
}

// saysHowToSend: one line of the summary tells what was not delivered, and the command that delivers it.
func (r endedOutageRun) saysHowToSend(t *testing.T) {
	t.Helper()
	if n := strings.Count(r.stderr, "Telemetry:"); n != 1 || !strings.Contains(r.stderr, "ptlaunch replay --otlp ") {
		t.Errorf("%d lines about telemetry, want one that says how to send it:\n%s", n, r.stderr)
	}
}

// replay sends what is left.
func (r endedOutageRun) replay(t *testing.T, environ []string) {
	t.Helper()
	cmd := exec.Command(ptlaunch, "replay", "--otlp", r.dir)
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ptlaunch replay --otlp: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "Sent what the run could not deliver") {
		t.Errorf("replay says nothing of what it sent:\n%s", out)
	}
}

const (
	spansFile   = "spans.otlp.jsonl"
	metricsFile = "metrics.otlp.jsonl"
)

// readSpans returns the names of the spans in a folder by their ids.
func readSpans(t *testing.T, dir string) map[string]string {
	t.Helper()
	spans, err := otlpread.Spans(filepath.Join(dir, spansFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return spanIDs(spans)
}

func readPoints(t *testing.T, dir string) []otlpread.Point {
	t.Helper()
	points, err := otlpread.Points(filepath.Join(dir, metricsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return points
}

// readTicks returns the values of the job's monotonic counters by series and time, and fails where one goes down.
func readTicks(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	ticks, latest := map[string]float64{}, map[string]otlpread.Point{}
	for _, p := range readPoints(t, dir) {
		if !p.Monotonic {
			continue
		}
		ticks[p.Series()+p.Time.UTC().Format(" 15:04:05.000")] = p.Value
		if last, ok := latest[p.Series()]; ok && p.Time.After(last.Time) && p.Value < last.Value {
			t.Errorf("%s goes down from %v to %v", p.Series(), last.Value, p.Value)
		}
		latest[p.Series()] = p
	}
	return ticks
}
