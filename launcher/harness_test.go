package launcher_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deadline bounds every wait for a state. It is far above what anything takes; reaching it is a failure.
const deadline = 20 * time.Second

// wrapper is a way to run a command.
type wrapper string

const (
	bare     wrapper = "bare"
	ptlaunch wrapper = "ptlaunch"
	tini     wrapper = "tini"
	dumbInit wrapper = "dumb-init"
	// dumbInitChild is dumb-init that stays in the caller's group and signals its child alone.
	dumbInitChild wrapper = "dumb-init -c"
)

// argv is the file to execute and the arguments under which w runs the command.
func (w wrapper) argv(t *testing.T, command []string, flags ...string) (string, []string) {
	t.Helper()
	switch w {
	case bare:
		return look(t, command[0]), command
	case ptlaunch:
		args := append([]string{"ptlaunch"}, flags...)
		return self(t), append(append(args, "--"), command...)
	case tini:
		return look(t, "tini"), append([]string{"tini", "-s", "--"}, command...)
	case dumbInitChild:
		return look(t, "dumb-init"), append([]string{"dumb-init", "-c", "--"}, command...)
	default:
		return look(t, string(w)), append([]string{string(w), "--"}, command...)
	}
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// look finds a program that the tests need: a missing one is a failure, because the set-up script installs it.
func look(t testing.TB, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is needed by this test: %v", name, err)
	}
	return file
}

// job is a running command under a wrapper.
type job struct {
	t      *testing.T
	proc   *os.Process
	in     *os.File // the other end of its stdin
	out    *bufio.Reader
	outEnd *os.File
	errOut *bytes.Buffer
	copied chan struct{}
	notes  string // TEST_AGENT_FILE
}

// options of start, all optional.
type options struct {
	env   []string // added to the test's own
	flags []string // of ptlaunch
	quiet bool     // shorthand for the flag
	attr  *syscall.SysProcAttr
}

// start runs command under w in a process group of its own, with pipes on its standard descriptors.
func start(t *testing.T, w wrapper, o options, command ...string) *job {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	j := &job{t: t, in: inW, out: bufio.NewReader(outR), outEnd: outR, errOut: &bytes.Buffer{}, copied: make(chan struct{})}
	j.notes = notesFile(t)
	if o.quiet {
		o.flags = append(o.flags, "--quiet")
	}
	file, args := w.argv(t, command, o.flags...)
	attr := o.attr
	if attr == nil {
		attr = &syscall.SysProcAttr{Setpgid: true}
	}
	proc, err := os.StartProcess(file, args, &os.ProcAttr{
		Env:   append(append(os.Environ(), "TEST_AGENT_FILE="+j.notes), o.env...),
		Files: []*os.File{inR, outW, errW},
		Sys:   attr,
	})
	if err != nil {
		t.Fatal(err)
	}
	j.proc = proc
	for _, f := range []*os.File{inR, outW, errW} {
		_ = f.Close()
	}
	go func() {
		defer close(j.copied)
		_, _ = io.Copy(j.errOut, errR)
	}()
	t.Cleanup(func() {
		if attr.Setpgid || attr.Setsid {
			_ = syscall.Kill(-proc.Pid, syscall.SIGKILL)
		}
		_ = proc.Kill()
		_, _ = proc.Wait()
	})
	return j
}

// notesFile is where the test agent takes notes. An agent may outlive the test, so that the folder is removed without complaint.
func notesFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "notes")
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// line reads a line of the job's stdout.
func (j *job) line() string {
	j.t.Helper()
	_ = j.outEnd.SetReadDeadline(time.Now().Add(deadline))
	s, err := j.out.ReadString('\n')
	if err != nil {
		j.t.Fatalf("reading the job's output: %v (got %q, stderr %q)", err, s, j.errOut)
	}
	return strings.TrimSuffix(s, "\n")
}

// rest reads stdout to its end.
func (j *job) rest() string {
	j.t.Helper()
	_ = j.outEnd.SetReadDeadline(time.Now().Add(deadline))
	b, err := io.ReadAll(j.out)
	if err != nil {
		j.t.Fatalf("reading the job's output: %v (got %q)", err, b)
	}
	return string(b)
}

// wait returns how the wrapper ended.
func (j *job) wait() syscall.WaitStatus {
	j.t.Helper()
	done := make(chan syscall.WaitStatus, 1)
	go func() {
		state, err := j.proc.Wait()
		if err == nil {
			done <- state.Sys().(syscall.WaitStatus)
		}
	}()
	select {
	case s := <-done:
		return s
	case <-time.After(deadline):
		j.t.Fatalf("pid %d has not ended", j.proc.Pid)
	}
	return 0
}

// stderr returns everything written to stderr, once all writers are gone.
func (j *job) stderr() string {
	j.t.Helper()
	select {
	case <-j.copied:
	case <-time.After(deadline):
		j.t.Fatal("stderr is still open")
	}
	return j.errOut.String()
}

// agentLine waits for the n-th line (from 0) that the test agent has noted.
func (j *job) agentLine(n int) string {
	j.t.Helper()
	var lines []string
	j.until(func() bool {
		b, _ := os.ReadFile(j.notes)
		lines = strings.Split(string(b), "\n")
		return len(lines) > n+1
	}, "the agent to note line "+strconv.Itoa(n))
	return lines[n]
}

// canary waits until the supervisor listens to the agent, and returns the agent's pid. The agent announces the canary before
// it reads its first line; the supervisor needs a moment to read that.
func (j *job) canary() int {
	j.t.Helper()
	fields := strings.Fields(j.agentLine(0))
	time.Sleep(20 * time.Millisecond)
	pid, err := strconv.Atoi(fields[3])
	if err != nil {
		j.t.Fatal(err)
	}
	return pid
}

func (j *job) until(ok func() bool, what string) {
	j.t.Helper()
	waitFor(j.t, ok, what)
}

func waitFor(t testing.TB, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// children lists the pids whose parent is pid.
func children(pid int) []int {
	var out []int
	// Each thread's file lists what that thread has started.
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/children")
		for f := range strings.FieldsSeq(string(b)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
	}
	return out
}

// alive reports whether pid exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ")
}

func probeCommand(t testing.TB, name string, args ...string) []string {
	return append([]string{self(t), probeArg + name}, args...)
}

// parsePid reads the pid that a shell printed with echo $$.
func parsePid(text string) (int, error) {
	if !strings.HasSuffix(text, "\n") {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(strings.TrimSpace(text))
}
