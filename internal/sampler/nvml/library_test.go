//go:build cgo

package nvml

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/nvmltest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// envChild names the test that a re-executed test binary runs, with a library that its loader finds.
const envChild = "PTL_NVML_TEST_CHILD"

// fakePath is the fake's path in this process: the binding resolves a symbol once, so there is one build per process.
var fakePath string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(envChild) != "" {
		return m.Run() // the library is found through LD_LIBRARY_PATH
	}
	dir, err := os.MkdirTemp("", "ptl-nvml-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if fakePath, err = nvmltest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func ptr[T any](v T) *T { return &v }

// rig is a reader on the fake library, with a clock of its own that goes a second per tick.
type rig struct {
	*Reader
	t   *testing.T
	now time.Duration
	log bytes.Buffer
}

func newRig(t *testing.T, options Options) *rig {
	t.Helper()
	r := &rig{t: t}
	options.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	if options.Deadline == 0 {
		options.Deadline = 30 * time.Second // a loaded machine is not a hanging driver
	}
	r.Reader = New(Library(fakePath), options)
	return r
}

func (r *rig) tick() *snapshot.Snapshot {
	r.now += failedBeat
	s := &snapshot.Snapshot{}
	r.Read(r.now, s)
	return s
}

// until ticks until a snapshot is as wanted.
func (r *rig) until(what string, ok func(*snapshot.Snapshot) bool) *snapshot.Snapshot {
	r.t.Helper()
	var s *snapshot.Snapshot
	hosttest.Until(r.t, what, func() bool { s = r.tick(); return ok(s) })
	return s
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// read says that every GPU has been read.
func read(s *snapshot.Snapshot) bool {
	for _, g := range s.GPUs {
		if g.At == 0 {
			return false
		}
	}
	return len(s.GPUs) > 0
}

func gaps(s *snapshot.Snapshot) map[string]snapshot.GapReason {
	m := map[string]snapshot.GapReason{}
	for _, g := range s.Gaps {
		m[g.Source] = g.Reason
	}
	return m
}

func TestHealthy(t *testing.T) {
	nvmltest.NewScenario(t, nvmltest.Two)
	r := newRig(t, Options{})
	defer r.close()
	s := r.until("both GPUs", read)
	want := []snapshot.GPU{{
		UUID: "GPU-00000000-0000-0000-0000-000000000000", Index: 0, Minor: 0, Name: "NVIDIA H100 80GB HBM3",
		Utilization: ptr(0.8), MemUtilization: ptr(0.3), MemUsed: ptr(uint64(1 << 30)), MemTotal: ptr(uint64(80 << 30)),
		PowerW: ptr(350.0), PowerLimitW: ptr(700.0), TemperatureC: ptr(55.0), SMClockMHz: ptr(uint32(1700)), MaxSMClockMHz: ptr(uint32(1980)),
		Throttle: ptr(uint64(4)), PCIeRxBPS: ptr(uint64(2 << 20)), PCIeTxBPS: ptr(uint64(1 << 20)), NVLinkRxBytes: ptr(uint64(2048)),
		NVLinkTxBytes: ptr(uint64(1024)), ECCCorrected: ptr(uint64(3)), ECCUncorrected: ptr(uint64(0)),
	}}
	second := want[0]
	second.UUID, second.Index, second.Minor, second.Utilization = "GPU-11111111-1111-1111-1111-111111111111", 1, 1, ptr(0.2)
	want = append(want, second)
	if diff := cmp.Diff(want, s.GPUs, cmpopts.IgnoreFields(snapshot.GPU{}, "At", "Busy")); diff != "" {
		t.Error(diff)
	}
	if len(s.Gaps) != 0 || r.log.Len() != 0 {
		t.Errorf("gaps %+v, log %s", s.Gaps, &r.log)
	}
	// Without samples the level stands for the time between two readings: busy grows.
	first := *s.GPUs[0].Busy
	r.until("busy time", func(s *snapshot.Snapshot) bool { return *s.GPUs[0].Busy > first })
}

// The driver's buffer: what happened between two readings is in it.
func TestSamples(t *testing.T) {
	sc := nvmltest.NewScenario(t, nvmltest.Two+"0 0 samples 1000000:100\n")
	r := newRig(t, Options{})
	defer r.close()
	s := r.until("the first samples", read)
	if g := s.GPUs[0]; *g.Utilization != 1 || *g.Busy != 0 {
		t.Errorf("utilization %v, busy %v", *g.Utilization, *g.Busy)
	}
	sc.Set(nvmltest.Two + "0 0 samples 1000000:100 1500000:100 2000000:50 3000000:0\n")
	r.until("750 ms", func(s *snapshot.Snapshot) bool { return *s.GPUs[0].Busy == 750*time.Millisecond })
	sc.Set(nvmltest.Two + "0 0 samples 2000000:50 3000000:0 3500000:20\n")
	r.until("850 ms", func(s *snapshot.Snapshot) bool {
		g := s.GPUs[0]
		return *g.Busy == 850*time.Millisecond && (g.Utilization == nil || *g.Utilization == 0.2)
	})
}

// One GPU falls off; the other goes on; it comes back.
func TestLost(t *testing.T) {
	sc := nvmltest.NewScenario(t, nvmltest.Two)
	r := newRig(t, Options{})
	defer r.close()
	r.until("both GPUs", read)
	sc.Set(nvmltest.Two + "0 1 memory_total error 15\n0 0 utilization 70\n")
	s := r.until("the loss", func(s *snapshot.Snapshot) bool {
		return s.GPUs[1].Lost && s.GPUs[0].Utilization != nil && *s.GPUs[0].Utilization == 0.7
	})
	if g := s.GPUs[1]; g.Utilization != nil || g.PowerW != nil || g.Busy != nil || g.UUID == "" || s.GPUs[0].Lost {
		t.Errorf("%+v", s.GPUs)
	}
	if diff := cmp.Diff(map[string]snapshot.GapReason{"nvml.device": "gone"}, gaps(s)); diff != "" {
		t.Error(diff)
	}
	sc.Set(nvmltest.Two)
	r.until("its return", func(s *snapshot.Snapshot) bool { return !s.GPUs[1].Lost && s.GPUs[1].Utilization != nil })
}

// A GPU that is lost before the start is listed, without a name.
func TestLostFromTheStart(t *testing.T) {
	nvmltest.NewScenario(t, nvmltest.Two+"0 0 handle error 15\n")
	r := newRig(t, Options{})
	defer r.close()
	s := r.until("the other GPU", func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 2 && s.GPUs[1].Utilization != nil })
	if g := s.GPUs[0]; !g.Lost || g.Index != 0 || g.UUID != "" || g.Minor != -1 {
		t.Errorf("%+v", g)
	}
}

func TestUnsupportedAndSentinels(t *testing.T) {
	nvmltest.NewScenario(t, nvmltest.Two+`0 * power 4294967295
0 * temperature 4294967295
0 * memory_used 18446744073709551615
0 * ecc_corrected error 3
0 * throttle error 4
0 * utilization 4294967295
0 * pcie_rx 4294967295
0 * nvlink_rx error 3
`)
	r := newRig(t, Options{})
	defer r.close()
	s := r.until("both GPUs", read)
	for _, g := range s.GPUs {
		if g.PowerW != nil || g.TemperatureC != nil || g.MemUsed != nil || g.ECCCorrected != nil || g.Throttle != nil || g.Utilization != nil || g.Busy != nil || g.PCIeRxBPS != nil || g.NVLinkRxBytes != nil {
			t.Errorf("%+v", g)
		}
		if g.PowerLimitW == nil || g.PCIeTxBPS == nil || g.ECCUncorrected == nil {
			t.Errorf("lost with its neighbour: %+v", g)
		}
	}
	want := map[string]snapshot.GapReason{
		"nvml.power": "malformed", "nvml.temperature": "malformed", "nvml.memory": "malformed", "nvml.ecc": "unsupported",
		"nvml.throttle": "denied", "nvml.utilization": "malformed", "nvml.pcie": "malformed",
	}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(s.Gaps[0].Detail, "GPU 0") || !strings.Contains(s.Gaps[0].Detail, "and 1 more") {
		t.Errorf("detail %q", s.Gaps[0].Detail)
	}
}

func TestMIG(t *testing.T) {
	nvmltest.NewScenario(t, `0 - count 1
0 0 uuid GPU-0
0 0 name A100
0 0 minor 2
0 0 mig 1
0 0 instances 2
0 0/0 uuid MIG-a
0 0/1 uuid MIG-b
0 0/0 name A100 MIG 3g.40gb
0 * memory_total 1000
0 0/0 memory_used 10
0 0/1 memory_used 20
0 0 memory_used 30
0 * power 100000
`)
	r := newRig(t, Options{})
	defer r.close()
	s := r.until("the instances", func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 3 && read(s) })
	want := []snapshot.GPU{
		{UUID: "GPU-0", Index: 0, Minor: 2, Name: "A100", MemUsed: ptr(uint64(30)), MemTotal: ptr(uint64(1000)), PowerW: ptr(100.0)},
		{UUID: "MIG-a", Index: 0, Minor: 2, Name: "A100 MIG 3g.40gb", MIG: true, Parent: "GPU-0", MemUsed: ptr(uint64(10)), MemTotal: ptr(uint64(1000))},
		{UUID: "MIG-b", Index: 0, Minor: 2, Name: "A100", MIG: true, Parent: "GPU-0", MemUsed: ptr(uint64(20)), MemTotal: ptr(uint64(1000))},
	}
	if diff := cmp.Diff(want, s.GPUs, cmpopts.IgnoreFields(snapshot.GPU{}, "At")); diff != "" {
		t.Error(diff)
	}
}

