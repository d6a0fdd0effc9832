package otelio

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/semconv/v1.43.0/hwconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/processconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/systemconv"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func ptr[T any](v T) *T { return &v }

// fullFrame is testFrame with everything that can be known.
func fullFrame(n int) *model.Frame {
	f := testFrame(n)
	for i := range f.Totals {
		x := &f.Totals[i]
		x.HasSched, x.HasDelay, x.HasFDs = true, true, true
		x.Blocked, x.RunQueue, x.Storage, x.FDs = time.Second, time.Second, time.Second, 7
	}
	f.Procs = []model.Proc{{ID: rank0, Identity: model.Identity{Role: model.RoleRank, Rank: 0, LocalRank: 0}, Info: &snapshot.ProcInfo{}}}
	f.GPUUse = []model.GPUUse{{ID: rank0, UUIDs: []string{"GPU-1"}}}
	io := uint64(n) << 20
	f.Raw = &snapshot.Snapshot{
		Host:     &snapshot.Host{User: time.Duration(n) * time.Second, MemTotal: 1 << 30, MemFree: 1 << 29},
		Devices:  []snapshot.Device{{Name: "vda", Major: 254, ReadBytes: io}, {Name: "vda1", Major: 254, Minor: 1, ReadBytes: io, Below: []string{"vda"}}},
		Network:  []snapshot.NetIO{{NS: "net:[1]", Interfaces: []snapshot.Interface{{Name: "eth0", RxBytes: io, TxBytes: io}}}},
		Pressure: []snapshot.Pressure{{Scope: "system", Resource: "io", Kind: "some", Total: time.Second}},
		Mounts:   []snapshot.Mount{{Mountpoint: "/data", FSType: "ext4", Space: &snapshot.Space{Total: 100, Free: 60, Available: 50}}},
		Cgroup: &snapshot.Cgroup{
			CPU:    &snapshot.CgroupCPU{Limit: ptr(1.5), ThrottledTime: time.Second},
			Memory: &snapshot.CgroupMemory{Limit: ptr(uint64(1 << 30)), Usage: 1 << 20, Events: map[string]uint64{"oom_kill": 0}},
			IO:     &snapshot.CgroupIO{Devices: []snapshot.CgroupDeviceIO{{Device: "254:0", ReadBytes: &io}}},
		},
		GPUs: []snapshot.GPU{{UUID: "GPU-1", Name: "H200", Utilization: ptr(0.3), MemUsed: ptr(uint64(1)), MemTotal: ptr(uint64(2)), PowerW: ptr(100.0),
			TemperatureC: ptr(40.0), PCIeRxBPS: ptr(uint64(1000)), ECCCorrected: ptr(uint64(0))}},
		Self: &snapshot.Self{CPU: time.Duration(n) * time.Millisecond, RSS: 1 << 20, Sample: time.Millisecond, Dropped: map[string]uint64{"recording": 1}},
		Gaps: []snapshot.Gap{{Source: "nvml", Reason: snapshot.GapUnsupported}},
	}
	return f
}

// fullFindings are a checkpoint, the stall that it caused and where the time went.
func fullFindings(kind detect.EventKind) *detect.Findings {
	in := detect.Interval{ID: 7, Rank: 0, OfRank: rank0, Start: mono0 + 2*time.Second, End: mono0 + 4*time.Second, Evidence: []string{"e"}, Caveats: []string{"c"}}
	c := &detect.Checkpoint{Interval: in, Path: "/data/model.pt", Files: 1, Size: 1 << 30, Blocked: time.Second, Durable: ptr(true), FSType: "ext4", Mountpoint: "/data", Device: "vda"}
	in.ID = 8
	s := &detect.Stall{Interval: in, Phase: detect.PhaseCheckpoint, Cause: detect.CauseCheckpoint, Lost: time.Second, Culprit: "rank 0", Confidence: model.ConfidenceHigh, Checkpoint: 7}
	return &detect.Findings{
		Events: []detect.Event{
			{Kind: kind, At: mono0 + 4*time.Second, Checkpoint: c},
			{Kind: kind, At: mono0 + 4*time.Second, Stall: s},
		},
		Budgets: []detect.Budget{{Rank: 0, OfRank: rank0, Time: map[detect.Phase]time.Duration{detect.PhaseCompute: time.Second}}},
	}
}

// runEverything makes a run folder in which everything is known.
func runEverything(t *testing.T) string {
	t.Helper()
	dir, proc := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	cgroup := "0::/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796/" + strings.Repeat("a1b2", 16) + "\n"
	if err := os.WriteFile(filepath.Join(proc, "self/cgroup"), []byte(cgroup), 0o644); err != nil {
		t.Fatal(err)
	}
	run := testRun()
	run.Trace.JobID, run.Trace.EmitRoot = "job-1", ptr(true)
	s, err := New(t.Context(), Config{Run: run, Dir: dir, Lookup: env(), Procfs: proc, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Consume(fullFrame(3), fullFindings(detect.Opened))
	s.Consume(fullFrame(4), fullFindings(detect.Closed))
	last := fullFrame(5)
	last.Ranks[0].End, last.Ranks[0].Status = mono0+5*time.Second, &snapshot.ExitStatus{Signal: 9}
	s.Consume(last, nil)
	if err := closeWithin(t, s, 20*time.Second, 6); err != nil {
		t.Fatal(err)
	}
	return dir
}

// published is what a run folder shows of names, in the form of the contract.
func published(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, m := range readRequests(t, dir, metrics) {
		for _, rm := range m.(*colmetrics.ExportMetricsServiceRequest).ResourceMetrics {
			out["resource"] = keys(rm.Resource.Attributes)
			for _, sm := range rm.ScopeMetrics {
				for _, x := range sm.Metrics {
					kind, attrs := describeMetric(x)
					out[fmt.Sprintf("metric %s %s %s", x.Name, kind, x.Unit)] = attrs
				}
			}
		}
	}
	names := map[string]string{"": "none"}
	var all []*tracepb.Span
	for _, m := range readRequests(t, dir, traces) {
		for _, rs := range m.(*coltrace.ExportTraceServiceRequest).ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					names[string(s.SpanId)] = s.Name
					all = append(all, s)
				}
			}
		}
	}
	for _, s := range all {
		if attributesOf(s.Attributes)["ptlaunch.span.final"] == true {
			out["span "+s.Name+" "+names[string(s.ParentSpanId)]] = keys(s.Attributes)
		}
	}
	return out
}

