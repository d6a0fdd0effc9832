package cgroupfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// read makes one snapshot of process 7 in a fake tree. Paths of files are cut to what follows the root.
func read(t *testing.T, files map[string]string) snapshot.Snapshot {
	t.Helper()
	root := hosttest.Tree(t, files)
	r := New(filepath.Join(root, "proc"), filepath.Join(root, "sys"), 7)
	t.Cleanup(func() { _ = r.Close() })
	var s snapshot.Snapshot
	r.Read(time.Second, &s)
	cut := func(file *string) { *file, _ = filepath.Rel(root, *file) }
	if c := s.Cgroup; c != nil {
		if c.CPU != nil {
			cut(&c.CPU.File)
		}
		if c.Cpuset != nil {
			cut(&c.Cpuset.File)
		}
		if c.Memory != nil {
			cut(&c.Memory.File)
		}
		if c.IO != nil {
			cut(&c.IO.File)
		}
	}
	return s
}

func gaps(s snapshot.Snapshot) map[string]snapshot.GapReason {
	m := map[string]snapshot.GapReason{}
	for _, g := range s.Gaps {
		m[g.Source] = g.Reason
	}
	return m
}

// A pod on a v2 host: the limits stand on different levels, and throttling is counted where the quota is.
func TestV2Host(t *testing.T) {
	const top = "sys/fs/cgroup/"
	s := read(t, map[string]string{
		"proc/7/cgroup": "0::/pod/main\n", "proc/self/mountinfo": mountV2,
		top + "cpu.stat":                  "usage_usec 999\n",
		top + "cpuset.cpus.effective":     "0-63\n",
		top + "io.stat":                   "259:0 rbytes=9 wbytes=9 rios=9 wios=9\n",
		top + "pod/cpu.max":               "400000 100000\n",
		top + "pod/cpu.stat":              "usage_usec 80000\nnr_periods 100\nnr_throttled 61\nthrottled_usec 5000000\n",
		top + "pod/memory.max":            "max\n",
		top + "pod/memory.current":        "700\n",
		top + "pod/io.max":                "259:0 rbps=1000 wbps=max riops=max wiops=max\n",
		top + "pod/cpuset.cpus.effective": "0-3,8\n",
		top + "pod/main/cgroup.events":    "populated 1\n",
		top + "pod/main/cpu.max":          "max 100000\n",
		top + "pod/main/cpu.stat":         "usage_usec 70000\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
		top + "pod/main/memory.max":       "600\n",
		top + "pod/main/memory.current":   "500\n",
		top + "pod/main/memory.stat":      "anon 300\ninactive_file 120\n",
		top + "pod/main/memory.events":    "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n",
		top + "pod/main/io.stat":          "259:0 rbytes=1 wbytes=2 rios=3 wios=4\n",
		top + "pod/main/io.pressure":      "some total=11\nfull total=7\n",
		top + "pod/main/cpu.pressure":     "some total=1\n",
		top + "pod/main/memory.pressure":  "some total=0\n",
	})
	want := &snapshot.Cgroup{
		Version: "v2", Path: "/pod/main", At: time.Second,
		CPU:    &snapshot.CgroupCPU{File: top + "pod/cpu.max", Limit: ptr(4.0), Periods: 100, Throttled: 61, ThrottledTime: 5 * time.Second, Usage: ptr(70 * time.Millisecond)},
		Cpuset: &snapshot.CgroupCpuset{File: top + "pod/cpuset.cpus.effective", CPUs: 5, List: "0-3,8"},
		Memory: &snapshot.CgroupMemory{File: top + "pod/main/memory.max", Limit: ptr(uint64(600)), Usage: 500, InactiveFile: ptr(uint64(120)),
			Events: map[string]uint64{"low": 0, "high": 0, "max": 3, "oom": 1, "oom_kill": 1, "oom_group_kill": 0}},
		IO: &snapshot.CgroupIO{File: top + "pod/main/io.stat", Devices: []snapshot.CgroupDeviceIO{{
			Device: "259:0", ReadBytes: ptr(uint64(1)), WriteBytes: ptr(uint64(2)), ReadOps: ptr(uint64(3)), WriteOps: ptr(uint64(4)), ReadBPS: ptr(uint64(1000)),
		}}},
	}
	if diff := cmp.Diff(want, s.Cgroup); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]snapshot.GapReason{}, gaps(s)); diff != "" {
		t.Error(diff)
	}
	if len(s.Pressure) != 4 || s.Pressure[0] != (snapshot.Pressure{Scope: "cgroup", Resource: "io", Kind: "some", Total: 11 * time.Microsecond}) {
		t.Errorf("pressure %+v", s.Pressure)
	}
}

