package launcher_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal is a pseudo-terminal with an interactive bash in it, which does the job control that the tests are about.
type terminal struct {
	t     *testing.T
	pty   *os.File
	shell *exec.Cmd
	notes string

	mu  sync.Mutex
	all strings.Builder // everything that was printed
	pos int             // up to where expect has looked
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	term := &terminal{t: t, notes: notesFile(t)}
	term.shell = exec.Command(look(t, "bash"), "--norc", "--noprofile", "-i")
	term.shell.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb", "HISTFILE=", "TEST_AGENT_FILE="+term.notes)
	master, err := pty.Start(term.shell)
	if err != nil {
		t.Fatal(err)
	}
	f := pollable(t, master)
	term.pty = f
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.all.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = f.Close()
		_ = term.shell.Process.Kill()
		_ = term.shell.Wait()
		<-done
	})
	term.enter("bind 'set enable-bracketed-paste off'; echo shell-$((40+2))")
	term.expect("shell-42")
	return term
}

// pollable returns the same open file as a descriptor whose Close ends a blocked Read.
func pollable(t *testing.T, f *os.File) *os.File {
	t.Helper()
	defer f.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "terminal")
}

// enter types a line.
func (term *terminal) enter(line string) { term.key(line + "\n") }

// key types bytes: "\x03" is Ctrl-C, "\x04" Ctrl-D, "\x1a" Ctrl-Z, "\x1c" Ctrl-\.
func (term *terminal) key(bytes string) {
	term.t.Helper()
	if _, err := term.pty.WriteString(bytes); err != nil {
		term.t.Fatal(err)
	}
}

// expect waits until text has been printed after what was expected before, and returns what came before it.
func (term *terminal) expect(text string) string {
	term.t.Helper()
	var before string
	waitFor(term.t, func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		rest := term.all.String()[term.pos:]
		i := strings.Index(rest, text)
		if i < 0 {
			return false
		}
		before = rest[:i]
		term.pos += i + len(text)
		return true
	}, "the terminal to show "+text+"; it shows "+term.shown())
	return before
}

func (term *terminal) shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.all.String()[term.pos:]
}

// wrapped is what to type to run command under w.
func (term *terminal) wrapped(w wrapper, command ...string) string {
	file, args := w.argv(term.t, command, "--quiet")
	words := []string{file}
	for _, a := range args[1:] {
		words = append(words, "'"+a+"'")
	}
	return strings.Join(words, " ")
}

// signals starts the signal probe in the foreground and waits until it, and with ptlaunch the canary, listens.
func (term *terminal) signals(w wrapper) {
	term.t.Helper()
	_ = os.Remove(term.notes)
	term.enter(term.wrapped(w, probeCommand(term.t, "signals")...))
	term.expect("ready")
	term.canary(w)
}

func (term *terminal) canary(w wrapper) {
	term.t.Helper()
	if w == ptlaunch {
		(&job{t: term.t, notes: term.notes}).canary()
	}
}

// end ends the probe and returns how often each signal came since the last expect.
func (term *terminal) end() map[int]int {
	term.t.Helper()
	time.Sleep(settle)
	term.key("\x04")
	term.enter("echo end-$((40+2))")
	return counts(plain(term.expect("end-42")))
}

// plain removes what the terminal adds: carriage returns, and the echo of control characters before a line.
func plain(s string) string {
	return strings.NewReplacer("\r", "", "^C", "", "^\\", "", "^D", "").Replace(s)
}

// both runs a test bare and wrapped: what bare does is what we want.
func both(t *testing.T, f func(t *testing.T, term *terminal, w wrapper)) {
	for _, w := range []wrapper{bare, ptlaunch} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			f(t, openTerminal(t), w)
		})
	}
}

// TestTerminalKeys: one key press, one signal.
func TestTerminalKeys(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		for key, sig := range map[string]syscall.Signal{"\x03": syscall.SIGINT, "\x1c": syscall.SIGQUIT} {
			term.signals(w)
			term.key(key)
			if got := term.end(); got[int(sig)] != 1 || len(got) != 1 {
				t.Errorf("%v: received %v, want it once", sig, got)
			}
		}
		term.signals(w)
		term.key("\x03")
		time.Sleep(2 * settle)
		term.key("\x03")
		if got := term.end(); got[int(syscall.SIGINT)] != 2 {
			t.Errorf("two presses: received %v", got)
		}
	})
}

// TestTerminalResize: one WINCH, from the kernel.
func TestTerminalResize(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.signals(w)
		if err := pty.Setsize(term.pty, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
			t.Fatal(err)
		}
		if got := term.end(); got[int(syscall.SIGWINCH)] != 1 {
			t.Errorf("received %v, want one WINCH", got)
		}
	})
}

// TestTerminalStop: Ctrl-Z stops the whole job and gives the prompt back; fg and bg go on with it.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.signals(w)
		term.key("\x1a")
		term.expect("Stopped")
		term.enter("echo prompt-$((40+2))")
		term.expect("prompt-42")
		term.enter("fg")
		term.expect("got 18")
		term.enter("hello")
		term.expect("echo hello")
		term.key("\x03")
		term.expect("got 2")
		if got := term.end(); len(got) != 0 {
			t.Errorf("received %v beside", got)
		}
	})
}

