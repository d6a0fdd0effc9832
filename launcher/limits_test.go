package launcher_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// TestLimitChangedAtStart: prlimit on ptlaunch's pid in its first milliseconds. The job gets the old or the new limit, never the
// one that the Go runtime has raised for itself. Once the job runs, it has limits of its own: prlimit has to name its pid.
func TestLimitChangedAtStart(t *testing.T) {
	const old, changed = "777\n", "555\n"
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "ulimit -Sn"}, "--quiet")
	seen := map[string]int{}
	for i := range 60 {
		j := start(t, bare, options{}, append([]string{"sh", "-c", `ulimit -Hn 4096; ulimit -Sn 777; echo; exec "$@"`, "sh", file}, args[1:]...)...)
		j.line()
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		limit := syscall.Rlimit{Cur: 555, Max: 4096}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(j.proc.Pid), syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		got := j.rest()
		if got != old && got != changed {
			t.Errorf("after %d00 µs: the job's soft limit is %q", i, got)
		}
		seen[got]++
	}
	t.Logf("limit at the job's start: %v", seen)
}

// TestCoreFile: a job that dumps core leaves one core file, in its own working directory; ptlaunch dies by the same signal and
// leaves none.
func TestCoreFile(t *testing.T) {
	if pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || strings.ContainsAny(string(pattern), "|/") {
		t.Skipf("core files of this machine do not go to the working directory: %q, %v", pattern, err)
	}
	// The supervisor stands in the root directory when it dies.
	before := cores(t, "/")
	for _, w := range []wrapper{bare, ptlaunch} {
		dir := t.TempDir()
		_, status := run(t, w, options{quiet: w == ptlaunch}, "sh", "-c", "cd "+dir+"; ulimit -c unlimited; kill -ABRT $$; sleep 9")
		if status.Signal() != syscall.SIGABRT {
			t.Fatalf("%s ended with %#x, want signal ABRT", w, status)
		}
		if n := cores(t, dir); n != 1 {
			t.Errorf("%s: %d core files, want 1", w, n)
		}
	}
	// The limit above is the shell's own. Raised before, it is the supervisor's too.
	dir := t.TempDir()
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "kill -ABRT $$; sleep 9"}, "--quiet")
	_, _ = run(t, bare, options{}, append([]string{"sh", "-c", "cd " + dir + `; ulimit -c unlimited; exec "$@"`, "sh", file}, args[1:]...)...)
	if n := cores(t, dir); n != 1 {
		t.Errorf("with an unlimited supervisor: %d core files, want 1", n)
	}
	if n := cores(t, "/"); n != before {
		t.Errorf("%d core files in /, %d before", n, before)
	}
}

func cores(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "core*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestNoProcessesLeft: a command that cannot even be forked is one that cannot be run: a line, 126, and no hang.
func TestNoProcessesLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	j := start(t, bare, options{}, probeCommand(t, "launch, no processes left", "true")...)
	if out := j.rest(); out != "" {
		t.Errorf("stdout: %q", out)
	}
	if s := j.wait(); s.ExitStatus() != 126 {
		t.Errorf("ended with %#x, want exit code 126", s)
	}
	if text := j.stderr(); text != "ptlaunch: true: resource temporarily unavailable\n" {
		t.Errorf("stderr: %q", text)
	}
}
