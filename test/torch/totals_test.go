package torch

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// TestTotalsOverGenerations: workers that are replaced at every epoch read 40 MiB per epoch. What they read is counted once,
// under their slots, and not again under the rank that reaps them.
func TestTotalsOverGenerations(t *testing.T) {
	const perEpoch, epochs = 40 * mb, 4
	r := launch(t, abs(t, "testdata/job.py"), "--data", blob(t, perEpoch), "--bytes-per-epoch", strconv.Itoa(perEpoch),
		"--epochs", strconv.Itoa(epochs), "--step=0.15")
	if r.code != 0 {
		t.Fatalf("exit code %d", r.code)
	}
	points, err := otlpread.Points(filepath.Join(r.folder, "metrics.otlp.jsonl"))
	if err != nil {
		t.Fatal(err)
	}

	last := map[string]otlpread.Point{}
	for _, p := range points {
		s := p.Series()
		if before, ok := last[s]; ok && p.Monotonic && p.Value < before.Value {
			t.Errorf("%s went down from %v to %v", s, before.Value, p.Value)
		}
		last[s] = p
	}
	read := map[string]float64{}
	for _, p := range last {
		if p.Metric == "pytorch.process.io" && p.Attrs.String("disk.io.direction") == "read" {
			read[p.Attrs.String("pytorch.role")] += p.Value
		}
	}
	want := float64(perEpoch * epochs)
	if got := read["dataloader_worker"]; got < 0.99*want || got > 1.01*want {
		t.Errorf("the workers read %.1f MB, want %.1f", got/1e6, want/1e6)
	}
	// The rank reads PyTorch itself, some 20 MB; its workers' bytes must not come on top.
	if got := read["rank"]; got <= 0 || got > want/2 {
		t.Errorf("the rank read %.1f MB itself: those of its reaped workers are counted again, or none are", got/1e6)
	}
	checkSeriesCount(t, r, points)
}

// checkSeriesCount: a new generation of workers makes no new series.
func checkSeriesCount(t *testing.T, r *result, points []otlpread.Point) {
	var second time.Duration // when the second generation of workers was up
	for _, f := range r.of("worker") {
		if f.Generation == 1 {
			second = max(second, time.Duration(f.Mono))
		}
	}
	before := map[model.Series]bool{}
	for _, f := range r.frames(t) {
		for _, total := range f.Totals {
			if f.Mono < second {
				before[total.Series] = true
			} else if !before[total.Series] {
				t.Errorf("series %+v appeared only after the first epoch", total.Series)
				before[total.Series] = true
			}
		}
	}
	workers := map[string]bool{}
	for _, p := range points {
		if _, ok := p.Attrs["pytorch.worker.slot"]; ok && p.Metric == "process.thread.count" {
			workers[p.Series()] = true
		}
	}
	if len(workers) != 2 {
		t.Errorf("%d series of workers over the run, want 2, one per slot: %v", len(workers), workers)
	}
}
