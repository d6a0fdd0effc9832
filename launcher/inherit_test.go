package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

// run runs command under w to its end.
func run(t *testing.T, w wrapper, o options, command ...string) (stdout string, status syscall.WaitStatus) {
	t.Helper()
	j := start(t, w, o, command...)
	_ = j.in.Close()
	stdout = j.rest()
	return stdout, j.wait()
}

// TestArguments: the job's arguments are the ones typed, byte for byte, whatever they look like.
func TestArguments(t *testing.T) {
	args := []string{"", "a b", "--help", "-x", "--", "--quiet", "\xff\xfe", "new\nline", "*", "$HOME"}
	command := append(probeCommand(t, "inherit"), args...)
	want, _ := run(t, bare, options{}, command...)
	got, _ := run(t, ptlaunch, options{quiet: true}, command...)
	if diff := cmp.Diff(without(want, "environ", "ppid"), without(got, "environ", "ppid")); diff != "" {
		t.Errorf("bare against ptlaunch:\n%s", diff)
	}
}

// TestWordTyped: argv[0] is the word that was typed, not the file that was found.
func TestWordTyped(t *testing.T) {
	got, _ := run(t, ptlaunch, options{quiet: true}, "cat", "/proc/self/cmdline")
	if got != "cat\x00/proc/self/cmdline\x00" {
		t.Errorf("cmdline = %q", got)
	}
}

// TestEnvironment: byte for byte, with TRACEPARENT added and nothing else. Duplicates and entries without "=" stay.
func TestEnvironment(t *testing.T) {
	odd := []string{"DUP=first", "DUP=second", "NOEQUALS", "=x=1", "EMPTY=", "BYTES=\xff\n", "",
		"GODEBUG=asyncpreemptoff=1", "GOGC=1", "GOMEMLIMIT=1MiB", "GOMAXPROCS=1", "TEST_AGENT_FILE=/dev/null"}
	dump := func(w wrapper) []string {
		file, args := w.argv(t, []string{"/bin/cat", "/proc/self/environ"})
		r, out := pipe(t)
		proc, err := os.StartProcess(file, args, &os.ProcAttr{Env: odd, Files: []*os.File{nil, out, nil}})
		if err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		var b strings.Builder
		buf := make([]byte, 4096)
		for n, err := r.Read(buf); err == nil; n, err = r.Read(buf) {
			b.Write(buf[:n])
		}
		if state, err := proc.Wait(); err != nil || !state.Success() {
			t.Fatalf("%s: %v %v", w, state, err)
		}
		return strings.Split(strings.TrimSuffix(b.String(), "\x00"), "\x00")
	}
	want, got := dump(bare), dump(ptlaunch)
	last := len(got) - 1
	if !strings.HasPrefix(got[last], "TRACEPARENT=00-") {
		t.Errorf("last entry = %q, want TRACEPARENT", got[last])
	}
	if diff := cmp.Diff(want, got[:last]); diff != "" {
		t.Errorf("bare against ptlaunch:\n%s", diff)
	}
}

// attributes prints what a process inherits beside arguments, environment and descriptors.
const attributes = `cat /proc/self/status /proc/self/limits
for f in oom_score_adj coredump_filter cgroup timerslack_ns personality loginuid sessionid cpuset; do echo $f; cat /proc/self/$f; done
nice; ionice; chrt -p 0 | sed 's/pid [0-9]*/pid/'; umask; pwd; cat /proc/self/stat | cut -d' ' -f 18,19,40,41`

// volatile are the lines of attributes that differ between two runs of anything.
var volatile = regexp.MustCompile(`(?m)^((Pid|Tgid|PPid|Ngid|NS[a-z]+|Vm\w+|Rss\w+|SigQ|(non)?voluntary_ctxt_switches):.*)\n`)

// setUps are shells that change something and then become the wrapper.
var setUps = map[string]string{
	"plain":      `exec "$@"`,
	"limits":     `ulimit -Sn 777; ulimit -c 0; ulimit -s 4096; umask 027; exec "$@"`,
	"scheduling": `exec nice -n 3 ionice -c 2 -n 6 chrt -b 0 taskset 1 setarch -R "$@"`,
	"oom score":  `echo 77 > /proc/self/oom_score_adj; exec "$@"`,
	"dump all":   `echo 0x7f > /proc/self/coredump_filter; exec "$@"`,
	"no new privileges": `exec setpriv --no-new-privs --reuid 65534 --regid 65534 --clear-groups \
		--inh-caps -all --bounding-set -sys_time "$@"`,
	"ignored": `trap '' HUP INT QUIT USR1 USR2 TERM PIPE ALRM XFSZ XCPU WINCH TSTP TTIN TTOU IO PWR VTALRM; exec "$@"`,
	"nohup":   `exec nohup "$@"`,
	"blocked": `exec /usr/bin/python3 -c '
import os, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, [1, 2, 3, 10, 12, 13, 14, 15, 17, 20, 23, 27, 28, 40, 64])
os.execv(sys.argv[1], sys.argv[1:])' "$@"`,
	"all blocked and ignored": `exec /usr/bin/python3 -c '
import os, signal, sys
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for n in (4, 5, 7, 8, 11, 16, 17, 23, 27, 31): signal.signal(n, signal.SIG_DFL) # what the Go runtime needs itself: documented
signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
os.execv(sys.argv[1], sys.argv[1:])' "$@"`,
}