// TestTerminalBackgroundRead: a job in the background that reads the terminal is stopped, and reads when it comes to the front.
func TestTerminalBackgroundRead(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.enter(term.wrapped(w, "cat") + " &")
		waitFor(t, func() bool {
			term.enter("jobs")
			time.Sleep(20 * time.Millisecond)
			return strings.Contains(term.shown(), "Stopped")
		}, "the job to be stopped")
		term.expect("Stopped")
		term.enter("fg; echo left-$((40+2))")
		term.expect("cat")
		time.Sleep(50 * time.Millisecond) // typed earlier, it would be the shell's
		term.enter("hello")
		term.expect("hello\r\nhello\r\n")
		term.key("\x04")
		term.expect("left-42")
		term.enter("echo end-$((40+2))")
		term.expect("end-42")
	})
}

// TestTerminalBackground: a job in the background leaves the terminal to the shell, and gets kill %1 once.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.enter(term.wrapped(w, append([]string{"sh", "-c", `trap : USR1; (trap "" USR1; exec sleep 60) | "$@"; :`, "sh"}, probeCommand(t, "signals")...)...) + " &")
		term.expect("ready")
		term.canary(w)
		term.enter("echo prompt-$((40+2))")
		term.expect("prompt-42")
		term.enter("kill -USR1 %1")
		term.expect("got 10")
		time.Sleep(settle)
		if more := counts(plain(term.shown())); len(more) != 0 {
			t.Errorf("received %v beside", more)
		}
	})
}

// TestTerminalPipeline: all members of a pipeline stay in the foreground group.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		cat := term.wrapped(w, "sh", "-c", "echo up-$((40+2)) >&2; exec cat")
		term.enter(cat + " | " + cat + " | tr a-z A-Z")
		term.expect("up-42")
		term.expect("up-42")
		term.enter("through")
		term.expect("through")
		term.key("\x04")
		term.expect("THROUGH")
	})
}

// TestTerminalNestedShell: an interactive shell inside has job control.
func TestTerminalNestedShell(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.enter("PS1='inner> ' " + term.wrapped(w, "bash", "--norc", "--noprofile", "-i"))
		term.enter("case $- in *m*) echo control-$((40+2));; esac; sleep 60")
		if before := term.expect("control-42"); strings.Contains(before, "cannot set terminal") {
			t.Errorf("the shell complains: %q", before)
		}
		waitFor(t, func() bool { // the shell itself, before it has started sleep, ignores the key
			term.key("\x1a")
			time.Sleep(50 * time.Millisecond)
			return strings.Contains(term.shown(), "Stopped")
		}, "sleep to be stopped")
	})
}

// TestTerminalModes: the terminal's modes after the end are the ones that the job left, good or bad.
func TestTerminalModes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		term.enter("a=$(stty -g); " + term.wrapped(w, "true") + "; [ \"$a\" = \"$(stty -g)\" ] && echo same-$((40+2))")
		term.expect("same-42")
		term.enter(term.wrapped(w, "sh", "-c", "stty -echo") + "; stty -a | grep -o -e -echo'\\b' | head -1; stty echo; echo end-$((40+2))")
		if !strings.Contains(term.expect("end-42"), "\n-echo") {
			t.Error("echo is on again: what the job set was undone")
		}
	})
}

// TestTerminalStopsBackgroundOutput: with "stty tostop" the farewell of a job in the background does not stop us.
func TestTerminalStopsBackgroundOutput(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	file, _ := ptlaunch.argv(t, []string{"true"})
	term.enter("stty tostop; " + file + " -- sh -c 'exit 3' & wait $!; echo code-$?-$((40+2))")
	term.expect("farewell: code 3")
	term.expect("code-3-42")
}

// TestTerminalHangUp: when the terminal goes away, the job gets HUP; under nohup it goes on.
func TestTerminalHangUp(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, term *terminal, w wrapper) {
		out := filepath.Join(t.TempDir(), "out")
		term.enter("nohup " + term.wrapped(w, "sh", "-c", "echo $$; exec sleep 60") + " > " + out + " &")
		term.enter(term.wrapped(w, "sh", "-c", "echo $$ > "+out+"2; exec sleep 60"))
		pids := [2]int{readPid(t, out), readPid(t, out+"2")}
		defer func() { _ = syscall.Kill(pids[0], syscall.SIGKILL) }()
		time.Sleep(50 * time.Millisecond)
		_ = term.pty.Close()
		waitFor(t, func() bool { return !alive(pids[1]) }, "the job to die of the hang-up")
		time.Sleep(settle)
		if !alive(pids[0]) {
			t.Error("the job died in spite of nohup")
		}
	})
}

// readPid waits for a file that holds a pid.
func readPid(t *testing.T, file string) int {
	t.Helper()
	var pid int
	waitFor(t, func() bool {
		b, _ := os.ReadFile(file)
		n, err := parsePid(string(b))
		pid = n
		return err == nil
	}, file)
	return pid
}
