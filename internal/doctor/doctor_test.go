package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
)

var update = flag.Bool("update", false, "write the golden files")

// driver is a Driver that answers as told; hang makes it never answer.
type driver struct {
	devices []nvml.Device
	err     error
	hang    bool
}

func (d driver) Open() ([]nvml.Device, error) {
	if d.hang {
		select {}
	}
	return d.devices, d.err
}
func (d driver) Close() error { return nil }

// machine is a fake host where everything is available, seen by a process 7 of this test's user.
func machine() map[string]string {
	const group = "sys/fs/cgroup/job/"
	return map[string]string{
		"proc/self":                            "-> 7",
		"proc/7/status":                        "Name:\tx\nCapEff:\t0000000000000000\n",
		"proc/7/stat":                          "7 (x) S\n",
		"proc/7/io":                            "rchar: 1\n",
		"proc/7/environ":                       "RANK=0\x00",
		"proc/7/fd/0":                          "",
		"proc/7/syscall":                       "running\n",
		"proc/7/schedstat":                     "1 2 3\n",
		"proc/7/cgroup":                        "0::/job\n",
		"proc/7/mountinfo":                     "22 27 0:21 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/7/root":                          "-> /",
		"proc/sys/kernel/osrelease":            "6.15.1-fake\n",
		"proc/sys/kernel/task_delayacct":       "1\n",
		"proc/sys/fs/inotify/max_user_watches": "65536\n",
		"proc/pressure/io":                     "some total=1\nfull total=1\n",
		"proc/pressure/cpu":                    "some total=1\n",
		"proc/pressure/memory":                 "some total=1\n",
		"proc/diskstats":                       "8 0 sda 1 0 1 0 0 0 0 0 0 0 0\n",
		"sys/dev/block/8:0":                    "-> ../../devices/sda",
		"sys/devices/sda/size":                 "100\n",
		group + "cgroup.events":                "populated 1\n",
		group + "cpu.max":                      "max 100000\n",
		group + "cpu.stat":                     "usage_usec 1\n",
		group + "cpuset.cpus.effective":        "0-3\n",
		group + "memory.max":                   "max\n",
		group + "memory.current":               "1\n",
		group + "io.stat":                      "8:0 rbytes=1 wbytes=1 rios=1 wios=1\n",
		group + "io.pressure":                  "some total=1\n",
	}
}

func examine(t *testing.T, files map[string]string, o Options) Report {
	t.Helper()
	root := hosttest.Tree(t, files)
	o.Procfs, o.Sysfs = filepath.Join(root, "proc"), filepath.Join(root, "sys")
	if o.GPUs == nil {
		o.GPUs = driver{devices: []nvml.Device{{Identity: nvml.Identity{Name: "H100"}}, {Identity: nvml.Identity{Name: "H100"}}}}
	}
	if o.Env == nil {
		o.Env = func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:secret@collector:4317/v1?key=secret"}[name]
		}
	}
	r := Examine(context.Background(), o)
	for i := range r.Sources {
		r.Sources[i].Reason = strings.ReplaceAll(r.Sources[i].Reason, root, "")
	}
	return r
}

