package sampler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/proctest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// until takes snapshots until found says so. 400 ticks are far more than any state here takes.
func until(t *testing.T, s *Sampler, what string, found func(*snapshot.Snapshot) bool) {
	t.Helper()
	for range 400 {
		snap, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if found(snap) {
			return
		}
	}
	t.Fatalf("never seen: %s", what)
}

func procOf(s *snapshot.Snapshot, pid int) *snapshot.Proc {
	for i := range s.Procs {
		if s.Procs[i].ID.PID == int32(pid) {
			return &s.Procs[i]
		}
	}
	return nil
}

func infoOf(s *snapshot.Snapshot, pid int) *snapshot.ProcInfo {
	for i := range s.Infos {
		if s.Infos[i].ID.PID == int32(pid) {
			return &s.Infos[i]
		}
	}
	return nil
}

// TestReapIsInOneSnapshot: a child writes 20 MB and is reaped; its Exit, the jump of its parent's counters and the parent's own
// share, which does not jump, must come together.
func TestReapIsInOneSnapshot(t *testing.T) {
	const size = 20 << 20
	cmd := startReady(t, exec.Command("sh", "-c",
		`echo ready; (sleep 0.6; head -c 20971520 /dev/zero; sleep 0.01) > /dev/null & wait; read end`))
	s := open(t, Config{Root: int32(cmd.Process.Pid), RootIsMember: true, Interval: 400 * time.Millisecond})
	var child snapshot.ProcID
	until(t, s, "the jump", func(snap *snapshot.Snapshot) bool {
		for _, q := range snap.Procs {
			if q.PPID == int32(cmd.Process.Pid) {
				// A fast lane divides the interval, and the parent is read in its first part: before the reap, mostly.
				child = q.ID
				s.SetFast([]snapshot.ProcID{child})
			}
		}
		p := procOf(snap, cmd.Process.Pid)
		if p == nil || p.IO == nil || p.IO.WChar < size {
			if slices.ContainsFunc(snap.Exits, func(e snapshot.Exit) bool { return e.ID == child }) {
				t.Error("the child's end came before the jump")
			}
			return false
		}
		if len(snap.Exits) == 0 || p.OwnIO == nil || p.OwnIO.WChar >= size {
			t.Errorf("with the jump: exits %+v, own share %+v, want the child's end and a share without its bytes", snap.Exits, p.OwnIO)
		}
		return true
	})
}

func TestEndOfJob(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 0.2; exit 5")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Root: int32(cmd.Process.Pid), RootIsMember: true})
	waited := make(chan struct{})
	go func() { defer close(waited); _ = cmd.Wait() }() // its exit status is what the sampler must find out by itself
	defer func() { <-waited }()
	var status *snapshot.ExitStatus
	for {
		snap, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snap.Exits {
			if e.ID.PID == int32(cmd.Process.Pid) {
				status = e.Status
			}
		}
	}
	if status == nil || status.Code != 5 {
		t.Errorf("the job's exit status: %+v, want 5", status)
	}
}

func TestExitStatuses(t *testing.T) {
	cmd := startReady(t, exec.Command("sh", "-c", `(sleep 0.3; exit 3) & (sleep 0.3; kill -9 $(exec sh -c 'echo $PPID')) & echo ready; wait; read end`))
	s := open(t, Config{Root: int32(cmd.Process.Pid), RootIsMember: true})
	seen := map[string]bool{}
	until(t, s, "an exit with 3 and a death by 9", func(snap *snapshot.Snapshot) bool {
		for _, e := range snap.Exits {
			if e.Status != nil {
				seen[fmt.Sprint(e.Status.Code, "/", e.Status.Signal)] = true
			}
		}
		return seen["3/0"] && seen["0/9"]
	})
}

// TestOrphansStay: a grandchild whose parent ends is kept by its identity, wherever it is re-parented to.
func TestOrphansStay(t *testing.T) {
	cmd := startReady(t, exec.Command("sh", "-c", `(sleep 98.7 & sleep 0.4) & echo ready; read end; kill $!`))
	s := open(t, Config{Root: int32(cmd.Process.Pid), RootIsMember: true})
	orphan := 0
	t.Cleanup(func() {
		if orphan > 0 {
			_ = syscall.Kill(orphan, syscall.SIGKILL)
		}
	})
	parent := int32(0)
	until(t, s, "the orphan under another parent", func(snap *snapshot.Snapshot) bool {
		for _, info := range snap.Infos {
			if strings.Join(info.Cmdline, " ") == "sleep 98.7" {
				orphan, parent = int(info.ID.PID), info.PPID
			}
		}
		p := procOf(snap, orphan)
		return p != nil && p.PPID != parent
	})
}

func TestBadNames(t *testing.T) {
	cmd := start(t, nil, "name")
	s := open(t, Config{})
	until(t, s, "the process with the bad name", func(snap *snapshot.Snapshot) bool {
		info := infoOf(snap, cmd.Process.Pid)
		if info == nil {
			return false
		}
		if want := "a) S 1 (\n\xff"; info.Comm != want {
			t.Errorf("name %q, want %q", info.Comm, want)
		}
		return true
	})
}

