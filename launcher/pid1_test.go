package launcher_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// asPID1 is a command line under which the wrapper is PID 1 of a new pid namespace. It needs root, as the test machine gives.
func asPID1(t *testing.T, w wrapper, command []string, flags ...string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a pid namespace of our own needs root")
	}
	file, args := w.argv(t, command, flags...)
	return append([]string{look(t, "unshare"), "-pf", "--mount-proc", "--kill-child", file}, args[1:]...)
}

// TestPID1Orphans: a thousand orphans that end together are all reaped.
func TestPID1Orphans(t *testing.T) {
	t.Parallel()
	out, status := run(t, bare, options{}, asPID1(t, ptlaunch, probeCommand(t, "orphans", "1000"), "--quiet")...)
	if out != "zombies 0\n" || status != 0 {
		t.Errorf("the job says %q and ends with %#x", out, status)
	}
}

// TestPID1Codes: exit codes as they are; for a signal, 128+n, because the kernel does not let PID 1 kill itself. tini agrees.
func TestPID1Codes(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "ulimit -c 0; kill -SEGV $$": 139,
	} {
		for _, w := range []wrapper{ptlaunch, tini} {
			_, status := run(t, bare, options{}, asPID1(t, w, []string{"sh", "-c", script})...)
			if status.ExitStatus() != want {
				t.Errorf("%s: %q ends with %#x, want exit code %d", w, script, status, want)
			}
		}
	}
}

// TestPID1Signal: a signal sent to PID 1 reaches the job, which has no handler and dies by it (a bare PID 1 would ignore it).
func TestPID1Signal(t *testing.T) {
	for _, w := range []wrapper{ptlaunch, tini} {
		j := start(t, bare, options{}, asPID1(t, w, []string{"sh", "-c", "echo ready; exec sleep 60"})...)
		j.line()
		var init []int
		j.until(func() bool { init = children(j.proc.Pid); return len(init) == 1 }, "unshare's child")
		_ = syscall.Kill(init[0], syscall.SIGTERM)
		if s := j.wait(); s.ExitStatus() != 143 {
			t.Errorf("%s ended with %#x, want exit code 143", w, s)
		}
	}
}

// TestPID1Farewell: the agent gets to say its last words before the namespace is torn down.
func TestPID1Farewell(t *testing.T) {
	j := start(t, bare, options{}, asPID1(t, ptlaunch, []string{"sh", "-c", "exit 4"})...)
	j.wait()
	if got := j.stderr(); !strings.Contains(got, "farewell: code 4 signal 0\n") {
		t.Errorf("stderr: %q", got)
	}
}
