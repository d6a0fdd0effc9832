package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	statText = `cpu  27784 15547 13380 305469 729 3 197 131 11 2
cpu0 12862 7985 5944 154682 65 0 36 61 0 0
cpu3 14921 7561 7436 150787 663 0 161 70 0 0
intr 1226846 0 0
ctxt 99
`
	meminfoText = `MemTotal:       49367360 kB
MemFree:        40000000 kB
MemAvailable:   44000000 kB
Buffers:          100 kB
Cached:           200 kB
SwapCached:       999 kB
SwapTotal:        10 kB
SwapFree:         4 kB
Dirty:            300 kB
Writeback:        5 kB
Shmem:            7 kB
HugePages_Total:       0
`
	vmstatText = "nr_free_pages 1\npswpin 3\npswpout 4\npgmajfault 55\n"
)

func fakeProc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := fakeProc(t, map[string]string{
		"stat": statText, "meminfo": meminfoText, "vmstat": vmstatText, "sys/kernel/task_delayacct": "0\n",
		"pressure/io": "some total=1\n", "pressure/cpu": "some total=2\n", "pressure/memory": "some total=3\n",
	})
	r := New(dir)
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(7*time.Second, &s)
	off := false
	want := &snapshot.Host{
		At: 7 * time.Second, CPUs: 2, User: 43331 * tick, System: 13580 * tick, Idle: 305469 * tick, IOWait: 729 * tick, Steal: 131 * tick,
		MemTotal: 49367360 << 10, MemFree: 40000000 << 10, MemAvailable: 44000000 << 10, Buffers: 100 << 10, Cached: 200 << 10,
		Shmem: 7 << 10, Dirty: 300 << 10, Writeback: 5 << 10, SwapTotal: 10 << 10, SwapFree: 4 << 10, SwapIn: 3, SwapOut: 4, MajFaults: 55,
		DelayAcct: &off,
	}
	if diff := cmp.Diff(want, s.Host); diff != "" {
		t.Error(diff)
	}
	if len(s.Pressure) != 3 || len(s.Gaps) != 0 {
		t.Errorf("pressure %+v, gaps %+v", s.Pressure, s.Gaps)
	}
}

// A container's /proc with pieces missing: what is there is shown, what is not is said.
func TestReadPartly(t *testing.T) {
	r := New(fakeProc(t, map[string]string{"stat": statText, "meminfo": "MemTotal: 5 kB\nDirty: x kB\n"}))
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(0, &s)
	if s.Host == nil || s.Host.CPUs != 2 || s.Host.DelayAcct != nil {
		t.Fatalf("host %+v", s.Host)
	}
	var got []string
	for _, g := range s.Gaps {
		got = append(got, g.Source+" "+string(g.Reason))
	}
	want := []string{"host.meminfo malformed", "host.vmstat unsupported", "psi.io unsupported", "psi.cpu unsupported", "psi.memory unsupported"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s = snapshot.Snapshot{}
	New(t.TempDir()).Read(0, &s)
	if s.Host != nil {
		t.Errorf("a host of zeros without /proc/stat: %+v", s.Host)
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, in := range []string{"", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4\n", "cpu  1 2 3 -4 5\n", "cpu 1 2 3 18446744073709551615\n", "intr 1\n"} {
		if err := ParseStat([]byte(in), &snapshot.Host{}); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %v", in, err)
		}
	}
	var h snapshot.Host
	if err := ParseStat([]byte("cpu 1 2 3 4\n"), &h); err != nil || h.Idle != 4*tick {
		t.Errorf("four columns: %+v, %v", h, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(statText))
	f.Add([]byte(meminfoText))
	f.Add([]byte(vmstatText))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h snapshot.Host
		if err := ParseStat(b, &h); err == nil && (h.User < 0 || h.System < 0 || h.Idle < 0 || h.CPUs < 0) {
			t.Fatalf("negative: %+v", h)
		}
		_ = ParseMeminfo(b, &h)
		_ = ParseVmstat(b, &h)
	})
}

// The live files, between two readings of another library.
func TestReadBesideProcfs(t *testing.T) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	before, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r := New("/proc")
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(0, &s)
	after, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	mem, err := fs.Meminfo()
	if err != nil {
		t.Fatal(err)
	}
	if s.Host == nil {
		t.Fatalf("no host: %+v", s.Gaps)
	}
	within := func(what string, got time.Duration, lo, hi float64) {
		t.Helper()
		if g := got.Seconds(); g < lo-0.011 || g > hi+0.011 {
			t.Errorf("%s %.2f s, want between %.2f and %.2f", what, g, lo, hi)
		}
	}
	b, a := before.CPUTotal, after.CPUTotal
	within("user", s.Host.User, b.User+b.Nice, a.User+a.Nice)
	within("system", s.Host.System, b.System+b.IRQ+b.SoftIRQ, a.System+a.IRQ+a.SoftIRQ)
	within("idle", s.Host.Idle, b.Idle, a.Idle)
	within("steal", s.Host.Steal, b.Steal, a.Steal)
	if int(s.Host.CPUs) != len(after.CPU) {
		t.Errorf("%d CPUs, want %d", s.Host.CPUs, len(after.CPU))
	}
	if s.Host.MemTotal != *mem.MemTotal*1024 {
		t.Errorf("MemTotal %d, want %d kB", s.Host.MemTotal, *mem.MemTotal)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New("/proc")
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		var s snapshot.Snapshot
		r.Read(0, &s)
	}
}
