package mounts

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// mountID is the mount on which an open file lies, as the kernel says it.
func mountID(t *testing.T, path string) int32 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		var id int32
		if _, err := fmt.Sscanf(lines.Text(), "mnt_id: %d", &id); err == nil {
			return id
		}
	}
	t.Fatal("no mnt_id in fdinfo")
	return 0
}

func newLive(t *testing.T) *Reader {
	t.Helper()
	r := New("/proc", Topology("/proc", "/sys"))
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func self() snapshot.ProcID { return snapshot.ProcID{PID: int32(os.Getpid()), StartTicks: 1} }

// snap is a snapshot with one process that has one file open.
func snap(id snapshot.ProcID, mounts ...int32) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Procs: []snapshot.Proc{{ID: id}}}
	for _, m := range mounts {
		s.Files = append(s.Files, snapshot.OpenFile{ID: id, MountID: m})
	}
	return s
}

func find(s *snapshot.Snapshot, id int32) *snapshot.Mount {
	for i := range s.Mounts {
		if s.Mounts[i].ID == id {
			return &s.Mounts[i]
		}
	}
	return nil
}

func TestRecordedHost(t *testing.T) {
	proc, topology := hostTree(t, hostTable)
	r := New(proc, topology)
	defer r.Close()
	s := snap(snapshot.ProcID{PID: 7, StartTicks: 1}, 4, 5, 6, 999)
	r.Read(time.Second, s)
	want := []snapshot.Mount{
		{ID: 4, Mountpoint: "/mnt/nfs", FSType: "nfs4", Source: "server:/export", Remote: true, At: time.Second},
		{ID: 5, Mountpoint: "/gcs", FSType: "fuse.gcsfuse", Source: "bucket", Remote: true, At: time.Second},
		{ID: 6, Mountpoint: `/datasets/im age\net`, FSType: "ext4", Source: "/dev/mapper/vg-root", Device: "dm-0", At: time.Second},
		{ID: 12, Mountpoint: "/dev/shm", FSType: "tmpfs", At: time.Second},
	}
	if diff := cmp.Diff(want, s.Mounts, cmpopts.IgnoreFields(snapshot.Mount{}, "Space")); diff != "" {
		t.Error(diff)
	}
	// The file was closed, the mount stays known; the process ended, so does its namespace, but not what is mounted here too.
	s = &snapshot.Snapshot{}
	r.Read(2*time.Second, s)
	if len(s.Mounts) != len(want) {
		t.Errorf("%d mounts, want %d", len(s.Mounts), len(want))
	}
}

// The room of a real file system on a loop device, and its device, whose bytes are the disk's too.
func TestLoopFileSystem(t *testing.T) {
	dev := hosttest.Loop(t, 64<<20)
	dir := hosttest.Ext4(t, dev)
	path := filepath.Join(dir, "ckpt.pt")
	hosttest.Write(t, path, strings.Repeat("x", 20<<20))
	r, id := newLive(t), mountID(t, path)
	var m *snapshot.Mount
	hosttest.Until(t, "statfs", func() bool {
		s := snap(self(), id)
		r.Read(0, s)
		m = find(s, id)
		return m != nil && m.Space != nil
	})
	if m.Mountpoint != dir || m.FSType != "ext4" || m.Source != dev || m.Device != filepath.Base(dev) || m.Remote {
		t.Errorf("%+v", m)
	}
	if sp := m.Space; sp.Total > 64<<20 || sp.Total < 40<<20 || sp.Total-sp.Free < 20<<20 || sp.Available > sp.Free || sp.FilesFree == 0 {
		t.Errorf("room %+v", sp)
	}
	number, _ := blockdev.ParseNumber(hosttest.Number(t, dev))
	rootDevice := resolver{r.topology, r.own}
	root, _ := r.own.holding(t.TempDir())
	want := rootDevice.device(root, 0)
	if below := Topology("/proc", "/sys").Below(number); want != "" && !cmp.Equal(below, []string{want}) {
		t.Errorf("%s stands on %v, want %s", dev, below, want)
	}
}

