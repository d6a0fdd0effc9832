package sampler

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// TestPIDReuse forces one process to get the number of a member that ended, within a tick. It runs again in a pid namespace of
// its own, where the next pid can be chosen.
func TestPIDReuse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a pid namespace")
	}
	if os.Getenv("PTLAUNCH_SAMPLER_TEST_IN_NS") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestPIDReuse$", "-test.v")
		cmd.Env = append(os.Environ(), "PTLAUNCH_SAMPLER_TEST_IN_NS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("in the namespace: %v\n%s", err, out)
		}
		return
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	job := startReady(t, exec.Command("sh", "-c", `sleep 100 & echo ready; read go
kill $!; wait $!; echo $(($! - 1)) > /proc/sys/kernel/ns_last_pid; sleep 99 & read end; kill $!`))
	s := open(t, Config{Root: int32(job.Process.Pid), RootIsMember: true})
	var child snapshot.ProcID
	until(t, s, "the first child", func(snap *snapshot.Snapshot) bool {
		for _, p := range snap.Procs {
			if p.ID.PID != int32(job.Process.Pid) {
				child = p.ID
			}
		}
		return snap.Seq > 2 // a life of less than a clock tick, 10 ms, has no identity of its own
	})
	wake(t, job)
	until(t, s, "another process with the child's number", func(snap *snapshot.Snapshot) bool {
		p := procOf(snap, int(child.PID))
		return p != nil && p.ID.StartTicks != child.StartTicks
	})
}

// wake lets the job's shell go on.
func wake(t *testing.T, job *exec.Cmd) {
	t.Helper()
	in, err := os.OpenFile("/proc/"+strconv.Itoa(job.Process.Pid)+"/fd/0", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
}
