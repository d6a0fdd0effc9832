package otelio

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// exports returns the values of a counter or level, one map from attributes to value per export.
func exports(t *testing.T, dir, name string) []map[string]float64 {
	t.Helper()
	var out []map[string]float64
	eachExport(t, dir, func(m *metricspb.Metric) {
		if m.Name != name {
			return
		}
		points := m.GetSum().GetDataPoints()
		if points == nil {
			points = m.GetGauge().GetDataPoints()
		}
		values := map[string]float64{}
		for _, p := range points {
			v := p.GetAsDouble()
			if x, ok := p.Value.(*metricspb.NumberDataPoint_AsInt); ok {
				v = float64(x.AsInt)
			}
			values[seriesName(p)] = v
		}
		out = append(out, values)
	})
	return out
}

func eachExport(t *testing.T, dir string, f func(*metricspb.Metric)) {
	t.Helper()
	for _, m := range readRequests(t, dir, metrics) {
		for _, rm := range m.(*colmetrics.ExportMetricsServiceRequest).ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, x := range sm.Metrics {
					f(x)
				}
			}
		}
	}
}

func seriesName(p *metricspb.NumberDataPoint) string {
	var parts []string
	for _, a := range p.Attributes { // the SDK keeps them sorted by key
		parts = append(parts, fmt.Sprint(plainValue(a.Value)))
	}
	return strings.Join(parts, " ")
}

// TestTotalsNeverGoDown: a process's total that the model takes back, and a device's counter that begins again.
func TestTotalsNeverGoDown(t *testing.T) {
	reads := []uint64{100, 300, 250, 400}
	device := []uint64{1000, 1500, 200, 300} // replugged after the second
	dir := runOf(t, nil, func(s *Sink) {
		for i := range reads {
			f := testFrame(1 + 10*i)
			f.Totals[0].RChar = reads[i]
			f.Raw.Devices = []snapshot.Device{{Name: "sda", ReadBytes: device[i]}}
			s.Consume(f, nil)
		}
	}, outcome(40, snapshot.ExitStatus{}))
	var gotReads, gotDevice []float64
	for _, e := range exports(t, dir, "pytorch.process.io") {
		gotReads = append(gotReads, e["read 0 rank"])
	}
	for _, e := range exports(t, dir, "system.disk.io") {
		gotDevice = append(gotDevice, e["read sda"])
	}
	if d := cmp.Diff([]float64{100, 300, 300, 400, 400}, gotReads); d != "" {
		t.Errorf("process (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]float64{1000, 1500, 1700, 1800, 1800}, gotDevice); d != "" {
		t.Errorf("device (-want +got):\n%s", d)
	}
}

// TestStartTimes: each series begins with its first process and its start never moves, although the two clocks of a frame
// are never read at quite the same moment.
func TestStartTimes(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		for n := 1; n < 40; n++ {
			f := testFrame(n)
			f.Wall = f.Wall.Add(time.Duration(n) * time.Microsecond)
			s.Consume(f, nil)
		}
	}, outcome(40, snapshot.ExitStatus{}))
	starts := map[string]uint64{}
	eachExport(t, dir, func(m *metricspb.Metric) {
		for _, p := range m.GetSum().GetDataPoints() {
			key := m.Name + " " + seriesName(p)
			if was, ok := starts[key]; ok && was != p.StartTimeUnixNano {
				t.Errorf("the start of %s moved", key)
			}
			starts[key] = p.StartTimeUnixNano
			if p.StartTimeUnixNano > p.TimeUnixNano {
				t.Errorf("%s starts after its time", key)
			}
		}
	})
	if got, want := starts["pytorch.process.io read 0 rank"], uint64(t0.Add(time.Second).UnixNano()); got != want {
		t.Errorf("the rank's series starts at %d, want %d", got, want)
	}
}

func TestAbsentIsNotZero(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		f := testFrame(1)
		for i := range f.Totals {
			f.Totals[i].HasIO = false
		}
		f.Raw.Cgroup = &snapshot.Cgroup{CPU: &snapshot.CgroupCPU{}}
		f.Raw.GPUs = []snapshot.GPU{{UUID: "GPU-1", Lost: true, Utilization: ptr(1.0)}}
		s.Consume(f, nil)
	}, outcome(2, snapshot.ExitStatus{}))
	for _, name := range []string{"process.disk.io", "pytorch.process.io", "pytorch.process.io.operations", "pytorch.process.wait.time",
		"process.unix.file_descriptor.count", "ptlaunch.cgroup.cpu.limit", "hw.gpu.utilization", "system.cpu.time"} {
		if e := exports(t, dir, name); len(e) != 0 {
			t.Errorf("%s is published as %v although it is not known", name, e)
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	const ranks = maxSeries + 500
	dir := runOf(t, nil, func(s *Sink) {
		f := testFrame(1)
		f.Totals = nil
		for r := range ranks {
			f.Totals = append(f.Totals, model.Total{Series: model.Series{Role: model.RoleRank, Rank: r, Loader: model.None, Slot: model.None}, RSS: 1})
		}
		s.Consume(f, nil)
	}, outcome(2, snapshot.ExitStatus{}))
	for _, e := range exports(t, dir, "process.memory.usage") {
		var sum float64
		for _, v := range e {
			sum += v
		}
		if len(e) != maxSeries || sum != ranks || e["true"] != 501 {
			t.Errorf("%d series sum to %v, the overflow series is %v", len(e), sum, e["true"])
		}
	}
}

func TestHelpersAreSummed(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		f := testFrame(1)
		f.Totals = []model.Total{
			{Series: model.Series{Role: model.RoleHelper, Rank: 0, Loader: model.None, Slot: model.None}, RSS: 1, Procs: 1},
			{Series: model.Series{Role: model.RoleHelper, Rank: 1, Loader: model.None, Slot: model.None}, RSS: 2, Procs: 2},
		}
		s.Consume(f, nil)
	}, outcome(2, snapshot.ExitStatus{}))
	if d := cmp.Diff(map[string]float64{"helper": 3}, exports(t, dir, "process.memory.usage")[0]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]float64{"helper": 3}, exports(t, dir, "pytorch.process.count")[0]); d != "" {
		t.Error(d)
	}
}

