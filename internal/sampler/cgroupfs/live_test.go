package cgroupfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// inGroup starts a shell script within a control group and returns a reader of the script's group.
func inGroup(t *testing.T, dir, script string) *Reader {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" || exit 9; exec /bin/sh -c "$1"`, dir, script)
	pid := hosttest.Start(t, cmd)
	hosttest.Until(t, "the move into "+dir, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		return err == nil && strings.Contains("\n"+string(b), "\n"+strconv.Itoa(pid)+"\n")
	})
	r := New("/proc", "/sys", int32(pid))
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func group(t *testing.T, r *Reader) *snapshot.Cgroup {
	t.Helper()
	var s snapshot.Snapshot
	r.Read(0, &s)
	if s.Cgroup == nil {
		t.Fatalf("no group: %+v", s.Gaps)
	}
	return s.Cgroup
}

// 50 ms of each 100 ms, and two loops that want all of it.
func TestQuotaThrottles(t *testing.T) {
	dir := hosttest.CgroupV1(t, "cpu")
	hosttest.Write(t, filepath.Join(dir, "cpu.cfs_period_us"), "100000")
	hosttest.Write(t, filepath.Join(dir, "cpu.cfs_quota_us"), "50000")
	r := inGroup(t, dir, "while :; do :; done & while :; do :; done")
	first := group(t, r).CPU
	if first == nil || first.Limit == nil || *first.Limit != 0.5 || first.File != filepath.Join(dir, "cpu.cfs_quota_us") {
		t.Fatalf("limit: %+v", first)
	}
	hosttest.Until(t, "throttling", func() bool {
		c := group(t, r).CPU
		return c.Throttled >= first.Throttled+3 && c.Periods > first.Periods && c.ThrottledTime >= first.ThrottledTime+50*time.Millisecond
	})
}

// The shell's children allocate until the group's limit kills one.
func TestMemoryLimitKills(t *testing.T) {
	dir := hosttest.CgroupV1(t, "memory")
	const limit = 32 << 20
	hosttest.Write(t, filepath.Join(dir, "memory.limit_in_bytes"), strconv.Itoa(limit))
	r := inGroup(t, dir, `sleep 0.2; /usr/bin/python3 -c 'b = bytearray(200 << 20)'; sleep 60`)
	before := group(t, r).Memory
	if before == nil || before.Limit == nil || *before.Limit != limit || before.InactiveFile == nil {
		t.Fatalf("limit: %+v", before)
	}
	if before.Events["oom_kill"] != 0 {
		t.Fatalf("killed at once: %+v", before.Events)
	}
	hosttest.Until(t, "the kill", func() bool { return group(t, r).Memory.Events["oom_kill"] >= 1 })
	m := group(t, r).Memory
	if m.Events["failcnt"] == 0 || m.Usage > limit || m.File != filepath.Join(dir, "memory.limit_in_bytes") {
		t.Errorf("after the kill: %+v", m)
	}
}

// A loop device held to a rate: the limit is shown with its device, and the bytes are the group's.
func TestThrottledDevice(t *testing.T) {
	dev := hosttest.Loop(t, 64<<20)
	dir := hosttest.CgroupV1(t, "blkio")
	number := hosttest.Number(t, dev)
	hosttest.Write(t, filepath.Join(dir, "blkio.throttle.read_bps_device"), number+" 8388608")
	r := inGroup(t, dir, "dd if="+dev+" of=/dev/null bs=1M count=12 iflag=direct 2>/dev/null; sleep 60")
	var d snapshot.CgroupDeviceIO
	hosttest.Until(t, "12 MiB at 8 MiB/s", func() bool {
		io := group(t, r).IO
		if io == nil || len(io.Devices) != 1 {
			return false
		}
		d = io.Devices[0]
		return d.ReadBytes != nil && *d.ReadBytes >= 12<<20
	})
	if d.Device != number || d.ReadBPS == nil || *d.ReadBPS != 8388608 || d.WriteBPS != nil || *d.ReadBytes != 12<<20 || *d.ReadOps == 0 {
		t.Errorf("%+v", d)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New("/proc", "/sys", int32(os.Getpid()))
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		var s snapshot.Snapshot
		r.Read(0, &s)
	}
}