// The library's own failures: one warning where it matters, none where there are simply no GPUs.
func TestInitFails(t *testing.T) {
	for name, c := range map[string]struct {
		lines  string
		reason snapshot.GapReason
		detail string
		warned int
	}{
		"another version than the kernel's": {"0 - init error 18\n", "unsupported", "different versions", 1},
		"driver not loaded":                 {"0 - init error 9\n", "unsupported", "not loaded", 0},
		"unknown":                           {"0 - init error 999\n", "unsupported", "999", 1},
		"no permission":                     {"0 - init error 4\n", "denied", "permission", 1},
		"count fails":                       {"0 - count error 999\n", "unsupported", "count GPUs", 1},
	} {
		t.Run(name, func(t *testing.T) {
			nvmltest.NewScenario(t, c.lines)
			r := newRig(t, Options{})
			defer r.close()
			s := r.until("the failure", func(s *snapshot.Snapshot) bool { return len(s.Gaps) > 0 })
			r.tick()
			if len(s.GPUs) != 0 || len(s.Gaps) != 1 || s.Gaps[0].Source != "nvml" || s.Gaps[0].Reason != c.reason || !strings.Contains(s.Gaps[0].Detail, c.detail) {
				t.Errorf("%+v", s)
			}
			if n := strings.Count(r.log.String(), "\n"); n != c.warned {
				t.Errorf("%d lines of log, want %d: %s", n, c.warned, &r.log)
			}
		})
	}
}

