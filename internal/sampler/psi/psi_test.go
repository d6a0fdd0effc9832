package psi

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func TestParse(t *testing.T) {
	io := snapshot.Pressure{Scope: "system", Resource: "io"}
	some := snapshot.Pressure{Scope: "system", Resource: "io", Kind: "some", Total: 4108226 * time.Microsecond}
	full := snapshot.Pressure{Scope: "system", Resource: "io", Kind: "full", Total: 0}
	for _, c := range []struct {
		name, in  string
		want      []snapshot.Pressure
		malformed bool
	}{
		{"both", "some avg10=3.56 avg60=0.75 avg300=0.20 total=4108226\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", []snapshot.Pressure{some, full}, false},
		{"some alone, as cpu before 5.13", "some avg10=3.56 avg60=0.75 avg300=0.20 total=4108226\n", []snapshot.Pressure{some}, false},
		{"full alone, as irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", []snapshot.Pressure{full}, false},
		{"a kind to come", "some total=4108226\npart total=1\n", []snapshot.Pressure{some}, false},
		{"empty", "", nil, true},
		{"no total", "some avg10=1\n", nil, true},
		{"cut", "some avg10=0.00 avg60=0.00 avg300=0.00 total=\n", nil, true},
		{"one bad line spoils it", "some total=4108226\nfull total=-1\n", nil, true},
		{"too large for a duration", "some total=18446744073709551615\n", nil, true},
	} {
		got, err := Parse(nil, []byte(c.in), io)
		if errors.Is(err, kernfile.ErrMalformed) != c.malformed {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"))
	f.Add([]byte("full total=\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Parse(nil, b, snapshot.Pressure{})
		if err == nil && len(got) == 0 {
			t.Fatal("neither a figure nor an error")
		}
		for _, p := range got {
			if p.Total < 0 {
				t.Fatalf("negative: %+v", p)
			}
		}
	})
}

// The machine's own files, against another library's reading of them.
func TestSystemBesideProcfs(t *testing.T) {
	if _, err := os.ReadFile("/proc/pressure/io"); err != nil {
		t.Skipf("this kernel gives no pressure: %v", err)
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	before, err := fs.PSIStatsForResource("cpu")
	if err != nil {
		t.Fatal(err)
	}
	r := System("/proc")
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(0, &s)
	after, err := fs.PSIStatsForResource("cpu")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) > 0 {
		t.Fatalf("gaps: %+v", s.Gaps)
	}
	for _, p := range s.Pressure {
		if p.Resource != "cpu" || p.Kind != "some" {
			continue
		}
		lo, hi := time.Duration(before.Some.Total)*time.Microsecond, time.Duration(after.Some.Total)*time.Microsecond
		if p.Total < lo || p.Total > hi {
			t.Errorf("cpu some: %v, want between %v and %v", p.Total, lo, hi)
		}
		return
	}
	t.Errorf("no cpu some in %+v", s.Pressure)
}

func TestAbsentIsUnsupported(t *testing.T) {
	var s snapshot.Snapshot
	System(t.TempDir()).Read(0, &s)
	if len(s.Pressure) != 0 || len(s.Gaps) != 3 || s.Gaps[0].Source != "psi.io" || s.Gaps[0].Reason != snapshot.GapUnsupported {
		t.Errorf("%+v", s)
	}
}

func TestCgroupNames(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "io.pressure"), []byte("some total=5\nfull total=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s snapshot.Snapshot
	Cgroup(dir).Read(0, &s)
	want := []snapshot.Pressure{
		{Scope: "cgroup", Resource: "io", Kind: "some", Total: 5 * time.Microsecond},
		{Scope: "cgroup", Resource: "io", Kind: "full", Total: 2 * time.Microsecond},
	}
	if diff := cmp.Diff(want, s.Pressure); diff != "" {
		t.Error(diff)
	}
	if len(s.Gaps) != 2 || s.Gaps[0].Source != "psi.cgroup.cpu" {
		t.Errorf("gaps: %+v", s.Gaps)
	}
}
