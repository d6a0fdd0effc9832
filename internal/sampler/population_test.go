package sampler

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// playVar makes the test binary play a process of a job instead of running tests.
const playVar = "PTLAUNCH_SAMPLER_TEST_PLAY"

func TestMain(m *testing.M) {
	if role := os.Getenv(playVar); role != "" {
		play(strings.Fields(role))
		return
	}
	os.Exit(m.Run())
}

// briefDone is what a maker of brief children writes after the last one.
const briefDone = 64 << 20

// play is a process of a job. It says "ready" on stdout and ends when stdin does.
func play(role []string) {
	switch role[0] {
	case "threads": // N idle threads
		n, _ := strconv.Atoi(role[1])
		for range n - 1 {
			go func() { runtime.LockOSThread(); _ = unix.Pause() }()
		}
	case "undumpable":
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			panic(err)
		}
	case "name":
		name := append([]byte("a) S 1 (\n\xff"), 0)
		if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
			panic(err)
		}
	case "brief": // N children that live some 5 ms
		n, _ := strconv.Atoi(role[1])
		fmt.Println("ready")
		for range n {
			_ = exec.Command("/bin/true").Run()
		}
		null, _ := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		_, _ = null.Write(make([]byte, briefDone)) // shows in wchar that the children are through
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// start plays one process and waits until it is ready. It ends with the test.
func start(t testing.TB, attr *syscall.SysProcAttr, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), playVar+"="+role, "GOMAXPROCS=1")
	cmd.SysProcAttr = attr
	return startReady(t, cmd)
}

// startReady starts a command that prints a line when it is ready and ends when its stdin does.
func startReady(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%v is not ready: %v", cmd.Args, err)
	}
	return cmd
}

// open samples below the test process, which plays the supervisor, or from a root that is a member.
func open(t testing.TB, cfg Config) *Sampler {
	t.Helper()
	if cfg.Interval == 0 {
		cfg.Interval = 50 * time.Millisecond
	}
	if cfg.Root == 0 {
		cfg.Root = int32(os.Getpid())
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
