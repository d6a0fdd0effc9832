package launcher_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

// TestSupervisorKilled: training goes on, ends by itself, and nobody else holds its output. The agent sees EOF without Exit.
func TestSupervisorKilled(t *testing.T) {
	j := start(t, ptlaunch, options{}, probeCommand(t, "signals")...)
	j.line()
	j.canary()
	if err := j.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	j.wait()
	_, _ = j.in.WriteString("alive\n")
	if got := j.line(); got != "echo alive" {
		t.Errorf("the job says %q", got)
	}
	if got := j.agentLine(1); got != "eof" {
		t.Errorf("the agent noted %q, want eof", got)
	}
	_ = j.in.Close()
	if got := j.rest(); got != "" {
		t.Errorf("the job says %q at last", got)
	}
}

// TestSupervisorStopped: STOP stops the supervisor alone; afterwards it makes up for what it missed.
func TestSupervisorStopped(t *testing.T) {
	j := start(t, ptlaunch, options{}, "sh", "-c", "read line; exit 9")
	j.canary()
	_ = j.proc.Signal(syscall.SIGSTOP)
	_ = j.in.Close()
	if out := j.rest(); out != "" { // EOF: the job has ended
		t.Errorf("stdout: %q", out)
	}
	_ = j.proc.Signal(syscall.SIGCONT)
	if s := j.wait(); s.ExitStatus() != 9 {
		t.Errorf("ended with %#x, want exit code 9", s)
	}
}

// TestLeftovers: what the job leaves behind neither delays the exit nor gets killed.
func TestLeftovers(t *testing.T) {
	j := start(t, ptlaunch, options{quiet: true}, "sh", "-c", "sleep 60 </dev/null >/dev/null 2>&1 & echo $!; exit 3")
	pid, _ := strconv.Atoi(j.line())
	if s := j.wait(); s.ExitStatus() != 3 {
		t.Errorf("ended with %#x, want exit code 3", s)
	}
	if !alive(pid) {
		t.Error("the process left behind is gone")
	}
}

// TestOrphans: the supervisor adopts and reaps what the job's children leave, unless told not to.
func TestOrphans(t *testing.T) {
	out := func(flags ...string) string {
		j := start(t, ptlaunch, options{flags: append(flags, "--quiet")}, "sh", "-c", `(sh -c 'sleep 0.2; cut -d" " -f4 /proc/$$/stat' &); sleep 0.6`)
		parent, _ := strconv.Atoi(strings.TrimSpace(j.rest()))
		switch parent {
		case j.proc.Pid:
			return "supervisor"
		default:
			return "somebody else"
		}
	}
	if got := out(); got != "supervisor" {
		t.Errorf("an orphan's parent is %s", got)
	}
	if got := out("--no-subreaper"); got != "somebody else" {
		t.Errorf("with --no-subreaper, an orphan's parent is the %s", got)
	}
}

// TestReapsMany: a job that leaves 300 orphans, which end at one time: no zombie is left while it runs, and its code is its own.
func TestReapsMany(t *testing.T) {
	script := `for i in $(seq 300); do (sleep 0.5 &) ; done; sleep 1; for f in /proc/[0-9]*/stat; do read -r line < $f && case $line in
*") Z $PPID "*) echo zombie;; esac; done 2>/dev/null; exit 7`
	out, status := run(t, ptlaunch, options{quiet: true}, "bash", "-c", script)
	if out != "" {
		t.Errorf("%d zombies", strings.Count(out, "zombie"))
	}
	if status.ExitStatus() != 7 {
		t.Errorf("ended with %#x, want exit code 7", status)
	}
}

// TestExitCodeAmongOrphans: the job's status is never mixed up with another child's, however fast both end.
func TestExitCodeAmongOrphans(t *testing.T) {
	for i := range 300 {
		code := i % 256
		_, status := run(t, ptlaunch, options{quiet: true}, "sh", "-c", fmt.Sprintf("(exit 5 &); (exit 6 &); (sleep 0.0%d &); exit %d", i%10, code))
		if status.ExitStatus() != code || !status.Exited() {
			t.Fatalf("run %d ended with %#x, want exit code %d", i, status, code)
		}
	}
}

// TestSignalAtStart: a signal that comes right after the start is never lost, whatever we are doing then: it ends the job, or
// us before there is a job. TERM has its effect in the Go runtime, USR1 would be dropped by it.
func TestSignalAtStart(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			if sig == syscall.SIGUSR1 && !inherited.Read().Exact {
				t.Skip("a build without cgo cannot hold back what the Go runtime drops")
			}
			file, args := ptlaunch.argv(t, []string{"sleep", "60"}, "--quiet")
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			for i := range 250 {
				proc, err := os.StartProcess(file, args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, null, null}})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(i) * 80 * time.Microsecond)
				_ = proc.Signal(sig)
				j := &job{t: t, proc: proc}
				if s := j.wait(); s.Signal() != sig {
					t.Fatalf("after %v: ended with %#x, want signal %v", time.Duration(i)*80*time.Microsecond, s, sig)
				}
			}
		})
	}
}

// TestSignalsAtEnd: signals that hail down while the job ends change nothing.
func TestSignalsAtEnd(t *testing.T) {
	for range 30 {
		j := start(t, ptlaunch, options{quiet: true}, "sh", "-c", "trap '' TERM USR1; echo ready; sleep 0.05; exit 3")
		j.line()
		end := make(chan struct{})
		go func() {
			defer close(end)
			for j.proc.Signal(syscall.SIGUSR1) == nil && j.proc.Signal(syscall.SIGTERM) == nil {
				time.Sleep(200 * time.Microsecond)
			}
		}()
		if s := j.wait(); s.ExitStatus() != 3 || !s.Exited() {
			t.Fatalf("ended with %#x, want exit code 3", s)
		}
		<-end
	}
}
