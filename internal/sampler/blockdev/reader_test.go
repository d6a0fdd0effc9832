package blockdev

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// line is a diskstats line with some reads of 1 sector each.
func line(major, minor int, name string, reads int) string {
	return fmt.Sprintf("%4d %7d %s %d 0 %d 0 0 0 0 0 0 0 0\n", major, minor, name, reads, reads)
}

// mdOnNVMe is two NVMe disks with a partition each, an md mirror of the partitions, a volume on it, a loop device with a
// file on that volume, and a loop device without a file.
func mdOnNVMe() map[string]string {
	return map[string]string{
		"sys/dev/block/259:0":                               "-> ../../devices/nvme0n1",
		"sys/dev/block/259:1":                               "-> ../../devices/nvme0n1/nvme0n1p1",
		"sys/dev/block/259:2":                               "-> ../../devices/nvme1n1",
		"sys/dev/block/259:3":                               "-> ../../devices/nvme1n1/nvme1n1p1",
		"sys/dev/block/9:0":                                 "-> ../../devices/virtual/block/md0",
		"sys/dev/block/253:0":                               "-> ../../devices/virtual/block/dm-0",
		"sys/dev/block/7:0":                                 "-> ../../devices/virtual/block/loop0",
		"sys/dev/block/7:1":                                 "-> ../../devices/virtual/block/loop1",
		"sys/dev/block/104:0":                               "-> ../../devices/cciss!c0d0",
		"sys/block/dm-0":                                    "-> ../devices/virtual/block/dm-0",
		"sys/devices/nvme0n1/size":                          "100\n",
		"sys/devices/nvme0n1/slaves/":                       "",
		"sys/devices/nvme0n1/nvme0n1p1/partition":           "1\n",
		"sys/devices/nvme0n1/nvme0n1p1/size":                "90\n",
		"sys/devices/nvme1n1/size":                          "100\n",
		"sys/devices/nvme1n1/nvme1n1p1/partition":           "1\n",
		"sys/devices/nvme1n1/nvme1n1p1/size":                "90\n",
		"sys/devices/virtual/block/md0/size":                "80\n",
		"sys/devices/virtual/block/md0/slaves/nvme1n1p1":    "-> x",
		"sys/devices/virtual/block/md0/slaves/nvme0n1p1":    "-> x",
		"sys/devices/virtual/block/dm-0/size":               "70\n",
		"sys/devices/virtual/block/dm-0/dm/name":            "vg-data\n",
		"sys/devices/virtual/block/dm-0/slaves/md0":         "-> x",
		"sys/devices/virtual/block/loop0/size":              "60\n",
		"sys/devices/virtual/block/loop0/loop/backing_file": "/data/image (deleted)\n",
		"sys/devices/virtual/block/loop1/size":              "0\n",
		"sys/devices/cciss!c0d0/size":                       "100\n",
		"proc/diskstats": line(259, 0, "nvme0n1", 10) + line(259, 1, "nvme0n1p1", 10) + line(259, 2, "nvme1n1", 7) + line(259, 3, "nvme1n1p1", 7) +
			line(9, 0, "md0", 17) + line(253, 0, "dm-0", 17) + line(7, 0, "loop0", 17) + line(7, 1, "loop1", 0) + line(8, 0, "sdq", 0),
	}
}

func TestStackCountsOnce(t *testing.T) {
	root := hosttest.Tree(t, mdOnNVMe())
	holder := func(path string) string {
		if path == "/data/image" {
			return "dm-0"
		}
		return ""
	}
	r := New(filepath.Join(root, "proc"), Topology{Sysfs: filepath.Join(root, "sys"), HolderOf: holder})
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(time.Second, &s)
	below := map[string][]string{}
	var sum uint64
	for _, d := range s.Devices {
		below[d.Name] = d.Below
		if len(d.Below) == 0 {
			sum += d.ReadBytes
		}
		if d.At != time.Second {
			t.Errorf("%s read at %v", d.Name, d.At)
		}
	}
	want := map[string][]string{
		"nvme0n1": nil, "nvme1n1": nil, "nvme0n1p1": {"nvme0n1"}, "nvme1n1p1": {"nvme1n1"},
		"md0": {"nvme0n1p1", "nvme1n1p1"}, "dm-0": {"md0"}, "loop0": {"dm-0"},
		"sdq": nil, // not in sysfs, so not known to be empty
	}
	if diff := cmp.Diff(want, below); diff != "" {
		t.Error(diff)
	}
	if sum != 17*512 {
		t.Errorf("sum of the lowest level %d bytes, want %d", sum, 17*512)
	}
}

