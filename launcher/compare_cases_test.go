package launcher_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// tries is how often a signal is sent in one case.
const tries = 6

// shows reports whether the terminal comes to show text after what was expected before.
func (term *terminal) shows(w wrapper, text string) bool {
	return w.comes(func() bool { return strings.Contains(plain(term.shown()), text) })
}

// increments sends something several times and returns how often the terminal then showed that sig was received. The shell's
// prompt may stand before it in the line.
func (term *terminal) increments(sig syscall.Signal, send func(i int)) []int {
	received := func() int { return strings.Count(plain(term.shown()), "got "+strconv.Itoa(int(sig))+"\n") }
	var got []int
	for i := range tries {
		before := received()
		send(i)
		time.Sleep(2 * settle)
		got = append(got, received()-before)
	}
	return got
}

func compareKey(t *testing.T, w wrapper) string {
	term := openTerminal(t)
	term.signals(w)
	return spread(term.increments(syscall.SIGINT, func(int) { term.key("\x03") }))
}

func compareResize(t *testing.T, w wrapper) string {
	term := openTerminal(t)
	term.signals(w)
	return spread(term.increments(syscall.SIGWINCH, func(i int) {
		if err := pty.Setsize(term.pty, &pty.Winsize{Rows: uint16(40 + i), Cols: 100}); err != nil {
			t.Fatal(err)
		}
	}))
}

func compareStop(t *testing.T, w wrapper) string {
	term := openTerminal(t)
	term.signals(w)
	term.key("\x1a")
	time.Sleep(settle) // typed earlier, the line would be flushed by the key
	term.enter("echo prompt-$((40+2))")
	return yesNo(term.shows(w, "prompt-42"))
}

func compareBackground(t *testing.T, w wrapper) string {
	term := openTerminal(t)
	term.enter(term.wrapped(w, probeCommand(t, "signals, no input")...) + " &")
	term.expect("ready")
	term.canary(w)
	term.enter("echo prompt-$((40+2))")
	if !term.shows(w, "prompt-42") {
		return "it takes the terminal"
	}
	return spread(term.increments(syscall.SIGTERM, func(int) { term.enter("kill %1") }))
}

func compareRead(t *testing.T, w wrapper) string {
	term := openTerminal(t)
	term.enter(term.wrapped(w, "cat") + " &")
	if !w.comes(func() bool { term.enter("jobs"); return strings.Contains(term.shown(), "Stopped") }) {
		return "no"
	}
	term.enter("echo before-$((40+2))")
	term.expect("before-42")
	term.enter("fg")
	term.expect("cat")
	time.Sleep(settle) // typed earlier, it would be the shell's
	term.enter("hello")
	return yesNo(term.shows(w, "hello\nhello\n"))
}

func toPid(j *job)   { _ = syscall.Kill(j.proc.Pid, syscall.SIGTERM) }
func toGroup(j *job) { _ = syscall.Kill(-j.proc.Pid, syscall.SIGTERM) }
func toAll(j *job) {
	for _, pid := range append([]int{j.proc.Pid}, children(j.proc.Pid)...) {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

func compareSend(send func(*job)) func(*testing.T, wrapper) string {
	return func(t *testing.T, w wrapper) string {
		var got []int
		j := start(t, w, options{}, probeCommand(t, "signals")...)
		j.line()
		if w == ptlaunch {
			j.canary()
		}
		for range tries {
			send(j)
			time.Sleep(2 * settle)
			_, _ = j.in.WriteString("next\n")
			n := 0
			for line := j.line(); line != "echo next"; line = j.line() {
				n++
			}
			got = append(got, n)
		}
		return spread(got)
	}
}

func compareIgnored(t *testing.T, w wrapper) string {
	file, args := w.argv(t, []string{"grep", "SigIgn", "/proc/self/status"})
	out, _ := run(t, bare, options{}, append([]string{"sh", "-c", `trap "" QUIT PIPE TERM; exec "$@"`, "sh", file}, args[1:]...)...)
	_, hex, _ := strings.Cut(strings.TrimSpace(out), "\t")
	set, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	const want = 1<<(syscall.SIGQUIT-1) | 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGTERM-1)
	switch set & want {
	case want:
		return "stay ignored"
	case 0:
		return "none stays"
	}
	return "some stay"
}

func compareChild(t *testing.T, w wrapper) string {
	file, args := w.argv(t, []string{"true"})
	j := start(t, bare, options{}, append([]string{"/usr/bin/python3", "-c", `import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[2:])`, file}, args...)...)
	if !w.comes(func() bool { return !alive(j.proc.Pid) }) {
		return "hangs"
	}
	return "ok"
}

func compareEOF(t *testing.T, w wrapper) string {
	j := start(t, w, options{}, "sh", "-c", "exec >&-; exec sleep 60")
	_ = j.outEnd.SetReadDeadline(time.Now().Add(w.patience()))
	if _, err := j.out.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
		return "when the job ends"
	}
	return "at once"
}

func compareEPIPE(t *testing.T, w wrapper) string {
	j := start(t, w, options{}, "sh", "-c", "exec <&-; echo closed; exec sleep 60")
	j.line()
	if w.comes(func() bool { _, err := j.in.WriteString("x"); return errors.Is(err, syscall.EPIPE) }) {
		return "at once"
	}
	return "when the job ends"
}

func compareOrphans(t *testing.T, w wrapper) string {
	out, _ := run(t, bare, options{}, asPID1(t, w, probeCommand(t, "orphans", "200"))...)
	return strings.TrimSpace(strings.TrimPrefix(out, "zombies "))
}

func comparePID1(t *testing.T, w wrapper) string {
	j := start(t, bare, options{}, asPID1(t, w, []string{"sh", "-c", "echo ready; exec sleep 60"})...)
	j.line()
	var init []int
	j.until(func() bool { init = children(j.proc.Pid); return len(init) == 1 }, "unshare's child")
	_ = syscall.Kill(init[0], syscall.SIGTERM)
	if w == bare {
		// That nothing happens cannot be waited for: the kernel says that it has dropped the signal.
		time.Sleep(settle)
		if alive(init[0]) {
			return "ignored"
		}
	}
	return "exit code " + strconv.Itoa(j.wait().ExitStatus())
}

// compareStart runs one of startCases. What is alone in it is env(1): something has to call execvp.
func compareStart(name string) func(*testing.T, wrapper) string {
	return func(t *testing.T, w wrapper) string {
		dir := startDir(t)
		for _, c := range startCases(dir) {
			if c.name != name {
				continue
			}
			if w == bare {
				c.argv = append([]string{look(t, "env"), "--"}, c.argv...)
			}
			code, _ := runCase(t, w, c, dir)
			if c.want < 126 && code == c.want {
				return "runs"
			}
			return strconv.Itoa(code)
		}
		t.Fatalf("no case %q", name)
		return ""
	}
}