func TestDeltaTemporality(t *testing.T) {
	dir := runOf(t, func(c *Config) {
		c.Lookup = env("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	}, func(s *Sink) { consume(s, 1, 25) }, outcome(25, snapshot.ExitStatus{}))
	var got []float64
	for _, e := range exports(t, dir, "pytorch.process.io.operations") {
		got = append(got, e["read 0 rank"])
	}
	if d := cmp.Diff([]float64{1, 10, 10, 3}, got); d != "" { // at seconds 1, 11, 21 and the end
		t.Errorf("differences (-want +got):\n%s", d)
	}
	previous := map[string]uint64{}
	eachExport(t, dir, func(m *metricspb.Metric) {
		if m.GetSum() == nil {
			return
		}
		want := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
		if m.GetSum().IsMonotonic {
			want = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		}
		if m.GetSum().AggregationTemporality != want {
			t.Errorf("%s is %v", m.Name, m.GetSum().AggregationTemporality)
		}
		if !m.GetSum().IsMonotonic {
			return
		}
		for _, p := range m.GetSum().DataPoints {
			key := m.Name + " " + seriesName(p)
			if end, ok := previous[key]; ok && end != p.StartTimeUnixNano {
				t.Errorf("%s leaves a gap between two exports", key)
			}
			previous[key] = p.TimeUnixNano
		}
	})
}

// TestHistograms: exemplars point to the spans, the times are the run's, and exponential ones are made when asked for.
func TestHistograms(t *testing.T) {
	dir := runEverything(t)
	cp := finals(t, dir)[spanCheckpoint]
	seen := false
	eachExport(t, dir, func(m *metricspb.Metric) {
		for _, p := range m.GetHistogram().GetDataPoints() {
			if p.StartTimeUnixNano != uint64(t0.UnixNano()) {
				t.Errorf("%s starts at %d", m.Name, p.StartTimeUnixNano)
			}
			if m.Name != "pytorch.checkpoint.duration" {
				continue
			}
			seen = true
			if p.Count != 1 || p.GetSum() != 2 || len(p.Exemplars) != 1 || string(p.Exemplars[0].SpanId) != string(cp.SpanId) {
				t.Errorf("checkpoint duration: %v", p)
			}
		}
	})
	if !seen {
		t.Error("no pytorch.checkpoint.duration")
	}
	exponential := 0
	dir = runOf(t, func(c *Config) {
		c.Lookup = env("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram")
	}, func(s *Sink) { s.Consume(fullFrame(4), fullFindings(detect.Closed)) }, outcome(5, snapshot.ExitStatus{}))
	eachExport(t, dir, func(m *metricspb.Metric) { exponential += len(m.GetExponentialHistogram().GetDataPoints()) })
	if exponential == 0 {
		t.Error("no exponential histogram although it was asked for")
	}
}

// TestStallTimeStaysWhereItWasBooked: a stall whose cause changes does not take back what was published.
func TestStallTimeStaysWhereItWasBooked(t *testing.T) {
	stall := func(cause detect.Cause, lost time.Duration) detect.Stall {
		return detect.Stall{Interval: detect.Interval{ID: 1, OfRank: rank0, Start: mono0}, Cause: cause, Lost: lost}
	}
	dir := runOf(t, nil, func(s *Sink) {
		s.Consume(testFrame(1), &detect.Findings{Events: []detect.Event{stallEvent(detect.Opened, 1, stall(detect.CauseUnknown, 2*time.Second))}})
		s.Consume(testFrame(2), &detect.Findings{Events: []detect.Event{stallEvent(detect.Closed, 2, stall(detect.CauseNetwork, 5*time.Second))}})
	}, outcome(3, snapshot.ExitStatus{}))
	e := exports(t, dir, "pytorch.stall.time")
	if d := cmp.Diff(map[string]float64{"0 unknown": 2, "0 network": 3}, e[len(e)-1]); d != "" {
		t.Error(d)
	}
}

// TestSaturation: a counter beyond int64 does not wrap.
func TestSaturation(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		f := testFrame(1)
		f.Totals[0].RChar = math.MaxUint64
		s.Consume(f, nil)
	}, outcome(2, snapshot.ExitStatus{}))
	if v := exports(t, dir, "pytorch.process.io")[0]["read 0 rank"]; v != math.MaxInt64 {
		t.Errorf("%v", v)
	}
}

func BenchmarkConsume(b *testing.B) {
	s, err := New(b.Context(), Config{Run: testRun(), Dir: b.TempDir(), Lookup: env(), SpanRotation: 10 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	var totals []model.Total
	for r := range 8 {
		for w := range 32 {
			totals = append(totals, model.Total{Series: model.Series{Role: model.RoleWorker, Rank: r, Slot: w}, HasIO: true, HasSched: true})
		}
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		f := testFrame(1)
		f.Mono, f.Wall, f.Totals = mono0+time.Duration(n)*time.Second, t0.Add(time.Duration(n)*time.Second), totals
		s.Consume(f, nil)
	}
	b.StopTimer()
	if err := closeWithin(b, s, 20*time.Second, n); err != nil {
		b.Fatal(err)
	}
}
