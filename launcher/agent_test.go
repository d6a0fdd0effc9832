package launcher_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// checkSignals wants a job whose agent is out of order to get every pid-directed signal exactly once, a group-wide one once or
// twice, and its own exit code to come through.
func checkSignals(t *testing.T, j *job) {
	t.Helper()
	_ = j.proc.Signal(syscall.SIGUSR1)
	_ = syscall.Kill(-j.proc.Pid, syscall.SIGUSR2)
	time.Sleep(settle)
	_ = j.in.Close()
	got := counts(j.rest())
	if got[int(syscall.SIGUSR1)] != 1 {
		t.Errorf("USR1 to the supervisor was received %d times, want 1", got[int(syscall.SIGUSR1)])
	}
	if n := got[int(syscall.SIGUSR2)]; n < 1 || n > 2 {
		t.Errorf("USR2 to the group was received %d times, want 1 or 2", n)
	}
	if s := j.wait(); s != 0 {
		t.Errorf("ended with %#x, want 0", s)
	}
}

// TestAgentKilled: the job does not notice, and a second agent takes over.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{}, probeCommand(t, "signals")...)
	j.line()
	_ = syscall.Kill(j.canary(), syscall.SIGKILL)
	_ = j.proc.Signal(syscall.SIGHUP)
	if got := j.line(); got != "got 1" {
		t.Errorf("without an agent, the job says %q", got)
	}
	j.until(func() bool {
		b, _ := os.ReadFile(j.notes)
		return strings.Contains(string(b), "\nstart 1 ")
	}, "the second agent")
	time.Sleep(20 * time.Millisecond)
	checkSignals(t, j)
}

// TestAgentStopped: nothing waits for an agent that is stopped but the flush, at most its timeout.
func TestAgentStopped(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{flags: []string{"--flush-timeout", "300ms"}}, probeCommand(t, "signals")...)
	j.line()
	agent := j.canary()
	_ = syscall.Kill(agent, syscall.SIGSTOP)
	time.Sleep(20 * time.Millisecond)
	checkSignals(t, j)
	waitFor(t, func() bool { return !alive(agent) }, "the stopped agent to be killed at the timeout")
}

// TestAgentContinued: an agent that runs again is believed again, but not about what was sent while it stood.
func TestAgentContinued(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{}, probeCommand(t, "signals")...)
	j.line()
	agent := j.canary()
	_ = syscall.Kill(agent, syscall.SIGSTOP)
	time.Sleep(20 * time.Millisecond)
	_ = syscall.Kill(agent, syscall.SIGUSR1) // pending: reported when it runs again
	_ = syscall.Kill(agent, syscall.SIGCONT)
	_ = j.proc.Signal(syscall.SIGUSR1) // must not be taken for that one
	if got := j.line(); got != "got 10" {
		t.Errorf("the job says %q", got)
	}
	time.Sleep(2 * settle)
	_ = syscall.Kill(-j.proc.Pid, syscall.SIGHUP)
	time.Sleep(settle)
	_ = j.in.Close()
	if got := counts(j.rest()); got[1] != 1 || got[10] != 0 {
		t.Errorf("later received %v, want one HUP", got)
	}
}

// TestAgentHangs: its canary still works; the exit waits for the flush timeout and no longer.
func TestAgentHangs(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{env: []string{"TEST_AGENT=hang"}, flags: []string{"--flush-timeout", "300ms"}},
		probeCommand(t, "signals")...)
	j.line()
	j.canary()
	checkSignals(t, j)
}

// TestAgentCrashes: one that cannot live is started again, and is no reason to fail.
func TestAgentCrashes(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{env: []string{"TEST_AGENT=crash"}}, probeCommand(t, "signals")...)
	j.line()
	if got := j.agentLine(1); !strings.HasPrefix(got, "start 1 ") {
		t.Errorf("the agent noted %q, want a second start", got)
	}
	checkSignals(t, j)
}

// TestAgentRestartsEnd: after three restarts an agent stays dead.
func TestAgentRestartsEnd(t *testing.T) {
	t.Parallel()
	j := start(t, bare, options{env: []string{"TEST_AGENT=crash"}}, probeCommand(t, "launch", self(t), probeArg+"signals")...)
	j.line()
	if got := j.agentLine(3); !strings.HasPrefix(got, "start 3 ") {
		t.Errorf("the agent noted %q, want a fourth start", got)
	}
	time.Sleep(settle)
	checkSignals(t, j)
	if b, _ := os.ReadFile(j.notes); strings.Count(string(b), "start") != 4 {
		t.Errorf("the agent noted %q, want four starts", b)
	}
}

// TestAgentCannotBeStarted: without /proc there is no file to run it from.
func TestAgentCannotBeStarted(t *testing.T) {
	t.Parallel()
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "kill -USR1 $PPID; sleep 5"})
	_, status := run(t, bare, options{}, append([]string{"unshare", "-m", "sh", "-c", `umount -l /proc; exec "$@"`, "sh", file}, args[1:]...)...)
	if status.Signal() != syscall.SIGUSR1 {
		t.Errorf("ended with %#x, want signal USR1", status)
	}
}

// TestFlushIsCutShort: a further INT while the exit waits for the agent ends the wait.
func TestFlushIsCutShort(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{env: []string{"TEST_AGENT=late"}, flags: []string{"--flush-timeout", "1h"}}, "sh", "-c", "exit 2")
	j.agentLine(1) // exit
	time.Sleep(400 * time.Millisecond)
	_ = j.proc.Signal(syscall.SIGINT)
	if s := j.wait(); s.ExitStatus() != 2 {
		t.Errorf("ended with %#x, want exit code 2", s)
	}
}

// TestFlushWithoutWaiting: a timeout of 0 does not wait for the agent, which finishes by itself; one that cannot ends all the same.
func TestFlushWithoutWaiting(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "hang"} {
		j := start(t, ptlaunch, options{env: []string{"TEST_AGENT=" + mode}, flags: []string{"--flush-timeout", "0"}}, "sh", "-c", "read l; exit 2")
		agent := j.canary()
		_ = j.in.Close()
		if s := j.wait(); s.ExitStatus() != 2 {
			t.Errorf("ended with %#x, want exit code 2", s)
		}
		if text := j.stderr(); text != "" {
			t.Errorf("stderr: %q, want nothing: nobody waited for the farewell", text)
		}
		if mode == "" {
			if got := j.agentLine(1); got != "exit 2 0" {
				t.Errorf("the agent noted %q, want exit 2 0", got)
			}
		}
		waitFor(t, func() bool { return !alive(agent) }, "the agent to end")
	}
	// One that has not even begun when the job is over reads all of it from the pipe.
	j := start(t, ptlaunch, options{flags: []string{"--flush-timeout", "0"}}, "true")
	if got := j.agentLine(1); got != "exit 0 0" {
		t.Errorf("the agent noted %q, want exit 0 0", got)
	}
}

// TestStoppingIsHandedOver: the agent hears of a signal that asks the job to end before the job has ended.
func TestStoppingIsHandedOver(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{}, probeCommand(t, "signals")...)
	j.line()
	j.canary()
	_ = j.proc.Signal(syscall.SIGTERM)
	if got := j.agentLine(1); got != "stopping 15" {
		t.Errorf("the agent noted %q, want stopping 15", got)
	}
	_ = j.in.Close()
	if got := j.agentLine(2); got != "exit 0 0" {
		t.Errorf("the agent noted %q, want exit 0 0", got)
	}
}
