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