func keys(kv []*commonpb.KeyValue) []string {
	var out []string
	for _, a := range kv {
		out = append(out, a.Key)
	}
	return out
}

// describeMetric returns the kind of a metric and the attributes of all its points.
func describeMetric(m *metricspb.Metric) (Kind, []string) {
	var attrs []string
	number := func(points []*metricspb.NumberDataPoint) {
		for _, p := range points {
			attrs = append(attrs, keys(p.Attributes)...)
		}
	}
	switch d := m.Data.(type) {
	case *metricspb.Metric_Sum:
		number(d.Sum.DataPoints)
		if d.Sum.IsMonotonic {
			return Counter, attrs
		}
		return Level, attrs
	case *metricspb.Metric_Gauge:
		number(d.Gauge.DataPoints)
		return Gauge, attrs
	case *metricspb.Metric_Histogram:
		for _, p := range d.Histogram.DataPoints {
			attrs = append(attrs, keys(p.Attributes)...)
		}
		return Histogram, attrs
	}
	return "", attrs
}

func TestContract(t *testing.T) {
	got := published(t, runEverything(t))
	b, err := os.ReadFile("testdata/contract.txt")
	if err != nil {
		t.Fatal(err)
	}
	heads := map[string]int{"metric": 4, "span": 3, "resource": 1}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		n := heads[f[0]]
		attrs, ok := got[strings.Join(f[:n], " ")]
		if !ok {
			t.Errorf("not published: %s", strings.Join(f[:n], " "))
			continue
		}
		for _, a := range f[n:] {
			if !slices.Contains(attrs, a) {
				t.Errorf("%s lacks %s; it has %v", strings.Join(f[:n], " "), a, attrs)
			}
		}
	}
}

// conventional is what the generated instruments of the semantic conventions tell of themselves.
type conventional interface {
	Name() string
	Unit() string
}

// TestConventions: names that the semantic conventions define have their units and kinds.
func TestConventions(t *testing.T) {
	m := noop.Meter{}
	made := func(c conventional, err error) conventional {
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	known := map[string]Metric{}
	for _, x := range []struct {
		kind Kind
		c    conventional
	}{
		{Counter, made(processconv.NewCPUTime(m))},
		{Level, made(processconv.NewMemoryUsage(m))},
		{Level, made(processconv.NewMemoryVirtual(m))},
		{Counter, made(processconv.NewDiskIO(m))},
		{Counter, made(processconv.NewPagingFaults(m))},
		{Level, made(processconv.NewThreadCount(m))},
		{Level, made(processconv.NewUnixFileDescriptorCount(m))},
		{Counter, made(systemconv.NewDiskIO(m))},
		{Counter, made(systemconv.NewDiskOperations(m))},
		{Counter, made(systemconv.NewDiskOperationTime(m))},
		{Counter, made(systemconv.NewDiskMerged(m))},
		{Counter, made(systemconv.NewDiskIOTime(m))},
		{Counter, made(systemconv.NewCPUTime(m))},
		{Level, made(systemconv.NewMemoryUsage(m))},
		{Counter, made(systemconv.NewNetworkIO(m))},
		{Level, made(systemconv.NewFilesystemUsage(m))},
		{Gauge, made(hwconv.NewGpuUtilization(m))},
		{Level, made(hwconv.NewGpuMemoryUsage(m))},
		{Level, made(hwconv.NewGpuMemoryLimit(m))},
		{Gauge, made(hwconv.NewPower(m))},
		{Gauge, made(hwconv.NewTemperature(m))},
		{Counter, made(hwconv.NewGpuIO(m))},
		{Counter, made(hwconv.NewErrors(m))},
	} {
		known[x.c.Name()] = Metric{Name: x.c.Name(), Unit: x.c.Unit(), Kind: x.kind}
	}
	for _, m := range Catalogue() {
		if strings.HasPrefix(m.Name, "pytorch.") || strings.HasPrefix(m.Name, "ptlaunch.") {
			continue
		}
		want, ok := known[m.Name]
		if !ok {
			t.Errorf("%s is no name of the conventions", m.Name)
			continue
		}
		if m.Unit != want.Unit || m.Kind != want.Kind {
			t.Errorf("%s is %s %s, the conventions have %s %s", m.Name, m.Kind, m.Unit, want.Kind, want.Unit)
		}
	}
}