func TestTopologyNames(t *testing.T) {
	top := Topology{Sysfs: filepath.Join(hosttest.Tree(t, mdOnNVMe()), "sys")}
	for n, want := range map[Number]string{{259, 1}: "nvme0n1p1", {253, 0}: "dm-0", {253, 9}: "253:9", {104, 0}: "cciss/c0d0"} {
		if got := top.Name(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
	if got, ok := top.ByMapperName("vg-data"); !ok || got != "dm-0" {
		t.Errorf("vg-data is %q, %v", got, ok)
	}
	if got, ok := top.ByMapperName("vg"); ok {
		t.Errorf("vg is %q", got)
	}
}

// With thousands of devices those that move are kept, with what they stand on.
func TestBound(t *testing.T) {
	files := mdOnNVMe()
	var other strings.Builder
	for i := range 300 {
		other.WriteString(line(8, i, fmt.Sprintf("sd%d", i), 5))
	}
	before := other.String() + files["proc/diskstats"]
	files["proc/diskstats"] = before
	root := hosttest.Tree(t, files)
	r := New(filepath.Join(root, "proc"), Topology{Sysfs: filepath.Join(root, "sys")})
	defer r.Close()
	r.Read(time.Second, &snapshot.Snapshot{})
	hosttest.Write(t, filepath.Join(root, "proc/diskstats"), strings.Replace(before, line(9, 0, "md0", 17), line(9, 0, "md0", 18), 1))
	var s snapshot.Snapshot
	r.Read(2*time.Second, &s)
	if len(s.Devices) != maxDevices || len(s.Gaps) != 1 || s.Gaps[0].Reason != snapshot.GapTruncated {
		t.Fatalf("%d devices, gaps %+v", len(s.Devices), s.Gaps)
	}
	var first []string
	for _, d := range s.Devices[:5] {
		first = append(first, d.Name)
	}
	if diff := cmp.Diff([]string{"md0", "nvme0n1p1", "nvme1n1p1", "nvme0n1", "nvme1n1"}, first); diff != "" {
		t.Error(diff)
	}
}

func TestNoDiskstats(t *testing.T) {
	var s snapshot.Snapshot
	New(t.TempDir(), Topology{}).Read(0, &s)
	if len(s.Devices) != 0 || len(s.Gaps) != 1 || s.Gaps[0].Reason != snapshot.GapUnsupported {
		t.Errorf("%+v", s)
	}
}

// Reads and writes of a known size on a device of our own, beside what iostat makes of them.
func TestBesideIostat(t *testing.T) {
	if _, err := exec.LookPath("iostat"); err != nil {
		t.Skip("iostat (sysstat) is not installed")
	}
	dev := hosttest.Loop(t, 64<<20)
	name := filepath.Base(dev)
	r := New("/proc", Topology{Sysfs: "/sys"})
	defer r.Close()
	read := func() snapshot.Device {
		var s snapshot.Snapshot
		r.Read(0, &s)
		for _, d := range s.Devices {
			if d.Name == name {
				return d
			}
		}
		t.Fatalf("%s is not shown: %+v", name, s.Gaps)
		return snapshot.Device{}
	}
	iostat := exec.Command("iostat", "-d", "-x", "-y", "-o", "JSON", name, "4", "1")
	out, err := iostat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := read()
	hosttest.Start(t, iostat)
	// Well inside iostat's four seconds, however slow its start is.
	time.Sleep(time.Second)
	copyDirect(t, dev)
	var report struct {
		Sysstat struct {
			Hosts []struct {
				Statistics []struct {
					Disk []map[string]any `json:"disk"`
				} `json:"statistics"`
			} `json:"hosts"`
		} `json:"sysstat"`
	}
	if err := json.NewDecoder(out).Decode(&report); err != nil {
		t.Fatal(err)
	}
	after := read()
	disk := report.Sysstat.Hosts[0].Statistics[0].Disk[0]
	figure := func(key string) float64 { v, _ := disk[key].(float64); return v }
	near := func(what string, got, want, slack float64) {
		t.Helper()
		if math.Abs(got-want) > slack {
			t.Errorf("%s: %.2f, iostat says %.2f", what, got, want)
		}
	}
	if got := after.ReadBytes - before.ReadBytes; got != 16<<20 {
		t.Errorf("read %d bytes, want %d", got, 16<<20)
	}
	if got := after.WriteBytes - before.WriteBytes; got != 8<<20 {
		t.Errorf("wrote %d bytes, want %d", got, 8<<20)
	}
	reads := float64(after.Reads - before.Reads)
	near("bytes per second read", float64(after.ReadBytes-before.ReadBytes)/4/1024, figure("rkB/s"), figure("rkB/s")*0.02)
	near("bytes per second written", float64(after.WriteBytes-before.WriteBytes)/4/1024, figure("wkB/s"), figure("wkB/s")*0.02)
	near("reads per second", reads/4, figure("r/s"), figure("r/s")*0.02+0.01)
	near("read await, ms", float64((after.ReadTime-before.ReadTime).Milliseconds())/reads, figure("r_await"), 0.02)
	near("busy, percent", (after.IOTime-before.IOTime).Seconds()/4*100, figure("util"), 1)
}

// copyDirect reads 16 MiB and writes 8 MiB past the page cache.
func copyDirect(t *testing.T, dev string) {
	t.Helper()
	buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(buf) }()
	f, err := os.OpenFile(dev, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range int64(16) {
		if _, err := f.ReadAt(buf, i<<20); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(8) {
		if _, err := f.WriteAt(buf, (32+i)<<20); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	r := New("/proc", Topology{Sysfs: "/sys"})
	defer r.Close()
	b.ReportAllocs()
	var now time.Duration
	for b.Loop() {
		now += time.Second
		var s snapshot.Snapshot
		r.Read(now, &s)
	}
}
