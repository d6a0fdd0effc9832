package otelio

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// meter holds the metrics. Histograms are the SDK's, recorded as things happen, with exemplars. Everything else is
// produced from the latest frame when it is collected: the kernel and the model keep those totals already, each series with
// a start of its own, which the SDK's instruments cannot have. It belongs to one goroutine.
type meter struct {
	table    *table
	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
	start    time.Time // of the run
	version  string
	clock    *clock

	checkpointDuration, stallDuration, sampleDuration metric.Float64Histogram
	checkpointSize                                    metric.Int64Histogram

	frame   *model.Frame
	budgets []detect.Budget
	self    time.Time                                   // when this agent's own counters began
	lost    map[stallKey]time.Duration                  // by rank and cause
	booked  map[uint64]time.Duration                    // what is in lost already, by interval
	gpuIO   map[labels]float64                          // bytes
	sources map[sourceKey]time.Duration                 // when each was last seen to be unavailable
	dropped func(count func(what string, items uint64)) // items that the delivery lost
}

type stallKey struct {
	rank  int
	cause detect.Cause
}

type sourceKey struct {
	source string
	reason snapshot.GapReason
}

// Bounds of the histograms. A checkpoint may take from milliseconds to an hour.
var (
	durationBounds = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}
	sizeBounds     = []float64{1 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20, 1 << 30, 4 << 30, 16 << 30, 64 << 30, 256 << 30, 1 << 40}
	sampleBounds   = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2}
)

func newMeter(set settings, res *resource.Resource, run *model.Run, c *clock, log *slog.Logger) (*meter, error) {
	m := &meter{
		start: run.Start, version: run.Version, clock: c,
		lost: map[stallKey]time.Duration{}, booked: map[uint64]time.Duration{},
		gpuIO: map[labels]float64{}, sources: map[sourceKey]time.Duration{},
	}
	m.table = newTable(set.delta.counters, func(name string) {
		log.Warn("A metric has more series than are kept apart; the further ones are summed in one", "metric", name, "limit", maxSeries)
	})
	m.reader = sdkmetric.NewManualReader(sdkmetric.WithProducer(m),
		sdkmetric.WithTemporalitySelector(set.delta.temporality), sdkmetric.WithAggregationSelector(set.aggregation))
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader), sdkmetric.WithResource(res))
	mt := m.provider.Meter(scopeName, metric.WithInstrumentationVersion(run.Version), metric.WithSchemaURL(semconv.SchemaURL))
	floats := map[metricID]*metric.Float64Histogram{
		mCheckpointDuration: &m.checkpointDuration, mStallDuration: &m.stallDuration, mSelfSample: &m.sampleDuration}
	for id, h := range floats {
		d, bounds := catalogue[id], durationBounds
		if id == mSelfSample {
			bounds = sampleBounds
		}
		var err error
		if *h, err = mt.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description), metric.WithExplicitBucketBoundaries(bounds...)); err != nil {
			return nil, fmt.Errorf("make metric %s: %v", d.Name, err)
		}
	}
	d := catalogue[mCheckpointSize]
	var err error
	if m.checkpointSize, err = mt.Int64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description), metric.WithExplicitBucketBoundaries(sizeBounds...)); err != nil {
		return nil, fmt.Errorf("make metric %s: %v", d.Name, err)
	}
	return m, nil
}

// consume takes what a step told. Most of it waits for the next collection.
func (m *meter) consume(f *model.Frame, found *detect.Findings) {
	m.frame = f
	if found != nil {
		m.budgets = found.Budgets
		for i := range found.Events {
			if s := found.Events[i].Stall; s != nil {
				m.bookStall(s, found.Events[i].Kind == detect.Closed)
			}
		}
	}
	raw := f.Raw
	if raw == nil {
		return
	}
	if raw.Self != nil {
		if m.self.IsZero() {
			m.self = m.clock.wall(f.Mono)
		}
		m.sampleDuration.Record(context.Background(), raw.Self.Sample.Seconds())
	}
	m.integrateGPUs(f)
	for i := range raw.Gaps {
		if g := &raw.Gaps[i]; g.Reason != snapshot.GapGone {
			m.sources[sourceKey{g.Source, g.Reason}] = f.Mono
		}
	}
}

// bookStall adds what a stall has lost since it was last booked. Its cause may have changed meanwhile; what was booked
// stays where it is, because no total goes down.
func (m *meter) bookStall(s *detect.Stall, closed bool) {
	if more := s.Lost - m.booked[s.ID]; more > 0 {
		m.lost[stallKey{s.Rank, s.Cause}] += more
		m.booked[s.ID] = s.Lost
	}
	if closed {
		delete(m.booked, s.ID)
	}
}

// checkpointWritten and stallEnded feed the histograms; ctx carries the span that their exemplars point to.
func (m *meter) checkpointWritten(ctx context.Context, c *detect.Checkpoint) {
	mode := metric.WithAttributes(attribute.String("pytorch.checkpoint.mode", checkpointMode(c)))
	m.checkpointDuration.Record(ctx, (c.End - c.Start).Seconds(), mode)
	m.checkpointSize.Record(ctx, c.Size, mode)
}

func (m *meter) stallEnded(ctx context.Context, s *detect.Stall) {
	m.stallDuration.Record(ctx, (s.End - s.Start).Seconds(), metric.WithAttributes(attribute.String("pytorch.stall.cause", string(s.Cause))))
}

