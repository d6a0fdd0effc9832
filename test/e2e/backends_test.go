//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/nvmltest"
	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// TestBackends: what a real training leaves in its run folder is what Jaeger and Prometheus hold after it, and every query of the
// dashboards finds something there.
func TestBackends(t *testing.T) {
	j, p := startJaeger(t), startPrometheus(t)
	collector := startCollector(t, "compose.yaml",
		"JAEGER_OTLP_ENDPOINT="+j.otlp, "TEMPO_OTLP_ENDPOINT="+j.otlp, "PROMETHEUS_WRITE_URL="+p.url+"/api/v1/write")

	// Two fake GPUs, so that the panels of the GPUs have something to show.
	lib, err := nvmltest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nvmltest.NewScenario(t, nvmltest.Two)

	run := launch(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector.grpc,
		"OTEL_SERVICE_NAME=e2e",
		"OTEL_METRIC_EXPORT_INTERVAL=2000",
		"LD_LIBRARY_PATH=" + filepath.Dir(lib),
	}, append(ddp(t), "--epochs", "8")...) // several saves: increase() does not see the one that makes the series

	t.Run("Jaeger", func(t *testing.T) { compareTrace(t, j, run) })
	t.Run("Prometheus", func(t *testing.T) { compareCounters(t, p, run) })
	t.Run("Dashboards", func(t *testing.T) { queryDashboards(t, p, run) })
}

// compareTrace: Jaeger has exactly the spans of the run folder, with the same parents.
func compareTrace(t *testing.T, j jaeger, run launched) {
	want := map[string]string{}
	for _, s := range run.spans {
		want[s.SpanID] = s.Name + " below " + s.ParentID
	}
	for _, name := range []string{"training.run", "training.node", "training.rank", "dataloader.pool", "checkpoint.write"} {
		if len(run.named(name)) == 0 {
			t.Errorf("the run has no span %s", name)
		}
	}
	id := run.traceID(t)
	var diff string
	eventually(t, "Jaeger to have the trace", func() error {
		spans, err := j.trace(id)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, s := range spans {
			got[s.SpanID] = s.OperationName + " below " + s.parent()
		}
		if diff = cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("spans of the run folder (-) and of Jaeger (+):\n%s", diff)
		}
		return nil
	})
}

// compareCounters: the last value of each counter in the run folder is what Prometheus holds.
func compareCounters(t *testing.T, p prometheus, run launched) {
	points, err := otlpread.Points(filepath.Join(run.dir, "metrics.otlp.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for metric, series := range map[string]string{
		"pytorch.rank.time":    "pytorch_rank_time_seconds_total",
		"pytorch.process.io":   "pytorch_process_io_bytes_total",
		"process.cpu.time":     "process_cpu_time_seconds_total",
		"process.disk.io":      "process_disk_io_bytes_total",
		"pytorch.stall.time":   "pytorch_stall_time_seconds_total",
		"system.disk.io":       "system_disk_io_bytes_total",
		"ptlaunch.self.memory": "",
	} {
		if series == "" {
			continue
		}
		want := map[string]float64{}
		for _, pt := range points {
			if pt.Metric == metric {
				want[pt.Series()] = pt.Value
			}
		}
		var sum float64
		for _, v := range want {
			sum += v
		}
		eventually(t, series+" to agree with the run folder", func() error {
			got, err := p.query(fmt.Sprintf(`sum(last_over_time(%s{ptlaunch_run_id=%q}[10m]))`, series, run.report.Run.ID))
			if err != nil {
				return err
			}
			if len(got) == 0 && len(want) == 0 {
				return nil // a run without stalls has no stall counter anywhere
			}
			if len(got) != 1 || math.Abs(got[0].Value-sum) > 1e-6*math.Abs(sum) {
				return fmt.Errorf("the run folder's sum over %d series is %v, Prometheus says %v", len(want), sum, got)
			}
			return nil
		})
	}
}

// Queries that a short healthy run may rightly leave empty, by the metric they need.
var mayBeEmpty = regexp.MustCompile(`pytorch_stall_time|ptlaunch_source_unavailable`)

// queryDashboards: every query of every dashboard returns data of this run.
func queryDashboards(t *testing.T, p prometheus, run launched) {
	files, err := filepath.Glob(repo(t, "collector-config/grafana/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	replace := strings.NewReplacer("$__rate_interval", "10m", "$__range", "10m",
		"$run", run.report.Run.ID, "$service", ".*", "$host", ".*")
	asked := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, expr := range expressions(t, raw) {
			expr = replace.Replace(expr)
			asked++
			got, err := p.query(expr)
			switch {
			case err != nil:
				t.Errorf("%s: %v", filepath.Base(file), err)
			case len(got) == 0 && !mayBeEmpty.MatchString(expr):
				t.Errorf("%s: no data for %s", filepath.Base(file), expr)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d queries found in %d dashboards", asked, len(files))
	}
}

// expressions returns every "expr" in a JSON document.
func expressions(t *testing.T, raw []byte) []string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if e, _ := v["expr"].(string); e != "" {
				out = append(out, e)
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(doc)
	sort.Strings(out)
	return out
}

// TestVisibleWhileItRuns: a run is in Jaeger long before it ends.
func TestVisibleWhileItRuns(t *testing.T) {
	j := startJaeger(t)
	collector := startCollector(t, "jaeger.yaml", "JAEGER_OTLP_ENDPOINT="+j.otlp)
	out := t.TempDir()
	cmd := exec.Command(ptlaunch, "--out", out, "--", python(t), "-c", "import time; time.sleep(600)")
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector.grpc, "OTEL_SERVICE_NAME=visible")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	eventually(t, "training.run in Jaeger", func() error {
		body, err := get(j.query + "/api/traces?service=visible&limit=5")
		if err != nil {
			return err
		}
		var answer struct {
			Data []struct{ Spans []jaegerSpan }
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err
		}
		for _, trace := range answer.Data {
			for _, s := range trace.Spans {
				if s.OperationName == "training.run" && s.tag("ptlaunch.span.final") == false {
					return nil
				}
			}
		}
		return fmt.Errorf("not yet: %d traces", len(answer.Data))
	})
}
