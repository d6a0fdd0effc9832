package launcher_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStdinPassesThrough: nobody but the job reads it.
func TestStdinPassesThrough(t *testing.T) {
	j := start(t, ptlaunch, options{quiet: true}, "cat")
	text := strings.Repeat("123\n", 100_000)
	go func() {
		_, _ = j.in.WriteString(text)
		_ = j.in.Close()
	}()
	if got := j.rest(); got != text {
		t.Errorf("%d bytes came back of %d", len(got), len(text))
	}
	if s := j.wait(); s != 0 {
		t.Errorf("ended with %#x", s)
	}
}

// TestEndOfOutput: a reader sees EOF when the job closes its output, not when it ends.
func TestEndOfOutput(t *testing.T) {
	for _, w := range []wrapper{bare, ptlaunch} {
		t.Run(string(w), func(t *testing.T) {
			j := start(t, w, options{quiet: w == ptlaunch}, "sh", "-c", "exec >&- 2>&-; read line; exit 4")
			if out := j.rest(); out != "" {
				t.Errorf("stdout: %q", out)
			}
			if text := j.stderr(); text != "" {
				t.Errorf("stderr: %q", text)
			}
			_, _ = j.in.WriteString("go on\n") // it is still there
			if s := j.wait(); s.ExitStatus() != 4 {
				t.Errorf("ended with %#x, want exit code 4", s)
			}
		})
	}
}

// TestBrokenStdin: a writer gets EPIPE as soon as the job has closed its input.
func TestBrokenStdin(t *testing.T) {
	for _, w := range []wrapper{bare, ptlaunch} {
		t.Run(string(w), func(t *testing.T) {
			j := start(t, w, options{}, "sh", "-c", "exec <&-; echo closed; exec sleep 60")
			j.line()
			j.until(func() bool {
				_, err := j.in.WriteString("x")
				return errors.Is(err, syscall.EPIPE)
			}, "EPIPE")
		})
	}
}

// TestBrokenPipe: a job that writes to nobody dies by PIPE, and so do we.
func TestBrokenPipe(t *testing.T) {
	for _, w := range []wrapper{bare, ptlaunch} {
		j := start(t, w, options{}, "yes")
		j.line()
		_ = j.outEnd.Close()
		if s := j.wait(); s.Signal() != syscall.SIGPIPE {
			t.Errorf("%s ended with %#x, want signal PIPE", w, s)
		}
	}
}

// TestSilence: nothing on stdout but the job's output, and on stderr the farewell alone; nothing at all with --quiet.
func TestSilence(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		j := start(t, ptlaunch, options{quiet: quiet}, "sh", "-c", "echo out; echo err >&2; exit 2")
		if got := j.rest(); got != "out\n" {
			t.Errorf("stdout: %q", got)
		}
		want := "err\nfarewell: code 2 signal 0\n"
		if quiet {
			want = "err\n"
		}
		if got := j.stderr(); got != want {
			t.Errorf("stderr: %q, want %q", got, want)
		}
	}
}

// TestNobodyReadsFarewell: a full stderr that nobody reads delays the exit a little and changes nothing else.
func TestNobodyReadsFarewell(t *testing.T) {
	full, w := pipe(t)
	defer full.Close()
	_ = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	buf := make([]byte, 4096)
	for {
		if _, err := w.Write(buf); err != nil {
			break
		}
	}
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "exit 6"})
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	w.Fd() // back to blocking: O_NONBLOCK is shared with whoever gets the descriptor
	proc, err := os.StartProcess(file, args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, null, w}})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, proc: proc}
	if s := j.wait(); s.ExitStatus() != 6 {
		t.Errorf("ended with %#x, want exit code 6", s)
	}
}

// TestClosedOutput: closed standard descriptors harm nobody.
func TestClosedOutput(t *testing.T) {
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "exit 3"})
	_, status := run(t, bare, options{}, append([]string{"sh", "-c", `exec "$@" <&- >&- 2>&-`, "sh", file}, args[1:]...)...)
	if status.ExitStatus() != 3 {
		t.Errorf("ended with %#x, want exit code 3", status)
	}
}

// TestSharedFlags: O_NONBLOCK of a descriptor that we share with a shell stays as it is.
func TestSharedFlags(t *testing.T) {
	file, args := ptlaunch.argv(t, []string{"true"})
	command := `flags() { grep -h flags /proc/$$/fdinfo/[012]; }; a=$(flags); "$@"; b=$(flags); [ "$a" = "$b" ] && echo same`
	out, _ := run(t, bare, options{}, append([]string{"sh", "-c", command, "sh", file}, args[1:]...)...)
	if out != "same\n" {
		t.Errorf("got %q", out)
	}
}
