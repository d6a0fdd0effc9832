//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAgentKilled: another agent goes on where the killed one was: same trace, no span missing, totals that go on rising.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	c := newFragile(t)
	c.start(t)
	run := startOutageRun(t, c.environ("grpc"), 25*time.Second)
	c.holds(t, run, 2, "the first agent's spans")
	first := run.agent(t)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another agent", func() error {
		if pid := findAgent(run.cmd.Process.Pid); pid == 0 || pid == first {
			return fmt.Errorf("the agent is process %d", pid)
		}
		return nil
	})
	ended := run.wait(t)
	c.agrees(t, ended, time.Time{}, time.Time{})
	oneTrace(t, ended.dir)
	if n := agents(t, ended.dir); n != 2 {
		t.Errorf("the manifest tells of %d agents, want 2", n)
	}
}

// TestSupervisorKilled: the agent stays with the job, and what it saw is complete, but for how the job ended.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	c := newFragile(t)
	c.start(t)
	run := startOutageRun(t, c.environ("http/protobuf"), 15*time.Second)
	c.holds(t, run, 2, "the first spans")
	agent := run.agent(t)
	run.cmd.Process.Kill()
	run.cmd.Wait()
	eventually(t, "the agent's end", func() error {
		if syscall.Kill(agent, 0) == nil && comm(agent) == agentName {
			return fmt.Errorf("process %d is still there", agent)
		}
		return nil
	})
	ended := endedOutageRun{dir: run.dir(t)}
	c.agrees(t, ended, time.Time{}, time.Time{})
	oneTrace(t, ended.dir)
	if !strings.Contains(run.stdout.String(), "ended") {
		t.Errorf("the job did not end by itself: %s", &run.stdout)
	}
}

// TestAttach: a job that runs already is seen in a Collector, until it ends or somebody has seen enough.
func TestAttach(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		t.Run(fmt.Sprintf("interrupted=%v", interrupt), func(t *testing.T) {
			t.Parallel()
			c := newFragile(t)
			c.start(t)
			job := exec.Command(python(t), "-c", outageJob, t.TempDir(), "14")
			job.Env = append(os.Environ(), "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1")
			if err := job.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { job.Process.Kill() })
			out := t.TempDir()
			attach := exec.Command(ptlaunch, "attach", "--out", out, "--span-rotation", "1s", fmt.Sprint(job.Process.Pid))
			attach.Env = append(os.Environ(), append(c.environ("grpc"), "OTEL_METRIC_EXPORT_INTERVAL=1000")...)
			var text bytes.Buffer
			attach.Stderr = &text
			if err := attach.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { attach.Process.Kill() })
			eventually(t, "the first pieces", func() error {
				if n := len(readSpans(t, c.dir)); n < 6 {
					return fmt.Errorf("%d spans", n)
				}
				return nil
			})
			if interrupt {
				attach.Process.Signal(os.Interrupt)
			} else if err := job.Wait(); err == nil || job.ProcessState.ExitCode() != 3 {
				t.Errorf("the job ended with %v", err)
			}
			if err := attach.Wait(); err != nil {
				t.Errorf("attach: %v\n%s", err, &text)
			}
			ended := endedOutageRun{dir: filepath.Join(out, "latest"), stderr: text.String()}
			c.agrees(t, ended, time.Time{}, time.Time{})
			oneTrace(t, ended.dir)
			if interrupt && job.Process.Signal(syscall.Signal(0)) != nil {
				t.Error("the interrupt of the observer ended the job")
			}
			if strings.Contains(text.String(), "Telemetry:") {
				t.Errorf("all was well, and yet:\n%s", &text)
			}
		})
	}
}

// oneTrace: all spans of a run are in one trace, none was made twice, and run, node and rank have one final span each.
func oneTrace(t *testing.T, dir string) {
	t.Helper()
	run := readRun(t, dir, "")
	run.traceID(t)
	final, seen := map[string]int{}, map[string]bool{}
	for _, s := range run.spans {
		if seen[s.SpanID] {
			t.Errorf("%s %s was made twice", s.Name, s.SpanID)
		}
		seen[s.SpanID] = true
		if s.Final() {
			final[s.Name]++
		}
	}
	for _, name := range []string{"training.run", "training.node", "training.rank"} {
		if final[name] != 1 {
			t.Errorf("%s has %d final spans, want 1", name, final[name])
		}
	}
}

const agentName = "ptl-agent"

func (r *outageRun) agent(t *testing.T) int {
	t.Helper()
	pid := findAgent(r.cmd.Process.Pid)
	if pid == 0 {
		t.Fatal("no agent is found")
	}
	return pid
}

// findAgent returns the agent below a supervisor, 0 for none.
func findAgent(supervisor int) int {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && comm(pid) == agentName {
				return pid
			}
		}
	}
	return 0
}

func comm(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

func agents(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Agents int }
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m.Agents
}
