package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startCase is a command that may or may not be startable.
type startCase struct {
	name string
	path string // PATH; "-" for unset
	argv []string
	want int // exit code; from execvp and env(1), and what tini does where it is right
	// tini's own code where it differs, and why that is not what we want.
	tini int
}

func startCases(dir string) []startCase {
	return []startCase{
		{name: "found on PATH", path: dir, argv: []string{"seven"}, want: 7},
		{name: "by its path", path: dir, argv: []string{dir + "/seven"}, want: 7},
		{name: "no #!", path: dir, argv: []string{"noshebang", "9"}, want: 9},
		{name: "no #!, by its path", path: dir, argv: []string{dir + "/noshebang", "9"}, want: 9},
		{name: "not found", path: dir, argv: []string{"nothere"}, want: 127},
		{name: "not found, by its path", path: dir, argv: []string{"/nothere"}, want: 127},
		{name: "empty word", path: dir, argv: []string{""}, want: 127},
		{name: "not executable", path: dir, argv: []string{"plain"}, want: 126},
		{name: "not executable, then a good one", path: dir + ":" + dir + "/second", argv: []string{"twice"}, want: 8},
		{name: "directory", path: dir, argv: []string{dir}, want: 126},
		{name: "directory on PATH", path: dir, argv: []string{"second"}, want: 126},
		{name: "below a file", path: dir, argv: []string{dir + "/plain/x"}, want: 126, tini: 1},
		{name: "bad interpreter", path: dir, argv: []string{"badinterp"}, want: 127},
		{name: "bad interpreter, by its path", path: dir, argv: []string{dir + "/badinterp"}, want: 127},
		{name: "empty element of PATH", path: "/nowhere:", argv: []string{"seven"}, want: 7},
		{name: "empty PATH", path: "", argv: []string{"seven"}, want: 7},
		{name: "PATH unset", path: "-", argv: []string{"true"}, want: 0},
		{name: "element of PATH that is a file", path: dir + "/plain:" + dir, argv: []string{"seven"}, want: 7},
		{name: "symbolic link loop", path: dir, argv: []string{dir + "/loop"}, want: 126, tini: 1},
	}
}

// startDir makes the files that startCases name.
func startDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "second"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"seven":        {"#!/bin/sh\nexit 7\n", 0o755},
		"noshebang":    {"exit $1\n", 0o755},
		"plain":        {"#!/bin/sh\nexit 1\n", 0o644},
		"twice":        {"#!/bin/sh\nexit 1\n", 0o644},
		"second/twice": {"#!/bin/sh\nexit 8\n", 0o755},
		"badinterp":    {"#!/nothere\n", 0o755},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runCase runs c under w in the directory that holds the files.
func runCase(t *testing.T, w wrapper, c startCase, dir string) (code int, stderr string) {
	t.Helper()
	file, args := w.argv(t, c.argv)
	env := []string{"PATH=" + c.path}
	if c.path == "-" {
		env = nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	errFile, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer errFile.Close()
	proc, err := os.StartProcess(file, args, &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{null, errFile, errFile}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := proc.Wait()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(errFile.Name())
	return state.ExitCode(), string(text)
}

// TestStart: execvp's rules and a shell's exit codes, with tini as the oracle.
func TestStart(t *testing.T) {
	dir := startDir(t)
	for _, c := range startCases(dir) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, text := runCase(t, ptlaunch, c, dir)
			if code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			if failed := c.want >= 126; failed {
				line, rest, _ := strings.Cut(text, "\n")
				if !strings.HasPrefix(line, "ptlaunch: ") || !strings.Contains(line, c.argv[0]) {
					t.Errorf("stderr says %q", line)
				}
				// The agent puts the failure on record all the same.
				if want := fmt.Sprintf("farewell: code %d signal 0\n", c.want); rest != want {
					t.Errorf("then %q, want %q", rest, want)
				}
			}
			oracle := c.want
			if c.tini != 0 {
				oracle = c.tini
			}
			if code, _ := runCase(t, tini, c, dir); code != oracle {
				t.Errorf("tini's exit code %d, want %d: is it still the oracle?", code, oracle)
			}
		})
	}
}

// TestStartErrorIsHandedOver: the agent is told why nothing started.
func TestStartErrorIsHandedOver(t *testing.T) {
	j := start(t, ptlaunch, options{}, "nothere")
	if s := j.wait(); s.ExitStatus() != 127 {
		t.Errorf("ended with %#x, want exit code 127", s)
	}
	if got, want := j.agentLine(1), "start error: command not found"; got != want {
		t.Errorf("the agent noted %q, want %q", got, want)
	}
	if got, want := j.agentLine(2), "exit 127 0"; got != want {
		t.Errorf("the agent noted %q, want %q", got, want)
	}
}

// TestWrongCommandLine: one line on stderr, 125, and nothing started.
func TestWrongCommandLine(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	touch := []string{"touch", mark}
	cases := map[string]struct {
		args []string
		env  []string
	}{
		"unknown flag":          {args: append([]string{"--nonsense", "--"}, touch...)},
		"no --":                 {args: touch},
		"no command":            {args: []string{"--quiet", "--"}},
		"only flags":            {args: []string{"--quiet"}},
		"word before --":        {args: append([]string{"train.py", "--"}, touch...)},
		"flag without value":    {args: append([]string{"--name", "--"}, touch...)},
		"interval of 0":         {args: append([]string{"--interval", "0s", "--"}, touch...)},
		"interval not a time":   {args: append([]string{"--interval", "often", "--"}, touch...)},
		"negative flush":        {args: append([]string{"--flush-timeout=-1s", "--"}, touch...)},
		"variable not a time":   {args: append([]string{"--"}, touch...), env: []string{"PTLAUNCH_INTERVAL=often"}},
		"variable out of range": {args: append([]string{"--"}, touch...), env: []string{"PTLAUNCH_INTERVAL=1ns"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			j := start(t, bare, options{env: c.env}, append([]string{self(t)}, c.args...)...)
			if out := j.rest(); out != "" {
				t.Errorf("stdout: %q", out)
			}
			if s := j.wait(); s.ExitStatus() != 125 {
				t.Errorf("ended with %#x, want exit code 125", s)
			}
			if text := j.stderr(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "ptlaunch: ") {
				t.Errorf("stderr: %q, want one line of ours", text)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

// TestExitCodes: all of them, as bare.
func TestExitCodes(t *testing.T) {
	sh := look(t, "sh")
	for code := range 256 {
		_, status := run(t, ptlaunch, options{quiet: true}, sh, "-c", fmt.Sprintf("exit %d", code))
		if !status.Exited() || status.ExitStatus() != code {
			t.Errorf("exit %d: ended with %#x", code, status)
		}
	}
}

// TestDeathBySignal: the wrapper dies by the signal that the job died by, and leaves no core file.
func TestDeathBySignal(t *testing.T) {
	sh := look(t, "sh")
	for n := 1; n <= 64; n++ {
		switch sig := syscall.Signal(n); sig {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG,
			syscall.SIGWINCH:
			continue // do not end a process
		case 32, 33:
			continue // libc's own: whether a process of ours has them blocked is up to its threads
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			// A shell, not a Go program: it has no threads, and nothing that handles the signals which libc keeps for itself.
			command := []string{sh, "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", n)}
			_, want := run(t, bare, options{}, command...)
			_, got := run(t, ptlaunch, options{quiet: true}, command...)
			if !want.Signaled() || int(want.Signal()) != n {
				t.Fatalf("bare ended with %#x", want)
			}
			if got != want {
				t.Errorf("ended with %#x, bare with %#x", got, want)
			}
		})
	}
}