// In a private namespace "/" is the group itself: its limits are at the mount's top.
func TestV2PrivateNamespace(t *testing.T) {
	const top = "sys/fs/cgroup/"
	s := read(t, map[string]string{
		"proc/7/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
		top + "cgroup.events": "populated 1\n", top + "cpu.max": "50000 100000\n", top + "cpu.stat": "usage_usec 7\nnr_periods 1\nnr_throttled 1\nthrottled_usec 4\n",
		top + "memory.max": "max\n", top + "memory.current": "5\n",
	})
	if s.Cgroup == nil || s.Cgroup.CPU == nil || s.Cgroup.CPU.Limit == nil || *s.Cgroup.CPU.Limit != 0.5 || *s.Cgroup.CPU.Usage != 7*time.Microsecond {
		t.Fatalf("%+v", s.Cgroup)
	}
	if m := s.Cgroup.Memory; m == nil || m.Limit != nil || m.Usage != 5 || m.Events != nil {
		t.Errorf("memory %+v", m)
	}
	want := map[string]snapshot.GapReason{"cgroup.io": "unsupported", "cgroup.cpuset": "unsupported", "psi.cgroup.io": "unsupported", "psi.cgroup.cpu": "unsupported", "psi.cgroup.memory": "unsupported"}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Error(diff)
	}
}

// Hybrid: the controllers are on v1, the v2 tree has no figures, and its root's pressure is not the job's.
func TestHybrid(t *testing.T) {
	const top = "sys/fs/cgroup/"
	s := read(t, map[string]string{
		"proc/7/cgroup": "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n", "proc/self/mountinfo": mountHybrid,
		top + "unified/io.pressure": "some total=5\n", top + "unified/cpu.stat": "usage_usec 1\n",
		top + "memory/memory.usage_in_bytes": "1000\n", top + "memory/memory.limit_in_bytes": "9223372036854771712\n",
		top + "memory/job/memory.usage_in_bytes": "500\n", top + "memory/job/memory.limit_in_bytes": "600\n", top + "memory/job/memory.failcnt": "3\n",
		top + "memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", top + "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 9\n",
		top + "cpu,cpuacct/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", top + "cpu,cpuacct/cpuacct.usage": "77\n",
	})
	want := &snapshot.Cgroup{
		Version: "hybrid", Path: "/job", At: time.Second,
		CPU: &snapshot.CgroupCPU{File: top + "cpu,cpuacct/cpu.stat", Usage: ptr(77 * time.Nanosecond)},
		Memory: &snapshot.CgroupMemory{File: top + "memory/job/memory.limit_in_bytes", Limit: ptr(uint64(600)), Usage: 500, InactiveFile: ptr(uint64(9)),
			Events: map[string]uint64{"oom_kill": 2, "failcnt": 3}},
	}
	if diff := cmp.Diff(want, s.Cgroup); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]snapshot.GapReason{"cgroup.io": "unsupported", "cgroup.cpuset": "unsupported"}, gaps(s)); diff != "" {
		t.Error(diff)
	}
	if len(s.Pressure) != 0 {
		t.Errorf("the machine's pressure was taken for the job's: %+v", s.Pressure)
	}
}