func TestNoLibrary(t *testing.T) {
	r := &rig{t: t, Reader: New(Library("/nonexistent/libnvidia-ml.so.1"), Options{})}
	defer r.close()
	s := r.until("the answer", func(s *snapshot.Snapshot) bool { return len(s.Gaps) > 0 })
	want := []snapshot.Gap{{Source: "nvml", Reason: "unsupported", Detail: s.Gaps[0].Detail}}
	if diff := cmp.Diff(want, s.Gaps); diff != "" || !strings.Contains(s.Gaps[0].Detail, "libnvidia-ml.so.1 not found") {
		t.Errorf("%s %+v", diff, s.Gaps)
	}
}

// A count of none is an answer.
func TestNoGPUs(t *testing.T) {
	nvmltest.NewScenario(t, "0 - count 0\n")
	r := newRig(t, Options{})
	defer r.close()
	r.until("the list", func(*snapshot.Snapshot) bool { return r.devices != nil })
	if s := r.tick(); len(s.GPUs)+len(s.Gaps) != 0 {
		t.Errorf("%+v", s)
	}
}

// A call that never returns, in a process of its own, since its thread cannot be had back: that GPU is stale, the other goes
// on, no further thread is spent, and the end is not held up.
func TestHang(t *testing.T) {
	if os.Getenv(envChild) == "" {
		reexec(t, "TestHang")
		return
	}
	sc := nvmltest.NewScenario(t, nvmltest.Two)
	r := &rig{t: t, Reader: New(Library(""), Options{Deadline: 300 * time.Millisecond})}
	r.until("both GPUs", read)
	sc.Set(nvmltest.Two + "0 0 power hang\n")
	s := r.until("staleness", func(s *snapshot.Snapshot) bool { return s.GPUs[0].Stale })
	at := s.GPUs[0].At
	if s.GPUs[0].Utilization == nil || at == 0 {
		t.Errorf("the last figures with their time are gone: %+v", s.GPUs[0])
	}
	threads := count(t)
	sc.Set(nvmltest.Two + "0 0 power hang\n0 1 utilization 33\n")
	for range 200 {
		r.tick()
	}
	s = r.until("the other GPU", func(s *snapshot.Snapshot) bool { return s.GPUs[1].Utilization != nil && *s.GPUs[1].Utilization == 0.33 })
	if s.GPUs[0].At != at || gaps(s)["nvml.device"] != snapshot.GapTimeout {
		t.Errorf("%+v, gaps %+v", s.GPUs[0], s.Gaps)
	}
	if n := count(t); n > threads+4 {
		t.Errorf("%d threads, %d before", n, threads)
	}
	if err := r.Close(); err == nil {
		t.Error("close says nothing of the call that hangs")
	}
}

