package launcher_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/launcher"
)

// counts tells how often the probe got each signal.
func counts(output string) map[int]int {
	got := map[int]int{}
	for line := range strings.Lines(output) {
		if number, ok := strings.CutPrefix(line, "got "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(number))
			got[n]++
		}
	}
	return got
}

// settle is how long a signal may take at most to reach the probe, the canary's window included.
const settle = 150 * time.Millisecond

// TestSignalOnce sends every signal that is forwarded in each of the three ways in which signals are sent, and wants the job to
// get exactly one.
func TestSignalOnce(t *testing.T) {
	modes := map[string]func(j *job, sig syscall.Signal){
		"pid":   func(j *job, sig syscall.Signal) { _ = syscall.Kill(j.proc.Pid, sig) },
		"group": func(j *job, sig syscall.Signal) { _ = syscall.Kill(-j.proc.Pid, sig) },
		"every process": func(j *job, sig syscall.Signal) {
			for _, pid := range append([]int{j.proc.Pid}, children(j.proc.Pid)...) {
				_ = syscall.Kill(pid, sig)
			}
		},
	}
	for name, send := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, ptlaunch, options{}, probeCommand(t, "signals")...)
			j.line()
			j.canary()
			want := map[int]int{}
			for _, sig := range launcher.Forwarded() {
				send(j, sig)
				want[int(sig)]++
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(settle)
			_ = j.in.Close()
			got := counts(j.rest())
			for _, sig := range launcher.Forwarded() {
				if got[int(sig)] != 1 {
					t.Errorf("signal %d (%v) received %d times, want 1", sig, sig, got[int(sig)])
				}
			}
			if s := j.wait(); s != 0 {
				t.Errorf("ended with %#x, want 0", s)
			}
		})
	}
}

// TestNoUrgentSignal: the Go runtime interrupts itself with URG, in a busy supervisor and agent often; the job never gets one.
func TestNoUrgentSignal(t *testing.T) {
	t.Parallel()
	j := start(t, ptlaunch, options{}, "/usr/bin/python3", "-c", `import signal, sys
got = dict.fromkeys((signal.SIGURG, signal.SIGUSR1), 0)
def count(n, _): got[n] += 1
for n in got: signal.signal(n, count)
print("ready", flush=True)
sys.stdin.read()
print(got[signal.SIGURG], got[signal.SIGUSR1] > 0)`)
	j.line()
	j.canary()
	for range 2000 {
		_ = j.proc.Signal(syscall.SIGUSR1)
		_ = syscall.Kill(-j.proc.Pid, syscall.SIGUSR1)
		_ = j.proc.Signal(syscall.SIGURG) // not even one that somebody sends
		time.Sleep(500 * time.Microsecond)
	}
	time.Sleep(settle)
	_ = j.in.Close()
	if got := j.rest(); got != "0 True\n" {
		t.Errorf("URG and whether USR1 came: %q, want 0 True", got)
	}
}

// TestTimeout: timeout(1) signals its child and then its own group, in which the child is. Bare, the second may be merged with
// the first.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for _, w := range []wrapper{bare, ptlaunch} {
		file, args := w.argv(t, probeCommand(t, "signals, no input"))
		command := append([]string{"timeout", "-s", "USR1", "-k", "2", "1", file}, args[1:]...)
		j := start(t, bare, options{}, command...)
		if got := counts(j.rest())[int(syscall.SIGUSR1)]; got < 1 || got > 2 {
			t.Errorf("%s: USR1 received %d times, want 1 or 2", w, got)
		}
		if s := j.wait(); s.Signal() != syscall.SIGKILL {
			t.Errorf("%s: timeout ended with %#x, want signal KILL", w, s)
		}
		file, args = w.argv(t, []string{"sleep", "60"})
		_, status := run(t, bare, options{}, append([]string{"timeout", "1", file}, args[1:]...)...)
		if status.ExitStatus() != 124 {
			t.Errorf("%s: timeout ended with %#x, want exit code 124", w, status)
		}
	}
}
