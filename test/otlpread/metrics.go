package otlpread

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"
)

// Point is one data point of a sum or a gauge.
type Point struct {
	Metric      string
	Attrs       Attrs
	Start, Time time.Time
	Value       float64
	Monotonic   bool
}

// Series names the metric and its attributes in one order, whatever order they came in.
func (p Point) Series() string {
	parts := make([]string, 0, len(p.Attrs))
	for k, v := range p.Attrs {
		parts = append(parts, fmt.Sprintf("%s=%v", k, v))
	}
	sort.Strings(parts)
	return p.Metric + "{" + strings.Join(parts, ",") + "}"
}

type numberPoints struct {
	IsMonotonic bool
	DataPoints  []struct {
		Attributes                      []keyValue
		StartTimeUnixNano, TimeUnixNano nanos
		AsInt                           *json.Number
		AsDouble                        *float64
	}
}

// Points reads the sums and gauges of metrics.otlp.jsonl, in the order in which they were exported. Histograms are left out.
func Points(path string) ([]Point, error) {
	type request struct {
		ResourceMetrics []struct {
			ScopeMetrics []struct {
				Metrics []struct {
					Name       string
					Sum, Gauge *numberPoints
				}
			}
		}
	}
	var all []Point
	add := func(name string, data *numberPoints) {
		if data == nil {
			return
		}
		for _, p := range data.DataPoints {
			point := Point{
				Metric: name, Attrs: attrs(p.Attributes), Monotonic: data.IsMonotonic,
				Start: time.Unix(0, int64(p.StartTimeUnixNano)), Time: time.Unix(0, int64(p.TimeUnixNano)),
			}
			switch {
			case p.AsInt != nil:
				point.Value, _ = p.AsInt.Float64()
			case p.AsDouble != nil:
				point.Value = *p.AsDouble
			}
			all = append(all, point)
		}
	}
	err := eachLine(path, func(r request) {
		for _, rm := range r.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					add(m.Name, m.Sum)
					add(m.Name, m.Gauge)
				}
			}
		}
	})
	return all, err
}
