package model

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func TestRates(t *testing.T) {
	used := func(d time.Duration) *time.Duration { return &d }
	const ms = time.Millisecond
	first := &snapshot.Snapshot{
		Mono:     time.Second,
		Host:     &snapshot.Host{CPUs: 2, User: 1 * time.Second, Idle: 10 * time.Second},
		Devices:  []snapshot.Device{{Name: "vda", At: time.Second, Reads: 100, ReadBytes: 1 << 20, ReadTime: 500 * ms}, {Name: "vdb", At: time.Second, Reads: 9}},
		Pressure: []snapshot.Pressure{{Scope: "system", Resource: "io", Kind: "some", Total: 100 * ms}},
		Network:  []snapshot.NetIO{{NS: "net:[1]", At: time.Second, RxBytes: 1000}},
		Cgroup: &snapshot.Cgroup{Path: "/job", At: time.Second, CPU: &snapshot.CgroupCPU{Periods: 10, Usage: used(time.Second)},
			Memory: &snapshot.CgroupMemory{Events: map[string]uint64{"oom_kill": 1, "max": 5}}},
	}
	second := &snapshot.Snapshot{
		Mono: 3 * time.Second,
		Host: &snapshot.Host{CPUs: 2, User: 2 * time.Second, Idle: 12 * time.Second, IOWait: 1 * time.Second},
		Devices: []snapshot.Device{
			{Name: "vda", At: 3 * time.Second, Reads: 300, ReadBytes: 5 << 20, ReadTime: 900 * ms, IOTime: 1000 * ms, Weighted: 400 * ms},
			{Name: "vdb", At: 3 * time.Second, Reads: 8}, // came back after it was gone
			{Name: "vdc", At: 3 * time.Second, Reads: 5}, // new
		},
		Pressure: []snapshot.Pressure{{Scope: "system", Resource: "io", Kind: "some", Total: 600 * ms}},
		Network:  []snapshot.NetIO{{NS: "net:[1]", At: 3 * time.Second, RxBytes: 5000}},
		Cgroup: &snapshot.Cgroup{Path: "/job", At: 3 * time.Second,
			CPU:    &snapshot.CgroupCPU{Periods: 30, Throttled: 5, ThrottledTime: 500 * ms, Usage: used(4 * time.Second)},
			Memory: &snapshot.CgroupMemory{Events: map[string]uint64{"oom_kill": 3, "max": 5}}},
	}
	b := NewBuilder(BuilderConfig{})
	if f := b.Add(first); f.Host != nil || f.Cgroup != nil || f.Devices != nil || f.Pressure != nil || f.Network != nil {
		t.Errorf("the first frame has rates: %+v", f)
	}
	f := b.Add(second)
	wantDev := []DeviceRate{{Device: &second.Devices[0], Elapsed: 2 * time.Second, ReadBPS: 2 << 20, ReadIOPS: 100, Busy: 0.5,
		ReadAwait: 2 * ms, QueueDepth: 0.2, RequestSize: 4 << 20 / 200.}}
	if d := cmp.Diff(wantDev, f.Devices); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&HostRate{Host: second.Host, UserShare: 0.25, IdleShare: 0.5, IOWaitShare: 0.25}, f.Host); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
	cpus := 1.5
	wantGroup := &CgroupRate{Cgroup: second.Cgroup, ThrottledShare: 0.25, PeriodsShare: 0.25, CPUs: &cpus, NewEvents: map[string]uint64{"oom_kill": 2}}
	if d := cmp.Diff(wantGroup, f.Cgroup); d != "" {
		t.Errorf("cgroup (-want +got):\n%s", d)
	}
	if len(f.Pressure) != 1 || f.Pressure[0].Share != 0.25 {
		t.Errorf("pressure: %+v", f.Pressure)
	}
	if len(f.Network) != 1 || f.Network[0].RxBPS != 2000 {
		t.Errorf("network: %+v", f.Network)
	}
}