// collect returns all metrics as of the latest frame.
func (m *meter) collect() (*metricdata.ResourceMetrics, error) {
	rm := new(metricdata.ResourceMetrics)
	if err := m.reader.Collect(context.Background(), rm); err != nil {
		return nil, fmt.Errorf("collect metrics: %v", err)
	}
	// One scope, and the run's own time: a replay must tell what the live run told.
	var all []metricdata.Metrics
	for _, s := range rm.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	for i := range all {
		all[i].Data = m.onRunTime(all[i].Data)
	}
	scope := scopeOf(m)
	rm.ScopeMetrics = []metricdata.ScopeMetrics{{Scope: scope, Metrics: all}}
	return rm, nil
}

// Produce implements sdkmetric.Producer.
func (m *meter) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	m.table.begin(m.clock.wall(m.frame.Mono))
	m.processes()
	m.findings()
	m.host()
	m.cgroup()
	m.gpus()
	m.own()
	return []metricdata.ScopeMetrics{{Metrics: m.table.collect()}}, nil
}

// processes adds the metrics of the job's processes.
func (m *meter) processes() {
	t := m.table
	for i := range m.frame.Totals {
		x := &m.frame.Totals[i]
		l := labels{role: x.Role, rank: x.Rank, loader: x.Loader, slot: x.Slot}
		if x.Role == model.RoleHelper || x.Role == model.RoleOther {
			l.rank, l.loader, l.slot = model.None, model.None, model.None // summed: nobody asks which one
		}
		start := m.clock.wall(x.Start)
		with := func(value string) labels { l.values[0] = value; return l }
		t.add(mCPUTime, with("user"), start, int64(x.User))
		t.add(mCPUTime, with("system"), start, int64(x.System))
		t.addUint(mPagingFaults, with("minor"), start, x.MinFlt)
		t.addUint(mPagingFaults, with("major"), start, x.MajFlt)
		if x.HasIO {
			t.addUint(mDiskIO, with("read"), start, x.ReadBytes)
			t.addUint(mDiskIO, with("write"), start, x.WriteBytes)
			t.addUint(mProcessIO, with("read"), start, x.RChar)
			t.addUint(mProcessIO, with("write"), start, x.WChar)
			t.addUint(mProcessOps, with("read"), start, x.SyscR)
			t.addUint(mProcessOps, with("write"), start, x.SyscW)
		}
		if x.HasSched {
			t.add(mWaitTime, with("blocked"), start, int64(x.Blocked))
			t.add(mWaitTime, with("runqueue"), start, int64(x.RunQueue))
		}
		if x.HasDelay {
			t.add(mWaitTime, with("storage"), start, int64(x.Storage))
		}
		l.values[0] = ""
		t.addUint(mMemoryUsage, l, start, x.RSS)
		t.addUint(mMemoryVirtual, l, start, x.VSize)
		t.add(mThreads, l, start, x.Threads)
		if x.HasFDs {
			t.add(mFDs, l, start, x.FDs)
		}
		t.add(mProcessCount, plain(string(x.Role)), m.start, int64(x.Procs))
		if x.Role == model.RoleWorker {
			pool := labels{rank: x.Rank, loader: x.Loader, slot: model.None}
			t.add(mWorkers, pool, start, int64(x.Procs))
			t.addUint(mWorkerStarts, pool, start, x.WorkerStarts)
		}
	}
}

// findings adds what the detectors say.
func (m *meter) findings() {
	for i := range m.budgets {
		b := &m.budgets[i]
		for phase, d := range b.Time {
			l := plain(string(phase))
			l.rank = b.Rank
			m.table.add(mRankTime, l, m.rankStart(b.Rank), int64(d))
		}
	}
	for key, d := range m.lost {
		l := plain(string(key.cause))
		l.rank = key.rank
		m.table.add(mStallTime, l, m.rankStart(key.rank), int64(d))
	}
}

// rankStart is when the first life of a rank began.
func (m *meter) rankStart(rank int) time.Time {
	for i := range m.frame.Ranks { // sorted by rank, then generation
		if m.frame.Ranks[i].Rank == rank {
			return m.clock.wall(m.frame.Ranks[i].Start)
		}
	}
	return m.start
}

// sourceMemory is how long a source counts as unavailable after it was last seen to be: slow ones are not read each tick.
const sourceMemory = time.Minute

// own adds what ptlaunch itself costs and cannot see.
func (m *meter) own() {
	t, raw := m.table, m.frame.Raw
	drop := func(what string, items uint64) { t.addUint(mSelfDropped, plain(what), m.self, items) }
	if raw != nil {
		if s := raw.Self; s != nil {
			t.add(mSelfCPU, plain(), m.self, int64(s.CPU))
			t.addUint(mSelfMemory, plain(), m.self, s.RSS)
			for what, n := range s.Dropped {
				drop(what, n)
			}
		}
		t.addUint(mSelfMissed, plain(), m.start, raw.MissedTicks)
	}
	if m.dropped != nil {
		m.dropped(drop)
	}
	for key, at := range m.sources {
		v := int64(1)
		if m.frame.Mono-at > sourceMemory {
			v = 0
		}
		t.add(mSourceUnavailable, plain(key.source, string(key.reason)), m.start, v)
	}
}

// gpuLabels are the attributes of a GPU's metrics.
func (m *meter) gpuLabels(f *model.Frame, g *snapshot.GPU) labels {
	l := plain(g.UUID, g.Name, "gpu")
	if g.UUID == "" {
		l.values[0] = strconv.Itoa(int(g.Index))
	}
	l.rank = rankOfGPU(f, g)
	return l
}
