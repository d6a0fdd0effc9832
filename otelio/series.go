package otelio

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// maxSeries is the most series of one metric; what comes later is summed in one overflow series. It is the SDK's own limit,
// which does not apply to what a producer makes.
const maxSeries = 2000

// labels are the attribute values of a series, in a form that can be a map's key.
type labels struct {
	role               model.Role
	rank, loader, slot int       // model.None where it does not apply
	values             [4]string // of Metric.Attributes, in its order
}

// plain returns labels without a process.
func plain(values ...string) labels {
	l := labels{rank: model.None, loader: model.None, slot: model.None}
	copy(l.values[:], values)
	return l
}

// set returns the attributes of l for m.
func (l labels) set(m *Metric) attribute.Set {
	var kv []attribute.KeyValue
	if l.role != "" {
		kv = append(kv, attribute.String("pytorch.role", string(l.role)))
	}
	for _, n := range [...]struct {
		key   string
		value int
	}{{"pytorch.rank", l.rank}, {"pytorch.dataloader.id", l.loader}, {"pytorch.worker.slot", l.slot}} {
		if n.value != model.None {
			kv = append(kv, attribute.Int(n.key, n.value))
		}
	}
	for i, name := range m.Attributes {
		if l.values[i] != "" {
			kv = append(kv, attribute.String(name, validText(l.values[i])))
		}
	}
	return attribute.NewSet(kv...)
}

// series is one series of one metric. Its memory outlives the thing it describes, so that a total never goes down.
type series struct {
	set   attribute.Set
	start time.Time
	pass  uint64 // the collection that touched it last

	sum      int64 // of this collection
	fraction float64
	raw      int64 // sum of the previous collection, for counters that may begin again
	total    int64 // what is published; of a counter it never goes down
	reported int64 // total at the previous export, for delta temporality
	told     bool  // it has been exported
}

// instrument is one metric's series, in order of appearance.
type instrument struct {
	*Metric
	byLabels map[labels]*series
	order    []*series
	overflow *series
}

// table holds the produced metrics. It belongs to one goroutine.
type table struct {
	instruments [numMetrics]instrument
	delta       bool
	pass        uint64
	now         time.Time // of this collection
	previous    time.Time // of the one before, where a delta begins
	overflowed  func(metric string)
}

func newTable(delta bool, overflowed func(string)) *table {
	t := &table{delta: delta, overflowed: overflowed}
	for i := range t.instruments {
		t.instruments[i] = instrument{Metric: &catalogue[i], byLabels: map[labels]*series{}}
	}
	return t
}

// begin starts a collection.
func (t *table) begin(now time.Time) {
	t.pass++
	t.previous, t.now = t.now, now
}

// at returns the series of l, made when it is new. The start of a series never moves.
func (t *table) at(id metricID, l labels, start time.Time) *series {
	in := &t.instruments[id]
	s, ok := in.byLabels[l]
	switch {
	case ok:
	case len(in.order) < maxSeries-1:
		s = &series{set: l.set(in.Metric), start: start}
		in.byLabels[l] = s
		in.order = append(in.order, s)
	default:
		if in.overflow == nil {
			in.overflow = &series{set: attribute.NewSet(attribute.Bool("otel.metric.overflow", true)), start: start}
			in.order = append(in.order, in.overflow)
			t.overflowed(in.Name)
		}
		s = in.overflow
	}
	if s.pass != t.pass {
		s.pass, s.sum, s.fraction = t.pass, 0, 0
	}
	return s
}

// add adds a whole number, or nanoseconds, to a series of this collection.
func (t *table) add(id metricID, l labels, start time.Time, v int64) { t.at(id, l, start).sum += v }

// addUint is add for a kernel's counter.
func (t *table) addUint(id metricID, l labels, start time.Time, v uint64) {
	t.add(id, l, start, int64(min(v, math.MaxInt64)))
}

// addFraction adds a value of a metric of fractions.
func (t *table) addFraction(id metricID, l labels, start time.Time, v float64) {
	t.at(id, l, start).fraction += v
}

// collect ends the collection and returns what it touched.
func (t *table) collect() []metricdata.Metrics {
	out := make([]metricdata.Metrics, 0, numMetrics)
	for i := range t.instruments {
		in := &t.instruments[i]
		if data := t.data(in); data != nil {
			out = append(out, metricdata.Metrics{Name: in.Name, Description: in.Description, Unit: in.Unit, Data: data})
		}
	}
	return out
}

// data returns the points of an instrument, nil without any.
func (t *table) data(in *instrument) metricdata.Aggregation {
	if in.float || in.seconds {
		points := points(t, in, func(s *series, v int64) float64 {
			if in.float {
				return s.fraction
			}
			return time.Duration(v).Seconds()
		})
		return aggregation(t, in, points)
	}
	return aggregation(t, in, points(t, in, func(_ *series, v int64) int64 { return v }))
}

func points[N int64 | float64](t *table, in *instrument, value func(*series, int64) N) []metricdata.DataPoint[N] {
	var out []metricdata.DataPoint[N]
	for _, s := range in.order {
		if s.pass != t.pass {
			continue
		}
		if out == nil {
			out = make([]metricdata.DataPoint[N], 0, len(in.order))
		}
		s.settle(in)
		v, start := s.total, s.start
		if in.Kind == Counter && t.delta {
			if in.reset && !s.told {
				s.reported, start = s.total, t.now // what the kernel counted before is no part of the run
			}
			v -= s.reported
			s.reported, s.told = s.total, true
			if !t.previous.IsZero() && t.previous.After(start) {
				start = t.previous
			}
		}
		if start.After(t.now) {
			start = t.now
		}
		p := metricdata.DataPoint[N]{Attributes: s.set, Time: t.now, Value: value(s, v)}
		if in.Kind != Gauge {
			p.StartTime = start
		}
		out = append(out, p)
	}
	return out
}

// settle turns the sum of a collection into the total to publish.
func (s *series) settle(in *instrument) {
	switch {
	case in.Kind != Counter:
		s.total = s.sum
	case !in.reset:
		s.total = max(s.total, s.sum)
	default:
		grown := s.sum - s.raw
		if grown < 0 {
			grown = s.sum // it began again
		}
		if s.total > math.MaxInt64-grown {
			grown = math.MaxInt64 - s.total
		}
		s.total, s.raw = s.total+grown, s.sum
	}
}

func aggregation[N int64 | float64](t *table, in *instrument, points []metricdata.DataPoint[N]) metricdata.Aggregation {
	if len(points) == 0 {
		return nil
	}
	if in.Kind == Gauge {
		return metricdata.Gauge[N]{DataPoints: points}
	}
	temporality := metricdata.CumulativeTemporality
	if in.Kind == Counter && t.delta {
		temporality = metricdata.DeltaTemporality
	}
	return metricdata.Sum[N]{DataPoints: points, Temporality: temporality, IsMonotonic: in.Kind == Counter}
}