// Loading that never returns.
func TestHangingInit(t *testing.T) {
	if os.Getenv(envChild) == "" {
		reexec(t, "TestHangingInit")
		return
	}
	nvmltest.NewScenario(t, "0 - init hang\n")
	r := &rig{t: t, Reader: New(Library(""), Options{Deadline: 200 * time.Millisecond, OpenDeadline: 300 * time.Millisecond})}
	s := r.until("the gap", func(s *snapshot.Snapshot) bool { return len(s.Gaps) > 0 })
	if s.Gaps[0].Source != "nvml" || s.Gaps[0].Reason != snapshot.GapTimeout || len(s.GPUs) != 0 {
		t.Errorf("%+v", s)
	}
	if err := r.Close(); err == nil {
		t.Error("close says nothing of the call that hangs")
	}
}

// An older library without a function: calling it would end the process.
func TestMissingSymbol(t *testing.T) {
	if os.Getenv(envChild) == "" {
		reexec(t, "TestMissingSymbol", "-DWITHOUT_TEMPERATURE")
		return
	}
	nvmltest.NewScenario(t, nvmltest.Two)
	r := &rig{t: t, Reader: New(Library(""), Options{Deadline: 30 * time.Second})}
	defer r.close()
	s := r.until("both GPUs", read)
	if s.GPUs[0].TemperatureC != nil || s.GPUs[0].PowerW == nil || gaps(s)["nvml.temperature"] != snapshot.GapUnsupported {
		t.Errorf("%+v, gaps %+v", s.GPUs[0], s.Gaps)
	}
}

// reexec runs one test in a process whose loader finds a build of the fake.
func reexec(t *testing.T, name string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := nvmltest.Build(dir, flags...); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), envChild+"="+name, "LD_LIBRARY_PATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+name)) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func count(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