// A container's /dev/shm of 24 MB: the room is that of its own mount namespace, not of ours.
func TestSmallShm(t *testing.T) {
	hosttest.NeedRoot(t)
	cmd := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=24m tmpfs /dev/shm && head -c 20971520 /dev/zero >/dev/shm/torch_1 && sleep 600")
	id := snapshot.ProcID{PID: int32(hosttest.Start(t, cmd)), StartTicks: 1}
	r := newLive(t)
	now := time.Duration(0)
	hosttest.Until(t, "20 of 24 MB in use", func() bool {
		now += reread // the namespace is made after the first look
		delete(r.of, id)
		s := snap(id)
		r.Read(now, s)
		for _, m := range s.Mounts {
			if m.Mountpoint == "/dev/shm" && m.FSType == "tmpfs" && m.Space != nil && m.Space.Total == 24<<20 {
				return m.Space.Free == 4<<20
			}
		}
		return false
	})
}

func TestFuse(t *testing.T) {
	dir := hosttest.Fuse(t, "")
	r, id := newLive(t), mountID(t, filepath.Join(dir, "data"))
	var m *snapshot.Mount
	hosttest.Until(t, "statfs", func() bool {
		s := snap(self(), id)
		r.Read(0, s)
		m = find(s, id)
		return m.Space != nil
	})
	if !m.Remote || m.Device != "" || m.Source != "bucket" || !strings.HasPrefix(m.FSType, "fuse") || m.Mountpoint != dir {
		t.Errorf("%+v", m)
	}
	want := snapshot.Space{Total: 1000 * 4096, Free: 250 * 4096, Available: 200 * 4096, Files: 50, FilesFree: 40}
	if diff := cmp.Diff(&want, m.Space); diff != "" {
		t.Error(diff)
	}
}

// A file system that never answers statfs: the tick goes on, the gap says so, and nobody asks a second time.
func TestFuseThatHangs(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	dir := hosttest.Fuse(t, fmt.Sprintf(`
    def statfs(self, path):
        with open(%q, "a") as f:
            f.write("x")
        time.sleep(3600)
`, calls))
	r, id := newLive(t), mountID(t, filepath.Join(dir, "data"))
	shm := mountID(t, "/dev/shm")
	now := time.Duration(0)
	var gap *snapshot.Gap
	hosttest.Until(t, "the gap", func() bool {
		now += remoteBeat
		s := snap(self(), id, shm)
		r.Read(now, s)
		if m := find(s, id); m == nil || m.Space != nil {
			t.Fatalf("mount %+v", m)
		}
		for i := range s.Gaps {
			if s.Gaps[i].Source == "mounts.space" {
				gap = &s.Gaps[i]
			}
		}
		m := find(s, shm)
		return gap != nil && m != nil && m.Space != nil
	})
	if gap.Reason != snapshot.GapTimeout || !strings.Contains(gap.Detail, dir) {
		t.Errorf("gap %+v", gap)
	}
	if b, err := os.ReadFile(calls); err != nil || string(b) != "x" {
		t.Errorf("asked %d times, %v; want once", len(b), err)
	}
}

func TestManyMountsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "%d 1 0:%d / /m%d rw - nfs4 s:/%d rw\n", i+1, i+1, i, i)
	}
	proc, topology := hostTree(t, text.String())
	r := New(proc, topology)
	defer r.Close()
	for i := range int32(100) {
		s := snap(snapshot.ProcID{PID: 7, StartTicks: 1}, i+1)
		r.Read(time.Duration(i+1)*time.Second, s)
		if len(s.Mounts) > maxMounts || find(s, i+1) == nil {
			t.Fatalf("after mount %d: %d shown", i+1, len(s.Mounts))
		}
	}
	if len(r.boxes) > 2*maxMounts {
		t.Errorf("%d mailboxes", len(r.boxes))
	}
}

func TestNoMountinfo(t *testing.T) {
	r := New(filepath.Join(t.TempDir(), "nothing"), blockdev.Topology{})
	defer r.Close()
	s := snap(snapshot.ProcID{PID: 7, StartTicks: 1}, 4)
	r.Read(0, s)
	if len(s.Mounts) != 0 || len(s.Gaps) == 0 || s.Gaps[0].Source != "mounts" {
		t.Errorf("%+v", s)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New("/proc", Topology("/proc", "/sys"))
	defer r.Close()
	s := snapshot.Snapshot{Procs: []snapshot.Proc{{ID: self()}}}
	b.ReportAllocs()
	var now time.Duration
	for b.Loop() {
		now += time.Second
		s.Mounts, s.Gaps = nil, nil
		r.Read(now, &s)
	}
}