func TestGoneAndMalformed(t *testing.T) {
	s := read(t, map[string]string{"proc/self/mountinfo": mountV2})
	if s.Cgroup != nil || len(s.Gaps) != 1 || s.Gaps[0].Source != "cgroup" {
		t.Errorf("no process: %+v", s)
	}
	s = read(t, map[string]string{
		"proc/7/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/cpu.max": "lots\n",
		"sys/fs/cgroup/memory.max": "1e9\n", "sys/fs/cgroup/io.stat": "what\n", "sys/fs/cgroup/cpuset.cpus.effective": "all\n",
	})
	want := map[string]snapshot.GapReason{"cgroup.cpu": "malformed", "cgroup.memory": "malformed", "cgroup.io": "malformed", "cgroup.cpuset": "malformed"}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Error(diff)
	}
	if s.Cgroup.CPU != nil || s.Cgroup.Memory != nil || s.Cgroup.IO != nil || s.Cgroup.Cpuset != nil {
		t.Errorf("%+v", s.Cgroup)
	}
}

// The last group stays when the root process is gone; it is looked up again when the process was moved.
func TestMovedAndGone(t *testing.T) {
	root := hosttest.Tree(t, map[string]string{
		"proc/7/cgroup": "0::/a\n", "proc/self/mountinfo": mountV2,
		"sys/fs/cgroup/a/cpu.stat": "usage_usec 1\n", "sys/fs/cgroup/b/cpu.stat": "usage_usec 2\n",
	})
	r := New(filepath.Join(root, "proc"), filepath.Join(root, "sys"), 7)
	defer r.Close()
	usage := func() time.Duration {
		var s snapshot.Snapshot
		r.Read(0, &s)
		return *s.Cgroup.CPU.Usage
	}
	if got := usage(); got != time.Microsecond {
		t.Fatalf("in a: %v", got)
	}
	hosttest.Write(t, filepath.Join(root, "proc/7/cgroup"), "0::/b\n")
	if got := usage(); got != 2*time.Microsecond {
		t.Errorf("moved to b: %v", got)
	}
	_ = r.membership.Close()
	if err := os.Remove(filepath.Join(root, "proc/7/cgroup")); err != nil {
		t.Fatal(err)
	}
	if got := usage(); got != 2*time.Microsecond {
		t.Errorf("after its end: %v", got)
	}
}

// v1 throttle files without a limit say nothing; bfq's, where that scheduler is in use, do. Nothing anywhere is no device.
func TestV1IO(t *testing.T) {
	const dir = "sys/fs/cgroup/blkio/job/"
	files := map[string]string{
		"proc/7/cgroup": "4:blkio:/job\n", "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
		dir + "blkio.throttle.io_service_bytes_recursive": "Total 0\n", dir + "blkio.throttle.io_serviced_recursive": "Total 0\n",
		dir + "blkio.throttle.io_service_bytes": "Total 0\n",
		dir + "blkio.throttle.write_bps_device": "8:16 500\n",
	}
	s := read(t, files)
	want := &snapshot.CgroupIO{File: dir + "blkio.throttle.io_service_bytes_recursive", Devices: []snapshot.CgroupDeviceIO{{Device: "8:16", WriteBPS: ptr(uint64(500))}}}
	if diff := cmp.Diff(want, s.Cgroup.IO); diff != "" {
		t.Errorf("limits alone: %s", diff)
	}
	files[dir+"blkio.bfq.io_service_bytes_recursive"] = "8:16 Read 10\n8:16 Write 20\n8:16 Sync 30\n8:16 Total 30\nTotal 30\n"
	files[dir+"blkio.bfq.io_serviced_recursive"] = "8:16 Read 1\n8:16 Write 2\nTotal 3\n"
	s = read(t, files)
	want = &snapshot.CgroupIO{File: dir + "blkio.bfq.io_service_bytes_recursive", Devices: []snapshot.CgroupDeviceIO{{
		Device: "8:16", ReadBytes: ptr(uint64(10)), WriteBytes: ptr(uint64(20)), ReadOps: ptr(uint64(1)), WriteOps: ptr(uint64(2)), WriteBPS: ptr(uint64(500)),
	}}}
	if diff := cmp.Diff(want, s.Cgroup.IO); diff != "" {
		t.Errorf("bfq: %s", diff)
	}
}
