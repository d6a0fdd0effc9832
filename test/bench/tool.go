package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// tool is something that observes a population, once a second.
type tool struct {
	name   string
	cmd    *exec.Cmd
	whole  bool          // it looks at every process of the machine, not at the population alone
	rounds func() int    // how many samples it has taken so far; nil: one a second
	stop   func()        // what else is to be ended, nil for nothing
	needs  func() error  // waits until it is ready, nil when it is at once
	ended  chan struct{} // closed when the process has ended
}

// errMissing is a peer that this machine does not have.
var errMissing = errors.New("not on this machine")

// start runs the tool's process in the background.
func (t *tool) start() error {
	if _, err := exec.LookPath(t.cmd.Path); err != nil {
		return fmt.Errorf("%s: %w", t.name, errMissing)
	}
	if err := t.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %v", t.name, err)
	}
	t.ended = make(chan struct{})
	go func() {
		_ = t.cmd.Wait() // ended by us; one that ends by itself is missed at the next reading
		close(t.ended)
	}()
	if t.needs != nil {
		if err := t.needs(); err != nil {
			t.end()
			return fmt.Errorf("start %s: %v", t.name, err)
		}
	}
	return nil
}

// end stops the tool's process, by SIGTERM when that does.
func (t *tool) end() {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-t.ended:
	case <-time.After(15 * time.Second):
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
	if t.stop != nil {
		t.stop()
	}
}

// tools knows how to start each of them.
type tools struct {
	dir      string // scratch
	self     string // this program
	ptlaunch string
	otelcol  string // "" when there is none
}

// ourselves is this program in one of its roles.
func (b tools) ourselves(name, role string, p *population) *tool {
	cmd := exec.Command(b.self, role, strconv.Itoa(p.pid()))
	cmd.Stderr = os.Stderr
	return &tool{name: name, cmd: cmd}
}

// agent is ptlaunch as the population's sidecar. endpoint "" leaves OTLP off.
func (b tools) agent(p *population, endpoint string, flags ...string) *tool {
	args := append([]string{"attach", "--quiet", "--out", filepath.Join(b.dir, "runs")}, flags...)
	cmd := exec.Command(b.ptlaunch, append(args, strconv.Itoa(p.pid()))...)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	if endpoint != "" {
		cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	}
	return &tool{name: "ptlaunch, whole agent", cmd: cmd}
}

func (b tools) pidstat(p *population) *tool {
	return &tool{name: "pidstat -d -p", cmd: exec.Command("pidstat", "-d", "-p", strings.Join(p.pids(), ","), "1")}
}

func (b tools) iotop() *tool {
	t := &tool{name: "iotop-c -b", cmd: exec.Command("iotop-c", "-b", "-d", "1"), whole: true}
	var rounds atomic.Int64
	t.cmd.Stdout = counter{"Total DISK READ", &rounds}
	t.rounds = func() int { return int(rounds.Load()) }
	return t
}

// counter counts a word in what is written to it. iotop writes whole lines.
type counter struct {
	word string
	n    *atomic.Int64
}

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(strings.Count(string(p), c.word)))
	return len(p), nil
}

// collector is a Collector with a configuration; ready says on which address it listens when it is ready, "" for none.
func (b tools) collector(name, config, ready string) (*tool, error) {
	if b.otelcol == "" {
		return nil, fmt.Errorf("%s: %w", name, errMissing)
	}
	file := filepath.Join(b.dir, strings.ReplaceAll(name, " ", "-")+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("write the Collector's configuration: %v", err)
	}
	t := &tool{name: name, cmd: exec.Command(b.otelcol, "--config", "file:"+file), whole: true}
	t.cmd.Stderr = os.Stderr
	if ready != "" {
		t.needs = func() error { return awaitPort(ready) }
	}
	return t, nil
}

const scrapeProcesses = `
receivers: {hostmetrics: {collection_interval: 1s, scrapers: {process: {mute_process_all_errors: true}}}}
exporters: {nop: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {metrics: {receivers: [hostmetrics], exporters: [nop]}}
`

const receiveOTLP = `
receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {nop: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [nop]}
    traces: {receivers: [otlp], exporters: [nop]}
    logs: {receivers: [otlp], exporters: [nop]}
`

// processExporter is scraped once a second, or as often as it can answer.
func (b tools) processExporter(ctx context.Context) (*tool, error) {
	file := filepath.Join(b.dir, "process-exporter.yaml")
	config := "process_names: [{name: \"{{.Comm}}:{{.PID}}\", cmdline: ['.+']}]\n"
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("write process-exporter's configuration: %v", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	t := &tool{
		name: "process-exporter", whole: true,
		cmd:   exec.Command("prometheus-process-exporter", "--config.path="+file, "--web.listen-address="+address),
		needs: func() error { return awaitPort(address) },
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var scrapes atomic.Int64
	t.rounds = func() int { return int(scrapes.Load()) }
	t.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if scrape(ctx, "http://"+address+"/metrics") == nil {
					scrapes.Add(1)
				}
			}
		}
	}()
	return t, nil
}

func scrape(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func awaitPort(address string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing listens on %s after 30 s", address)
		}
	}
}
