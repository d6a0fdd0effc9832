package cgroupfs

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func ptr[T any](v T) *T { return &v }

func TestCountList(t *testing.T) {
	for in, want := range map[string]int32{"": 0, "0\n": 1, "0-3": 4, "0-3,8,10-11\n": 7} {
		if got, err := CountList([]byte(in)); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"3-1", "a", "1-", "0-99999999999", ",", "1,,2"} {
		if got, err := CountList([]byte(in)); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestParseCPUMax(t *testing.T) {
	for in, want := range map[string]*float64{"max 100000\n": nil, "200000 100000\n": ptr(2.0), "50000 100000": ptr(0.5), "max\n": nil} {
		got, err := ParseCPUMax([]byte(in))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", in, err, diff)
		}
	}
	for _, in := range []string{"", "1", "1 0", "-1 100000"} {
		if _, err := ParseCPUMax([]byte(in)); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestParseCPUStat(t *testing.T) {
	v2 := "usage_usec 1000\nuser_usec 1\nsystem_usec 2\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2500\nnr_bursts 0\n"
	v1 := "nr_periods 10\nnr_throttled 4\nthrottled_time 2500000\n"
	want := snapshot.CgroupCPU{Periods: 10, Throttled: 4, ThrottledTime: 2500 * time.Microsecond}
	var got snapshot.CgroupCPU
	if err := ParseCPUStat([]byte(v1), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want.Usage, got = ptr(time.Millisecond), snapshot.CgroupCPU{}
	if err := ParseCPUStat([]byte(v2), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseIO(t *testing.T) {
	t.Run("io.stat with a device that has no figures, on its own line and before another", func(t *testing.T) {
		table := ioTable{}
		if err := table.parseStat([]byte("8:16 \n253:0 8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.vrate=100.00\n")); err != nil {
			t.Fatal(err)
		}
		want := []snapshot.CgroupDeviceIO{{Device: "253:0"}, {Device: "8:0", ReadBytes: ptr(uint64(1)), WriteBytes: ptr(uint64(2)), ReadOps: ptr(uint64(3)), WriteOps: ptr(uint64(4))}, {Device: "8:16"}}
		if diff := cmp.Diff(want, table.sorted()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("io.max, the tighter of two", func(t *testing.T) {
		table := ioTable{}
		for _, text := range []string{"8:0 rbps=max wbps=300 riops=max wiops=9\n", "8:0 rbps=max wbps=200 riops=max wiops=20\n"} {
			if err := table.parseMax([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		want := []snapshot.CgroupDeviceIO{{Device: "8:0", WriteBPS: ptr(uint64(200)), WriteIOPS: ptr(uint64(9))}}
		if diff := cmp.Diff(want, table.sorted()); diff != "" {
			t.Error(diff)
		}
	})
	for _, in := range []string{"rbytes=1", "sda rbytes=1", "8 rbytes=1"} {
		if err := (ioTable{}).parseStat([]byte(in)); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if err := (ioTable{}).parseV1([]byte("7:0 Read x\n"), v1Bytes); !errors.Is(err, kernfile.ErrMalformed) {
		t.Errorf("v1: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("8:0 rbytes=1 wbytes=2\n"))
	f.Add([]byte("usage_usec 1000\nnr_throttled 4\n"))
	f.Add([]byte("7:0 Read 123\nTotal 0\n"))
	f.Add([]byte("0-3,8\n"))
	f.Add([]byte("low 0\noom_kill 3\n"))
	f.Add([]byte("200000 100000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c snapshot.CgroupCPU
		if err := ParseCPUStat(b, &c); err == nil && c.ThrottledTime < 0 {
			t.Fatalf("negative: %+v", c)
		}
		if limit, err := ParseCPUMax(b); err == nil && limit != nil && *limit < 0 {
			t.Fatalf("negative: %v", *limit)
		}
		if n, err := CountList(b); err == nil && n < 0 {
			t.Fatalf("negative: %d", n)
		}
		_, _ = ParseEvents(b)
		table := ioTable{}
		_ = table.parseStat(b)
		_ = table.parseMax(b)
		_ = table.parseV1(b, v1Ops)
	})
}