func find(t *testing.T, r Report, name string) Source {
	t.Helper()
	for _, s := range r.Sources {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no source %q", name)
	return Source{}
}

func TestAllAvailable(t *testing.T) {
	r := examine(t, machine(), Options{})
	for _, s := range r.Sources {
		small := s.Name == "/dev/shm" // of the machine that runs the test
		if s.Status != Available && !small {
			t.Errorf("%s: %s, %s", s.Name, s.Status, s.Reason)
		}
		if s.Caveat != "" && !small {
			t.Errorf("%s: available with caveat %q", s.Name, s.Caveat)
		}
	}
	if otlp := find(t, r, "OTLP endpoint"); strings.Contains(otlp.Reason, "secret") || !strings.Contains(otlp.Reason, "http://collector:4317") {
		t.Errorf("reason %q", otlp.Reason)
	}
}

// One thing is wrong at a time: the row that it belongs to says so, with a way out where there is one.
func TestConditions(t *testing.T) {
	set := func(path, text string) func(map[string]string) {
		return func(m map[string]string) { m[path] = text }
	}
	without := func(paths ...string) func(map[string]string) {
		return func(m map[string]string) {
			for _, p := range paths {
				delete(m, p)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(map[string]string)
		options Options
		source  string
		status  Status
		reason  string
		fix     string
	}{
		"hidepid": {change: set("proc/7/mountinfo", "22 27 0:21 / /proc rw - proc proc rw,hidepid=invisible\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
			source: "processes", status: Degraded, reason: "hidepid=invisible", fix: "hidepid=0"},
		"no I/O accounting":    {change: without("proc/7/io"), source: "process I/O", status: Unavailable, reason: "CONFIG_TASK_IO_ACCOUNTING"},
		"no such process":      {options: Options{PID: 8}, source: "process I/O", status: Unavailable, reason: "no such process", fix: "shareProcessNamespace"},
		"Yama 1":               {change: set("proc/sys/kernel/yama/ptrace_scope", "1\n"), source: "system calls", status: Unavailable, reason: "ancestors", fix: "kernel.yama.ptrace_scope=0"},
		"Yama 2":               {change: set("proc/sys/kernel/yama/ptrace_scope", "2\n"), source: "system calls", status: Unavailable, reason: "administrators", fix: "SYS_PTRACE"},
		"Yama 3":               {change: set("proc/sys/kernel/yama/ptrace_scope", "3\n"), source: "system calls", status: Unavailable, reason: "nobody", fix: "reboot"},
		"schedstat zeros":      {change: set("proc/7/schedstat", "0 0 0\n"), source: "waiting times", status: Degraded, reason: "CONFIG_SCHED_INFO"},
		"delay accounting":     {change: set("proc/sys/kernel/task_delayacct", "0\n"), source: "storage delay", status: Degraded, reason: "is 0", fix: "task_delayacct=1"},
		"old kernel, delay":    {change: without("proc/sys/kernel/task_delayacct"), source: "storage delay", status: Degraded, reason: "5.14", fix: "delayacct"},
		"old kernel, exits":    {change: set("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"), source: "exit status", status: Degraded, reason: "6.8.0", fix: "6.15"},
		"no diskstats":         {change: without("proc/diskstats"), source: "block devices", status: Unavailable, reason: "diskstats", fix: "--procfs"},
		"no devices":           {change: set("proc/diskstats", ""), source: "block devices", status: Degraded, reason: "no block device"},
		"no sysfs":             {change: without("sys/dev/block/8:0"), source: "block devices", status: Degraded, reason: "counted twice", fix: "/sys"},
		"few watches":          {change: set("proc/sys/fs/inotify/max_user_watches", "100\n"), source: "file events", status: Degraded, reason: "100", fix: "max_user_watches"},
		"no pressure":          {change: without("proc/pressure/io", "proc/pressure/cpu", "proc/pressure/memory"), source: "pressure", status: Unavailable, reason: "no such file", fix: "CONFIG_PSI"},
		"a pressure missing":   {change: without("proc/pressure/cpu"), source: "pressure", status: Degraded, reason: "switched off", fix: "psi=1"},
		"a controller missing": {change: without("sys/fs/cgroup/job/io.stat"), source: "cgroup", status: Degraded, reason: "io: ", fix: "echo '+io' into cgroup.subtree_control"},
		"no cgroup mount":      {change: set("proc/7/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n"), source: "cgroup", status: Unavailable, reason: "not mounted"},
		"a neighbour's cgroup": {change: set("proc/7/cgroup", "0::/../other\n"), source: "cgroup", status: Unavailable, reason: "outside", fix: "--cgroupns=host"},
		"the v2 root":          {change: without("sys/fs/cgroup/job/cgroup.events"), source: "cgroup pressure", status: Unavailable, reason: "root of the v2 tree", fix: "--scope"},
		"no driver":            {options: Options{GPUs: driver{err: nvml.CodeLibraryNotFound}}, source: "GPUs", status: Unavailable, reason: "no NVIDIA driver"},
		"driver without library": {change: set("proc/driver/nvidia/version", "550\n"), options: Options{GPUs: driver{err: nvml.CodeLibraryNotFound}},
			source: "GPUs", status: Unavailable, reason: "although the driver", fix: "NVIDIA_DRIVER_CAPABILITIES"},
		"versions differ": {options: Options{GPUs: driver{err: fmt.Errorf("initialise NVML: %w", nvml.CodeVersionMismatch)}}, source: "GPUs", status: Unavailable, reason: "different versions", fix: "reboot"},
		"no cgo":          {options: Options{GPUs: driver{err: nvml.ErrNoCgo}}, source: "GPUs", status: Unavailable, reason: "cgo", fix: "with cgo"},
		"driver hangs":    {options: Options{GPUs: driver{hang: true}, Patience: 50 * time.Millisecond}, source: "GPUs", status: Unavailable, reason: "does not answer", fix: "dmesg"},
		"one GPU lost":    {options: Options{GPUs: driver{devices: []nvml.Device{{Identity: nvml.Identity{Name: "T4"}}, {Err: nvml.CodeLost}}}}, source: "GPUs", status: Degraded, reason: "1: T4; the GPU is lost"},
		"no endpoint":     {options: Options{Env: func(string) string { return "" }}, source: "OTLP endpoint", status: Unavailable, reason: "run folder only", fix: "4317"},
		"a bad endpoint":  {options: Options{Env: func(string) string { return "collector:4317" }}, source: "OTLP endpoint", status: Degraded, reason: "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			files := machine()
			if c.change != nil {
				c.change(files)
			}
			s := find(t, examine(t, files, c.options), c.source)
			if s.Status != c.status || !strings.Contains(s.Reason, c.reason) || !strings.Contains(s.Fix, c.fix) {
				t.Errorf("%+v\nwant %s, reason with %q, fix with %q", s, c.status, c.reason, c.fix)
			}
		})
	}
}

func TestCapabilityOpensYama(t *testing.T) {
	files := machine()
	files["proc/sys/kernel/yama/ptrace_scope"] = "1\n"
	files["proc/7/status"] = "CapEff:\t0000000000080000\n"
	if s := find(t, examine(t, files, Options{}), "system calls"); s.Status != Available {
		t.Errorf("with SYS_PTRACE: %+v", s)
	}
}

func TestText(t *testing.T) {
	r := Report{Kernel: "6.8.0", UID: 1000, PID: 42, Container: "a Docker container", Sources: []Source{
		{Name: "process I/O", Shows: "bytes", Status: Available},
		{Name: "system calls", Shows: "certainty", Status: Unavailable, Reason: "kernel.yama.ptrace_scope is 1", Fix: "sysctl -w kernel.yama.ptrace_scope=0", Caveat: "system calls were not readable"},
		{Name: "/dev/shm", Shows: "room", Status: Degraded, Reason: "64 MiB", Fix: "--shm-size=8g", Caveat: "/dev/shm is small"},
		{Name: "GPUs", Shows: "utilisation", Status: Unavailable, Reason: "no NVIDIA driver here"},
		{Name: "cgroup", Shows: "limits", Status: Available, Reason: "v2, group /job"},
	}}
	var got bytes.Buffer
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.txt"
	if *update {
		hosttest.Write(t, golden, got.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		if err := os.WriteFile(golden+".got", got.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
		t.Error(diff)
	}
	caveats := []string{"system calls were not readable: kernel.yama.ptrace_scope is 1", "/dev/shm is small: 64 MiB"}
	if diff := cmp.Diff(caveats, Caveats(r)); diff != "" {
		t.Error(diff)
	}
	got.Reset()
	if err := r.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(got.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
}

// envPID makes the test binary print its own examination of a process as JSON.
const envPID = "PTL_DOCTOR_TEST_PID"

func TestMain(m *testing.M) {
	if text := os.Getenv(envPID); text != "" {
		var pid int32
		if _, err := fmt.Sscan(text, &pid); err != nil {
			panic(err)
		}
		r := Examine(context.Background(), Options{Procfs: "/proc", Sysfs: "/sys", PID: pid, GPUs: driver{err: errors.New("none")}, Env: os.Getenv})
		if err := r.WriteJSON(os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// examineAs runs the test binary as another user over a process.
func examineAs(t *testing.T, uid uint32, pid int) Report {
	t.Helper()
	hosttest.NeedRoot(t)
	dir, err := os.MkdirTemp("", "ptl-doctor-") //nolint:usetesting // t.TempDir's parent is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // go's own build folder is closed to other users
		t.Fatal(err)
	}
	program := filepath.Join(dir, "doctor.test")
	hosttest.Run(t, "cp", os.Args[0], program)
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", envPID, pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// nobody looks at a process of root, and at one of its own.
func TestOtherUser(t *testing.T) {
	const nobody = 65534
	r := examineAs(t, nobody, hosttest.Start(t, exec.Command("sleep", "600")))
	for name, want := range map[string]Status{"processes": Available, "process I/O": Unavailable, "environment": Unavailable, "open files": Unavailable, "system calls": Unavailable, "waiting times": Available, "mounts": Available, "cgroup": Available} {
		s := find(t, r, name)
		if s.Status != want {
			t.Errorf("%s of root's process: %s, want %s: %s", name, s.Status, want, s.Reason)
		}
		if s.Status == Unavailable && (!strings.Contains(s.Reason, "uid 0") || !strings.Contains(s.Fix, "SYS_PTRACE")) {
			t.Errorf("%+v", s)
		}
	}
	own := exec.Command("sleep", "600")
	own.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	r = examineAs(t, nobody, hosttest.Start(t, own))
	for _, name := range []string{"processes", "process I/O", "environment", "open files"} {
		if s := find(t, r, name); s.Status != Available {
			t.Errorf("%s of its own process: %s, %s", name, s.Status, s.Reason)
		}
	}
}

func TestHidepid(t *testing.T) {
	for in, want := range map[string]string{
		"1 0 0:1 / /proc rw - proc proc rw,hidepid=2,gid=5\n":                              "hidepid=2",
		"1 0 0:1 / /proc rw - proc proc rw\n":                                              "",
		"1 0 0:1 / /proc rw - proc proc rw,hidepid=off\n":                                  "",
		"1 0 0:1 / /proc rw - proc proc rw,hidepid=2\n2 1 0:2 / /proc rw - proc proc rw\n": "",
		"1 0 0:1 / /other rw - proc proc rw,hidepid=2\n":                                   "",
		"": "", "garbage - proc ": "",
	} {
		if got := hidepid(in, "/proc"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzHidepid(f *testing.F) {
	f.Add("1 0 0:1 / /proc rw - proc proc rw,hidepid=2\n")
	f.Add("1 2 3 4 /proc - proc ")
	f.Fuzz(func(_ *testing.T, text string) { _ = hidepid(text, "/proc") })
}
