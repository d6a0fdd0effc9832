package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// churning is a job that replaces its workers every second, as an epoch of a second would do. Sampled ten times a second,
// a minute holds what ten minutes of an ordinary run hold.
var churning = shape{Ranks: 4, Workers: 4, Threads: 8, Period: 500 * time.Millisecond, Churn: time.Second}

// flatness watches the agent's memory, and the series that it exports, over a long run with ever new workers.
func (s *suite) flatness(ctx context.Context, length time.Duration) (section, error) {
	sec := section{Title: fmt.Sprintf("%v of a job that replaces its %d workers every second, sampled at 10 Hz",
		length, churning.Ranks*churning.Workers)}
	p, err := startPopulation(ctx, s.binary, churning)
	if err != nil {
		return sec, err
	}
	defer p.stop()
	out := filepath.Join(s.dir, "flat")
	o, err := observeWith(ctx, 0, p, []*tool{s.agent(p, "", "--out", out, "--interval", "100ms")})
	if err != nil {
		return sec, err
	}
	const parts = 10
	var rss []int64
	for range parts {
		c, err := o.measure(ctx, length/parts)
		if err != nil {
			o.end()
			return sec, err
		}
		if c[0].Missing != nil {
			return sec, c[0].Missing
		}
		rss = append(rss, c[0].RSS)
		fmt.Fprintf(os.Stderr, "bench: agent %s, %s of a core\n", megabytes(c[0].RSS), percent(c[0].Core))
	}
	o.end()
	// The first fifth fills caches and rings; what is full must not grow any more.
	early, late := rss[1], rss[parts-1]
	sec.add(row{
		What: "agent: resident memory after a fifth of the time, and at the end", Figure: megabytes(early) + ", " + megabytes(late),
		Goal: "flat: within 10 %", Met: met(float64(late) <= 1.1*float64(early)),
	})
	names, err := filepath.Glob(filepath.Join(out, "latest", "metrics.otlp.jsonl"))
	if err != nil || len(names) != 1 {
		return sec, fmt.Errorf("read the agent's metrics: %d files", len(names))
	}
	points, err := otlpread.Points(names[0])
	if err != nil {
		return sec, err
	}
	before, after := newSeries(points)
	sec.add(row{
		What: "series in the first half, and new ones in the second", Figure: fmt.Sprintf("%d, %d", before, after),
		Goal: "no new ones", Met: met(after == 0),
	})
	return sec, nil
}

// newSeries counts the series that appear in the first half of the points' time, and the ones that only appear later.
func newSeries(points []otlpread.Point) (before, after int) {
	if len(points) == 0 {
		return 0, 0
	}
	first, last := points[0].Time, points[0].Time
	for _, p := range points {
		if p.Time.Before(first) {
			first = p.Time
		}
		if p.Time.After(last) {
			last = p.Time
		}
	}
	half := first.Add(last.Sub(first) / 2)
	early, late := map[string]bool{}, map[string]bool{}
	for _, p := range points {
		if !p.Time.After(half) {
			early[p.Series()] = true
		}
	}
	for _, p := range points {
		if p.Time.After(half) && !early[p.Series()] {
			late[p.Series()] = true
		}
	}
	return len(early), len(late)
}