// TestThousandBriefChildren: children that live some 5 ms vanish between any two reads; nothing may break by that, and it is
// no gap. What they did is in their parent's totals.
func TestThousandBriefChildren(t *testing.T) {
	cmd := start(t, nil, "brief 1000")
	s := open(t, Config{Interval: 20 * time.Millisecond})
	exits := 0
	for {
		snap, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exits += len(snap.Exits)
		for _, g := range snap.Gaps {
			if g.Reason == snapshot.GapGone || g.Reason == snapshot.GapMalformed {
				t.Errorf("gap %+v of a process that just ended", g)
			}
		}
		p := procOf(snap, cmd.Process.Pid)
		if p == nil {
			t.Fatal("their parent is not in the snapshot")
		}
		if p.IO.WChar < briefDone {
			continue
		}
		if exits == 0 || len(snap.Procs) != 1 {
			t.Errorf("%d ends seen, %d processes left, want some and the parent alone", exits, len(snap.Procs))
		}
		return
	}
}

// TestDenied: root reads everything, so the sampler itself must run as somebody else.
func TestDenied(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	if os.Getenv("PTLAUNCH_SAMPLER_TEST_AS_NOBODY") == "" {
		rootOwned := start(t, nil, "threads 1")
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestDenied$", "-test.v")
		cmd.Env = append(os.Environ(), "PTLAUNCH_SAMPLER_TEST_AS_NOBODY="+fmt.Sprint(rootOwned.Process.Pid))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	var pid int
	if _, err := fmt.Sscan(os.Getenv("PTLAUNCH_SAMPLER_TEST_AS_NOBODY"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setuid(65534); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Root: int32(pid), RootIsMember: true})
	until(t, s, "the denied process", func(snap *snapshot.Snapshot) bool {
		p := procOf(snap, pid)
		if p == nil {
			return false
		}
		if p.IO != nil {
			t.Errorf("io of another user: %+v, want absent", *p.IO)
		}
		n := 0
		for _, g := range snap.Gaps {
			if g.Source == "procfs.io" && g.Reason == snapshot.GapDenied {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d gaps for io, want one that says denied: %+v", n, snap.Gaps)
		}
		return true
	})
}

// TestFakeRoot: the same code over a folder, with a tree that grows, loses members and reuses a pid.
func TestFakeRoot(t *testing.T) {
	a := proctest.NewArchive()
	a.Add(proctest.Proc{PID: 1, Start: 1, Comm: "init"})
	a.Add(proctest.Proc{PID: 100, PPID: 1, Start: 10, Comm: "python3", Args: []string{"python3", "t.py"}, Exe: "/usr/bin/python3", IO: &snapshot.IO{RChar: 7}})
	a.Add(proctest.Proc{PID: 101, PPID: 100, Start: 11, Comm: "pt_data_worker"})
	a.Add(proctest.Proc{PID: 102, PPID: 1, Start: 12, Comm: "foreign"})
	root := t.TempDir()
	put := func() {
		t.Helper()
		if err := os.RemoveAll(root + "/101"); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []string{"1", "100", "102"} {
			if err := os.RemoveAll(root + "/" + pid); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Unpack(root); err != nil {
			t.Fatal(err)
		}
	}
	put()
	s := open(t, Config{Procfs: root, Root: 100, RootIsMember: true})
	first, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Procs) != 2 || first.Procs[0].IO.RChar != 7 || procOf(first, 102) != nil {
		t.Fatalf("first snapshot: %+v", first.Procs)
	}
	a.Remove(101)
	put()
	until(t, s, "the end of 101", func(snap *snapshot.Snapshot) bool {
		return len(snap.Exits) == 1 && snap.Exits[0].ID == snapshot.ProcID{PID: 101, StartTicks: 11}
	})
	a.Add(proctest.Proc{PID: 101, PPID: 100, Start: 500, Comm: "again"})
	a.Add(proctest.Proc{PID: 102, PPID: 100, Start: 501, Comm: "was foreign"})
	put()
	until(t, s, "both numbers in their new life", func(snap *snapshot.Snapshot) bool {
		p, q := procOf(snap, 101), procOf(snap, 102)
		return p != nil && q != nil && p.ID.StartTicks == 500 && q.ID.StartTicks == 501
	})
}

func TestBurstShowsFileAndItsClose(t *testing.T) {
	dir := t.TempDir()
	cmd := startReady(t, exec.Command("python3", "-c", `
import sys, os
print("ready", flush=True)
n = 0
while True:
    n += 1
    f = open(sys.argv[1] + "/model%d.pt" % n, "wb")
    for _ in range(40):
        f.write(b"x" * 500000); __import__("time").sleep(0.01)
    f.close()
`, dir))
	s := open(t, Config{})
	var file, closed bool
	until(t, s, "an open checkpoint, then the close of one with its size", func(snap *snapshot.Snapshot) bool {
		for _, f := range snap.Files {
			file = file || f.ID.PID == int32(cmd.Process.Pid) && strings.HasPrefix(f.Path, dir+"/model")
		}
		for _, e := range snap.FileEvents {
			closed = closed || e.Kind == snapshot.FileClosedWrite && e.Size == 20000000
		}
		return file && closed
	})
}