// TestAttributes compares everything that a process inherits, bare and wrapped.
func TestAttributes(t *testing.T) {
	for name, setUp := range setUps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dump := func(w wrapper) []string {
				var all string
				for _, command := range [][]string{
					{"/bin/sh", "-c", attributes},
					{"/bin/cat", "/proc/self/status"}, // a shell clears its signal mask
				} {
					file, args := w.argv(t, command, "--quiet")
					out, status := run(t, bare, options{}, append([]string{"/bin/sh", "-c", setUp, "sh", file}, args[1:]...)...)
					if status != 0 {
						t.Fatalf("%s ended with %#x", w, status)
					}
					all += out
				}
				return strings.Split(volatile.ReplaceAllString(all, ""), "\n")
			}
			want := dump(bare)
			if !inherited.Read().Exact {
				want = withoutConstructor(want)
			}
			if len(want) < 60 {
				t.Fatalf("only %d lines to compare: %q", len(want), want)
			}
			if diff := cmp.Diff(want, dump(ptlaunch)); diff != "" {
				t.Errorf("bare against ptlaunch:\n%s", diff)
			}
		})
	}
}

// withoutConstructor changes what bare inherits into what is left of it in a build without cgo, where nobody has looked before
// the Go runtime: of the ignored signals HUP, INT, those of job control and 34, and of the blocked ones those that the runtime
// has no handling of its own for.
func withoutConstructor(lines []string) []string {
	const (
		keptIgnored = 0x2003a0003
		unblocked   = 0x24441c4ff
	)
	var out []string
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":\t")
		set, err := strconv.ParseUint(value, 16, 64)
		switch {
		case err == nil && name == "SigIgn":
			line = fmt.Sprintf("SigIgn:\t%016x", set&keptIgnored)
		case err == nil && name == "SigBlk":
			line = fmt.Sprintf("SigBlk:\t%016x", set&^uint64(unblocked))
		}
		out = append(out, line)
	}
	return out
}

// TestChildSignalIgnored: a starter that ignores CHLD must not make us miss the job's end (tini waits for ever). The job gets
// CHLD at its default, unlike bare, so that it can wait for its own children.
func TestChildSignalIgnored(t *testing.T) {
	const ignoring = `import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[2:])`
	file, args := ptlaunch.argv(t, []string{"sh", "-c", "/bin/true & wait; exit 5"}, "--quiet")
	_, status := run(t, bare, options{}, append([]string{"/usr/bin/python3", "-c", ignoring, file}, args...)...)
	if status.ExitStatus() != 5 {
		t.Errorf("ended with %#x, want exit code 5", status)
	}
}

// TestDescriptors: inherited descriptors reach the job with their numbers, their flags and nothing beside them; closed standard
// descriptors stay closed.
func TestDescriptors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	const list = `find /proc/self/fd -printf '%f %l\n' | sed 's/\[.*//; s/proc.[0-9]*/proc/' | sort; for n in 0 1 2 7 9; do grep flags /proc/self/fdinfo/$n; done`
	shells := map[string]string{
		"more":        `exec 7<>` + file + ` 9>>` + file + `; exec "$@"`,
		"no stdin":    `exec <&-; exec "$@"`,
		"no stderr":   `exec 2>&-; exec "$@"`,
		"no stdin, 7": `exec <&- 7<>` + file + `; exec "$@"`,
	}
	for name, sh := range shells {
		t.Run(name, func(t *testing.T) {
			dump := func(w wrapper) string {
				sh := sh
				file, args := w.argv(t, []string{"/bin/sh", "-c", list}, "--quiet")
				if w == bare && !inherited.Read().Exact {
					// A build without cgo does not see that a descriptor was closed, and passes on what the runtime opened.
					sh = strings.NewReplacer("<&-", "<>/dev/null", "2>&-", "2<>/dev/null").Replace(sh)
				}
				out, _ := run(t, bare, options{}, append([]string{"/bin/sh", "-c", sh, "sh", file}, args[1:]...)...)
				return out
			}
			if diff := cmp.Diff(dump(bare), dump(ptlaunch)); diff != "" {
				t.Errorf("bare against ptlaunch:\n%s", diff)
			}
		})
	}
}

// TestLetGo: once the job runs, supervisor and agent hold nothing that was inherited but the supervisor's stderr, and stand in /.
func TestLetGo(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		t.Run(fmt.Sprintf("quiet=%v", quiet), func(t *testing.T) {
			file, args := ptlaunch.argv(t, probeCommand(t, "signals"), fmt.Sprintf("--quiet=%v", quiet))
			held := filepath.Join(t.TempDir(), "held")
			j := start(t, bare, options{}, append([]string{"/bin/sh", "-c", `exec 7<>` + held + `; exec "$@"`, "sh", file}, args[1:]...)...)
			j.line()
			agent := j.canary()
			for who, pid := range map[string]int{"supervisor": j.proc.Pid, "agent": agent} {
				if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); cwd != "/" {
					t.Errorf("%s stands in %q", who, cwd)
				}
				for fd := range 16 {
					to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
					switch {
					case err != nil:
					case fd < 3 && to != "/dev/null" && (who == "agent" || fd != 2 || quiet):
						t.Errorf("%s holds %s at %d", who, to, fd)
					case to == held:
						t.Errorf("%s holds the inherited file at %d", who, fd)
					}
				}
			}
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", agent))
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", agent))
			if string(comm) != "ptl-agent\n" || string(cmdline) != "ptl-agent\x00" {
				t.Errorf("the agent is called %q, %q", comm, cmdline)
			}
		})
	}
}

// without drops the lines that start with one of the words.
func without(s string, words ...string) []string {
	var out []string
	for line := range strings.Lines(s) {
		keep := true
		for _, w := range words {
			keep = keep && !strings.HasPrefix(line, w+" ")
		}
		if keep {
			out = append(out, line)
		}
	}
	return out
}
