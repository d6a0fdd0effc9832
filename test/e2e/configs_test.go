//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// TestConfigurationsAreValid: the Collector accepts every configuration in collector-config as it is.
func TestConfigurationsAreValid(t *testing.T) {
	files, err := filepath.Glob(repo(t, "collector-config/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		if filepath.Base(file) == "docker-compose.yaml" {
			continue
		}
		checked++
		if out, err := exec.Command(binary(t, "PTLAUNCH_OTELCOL"), "validate", "--config", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
	if checked < 8 {
		t.Errorf("only %d configurations found", checked)
	}
}

// TestConfigurations: one run, sent to the Collector under each configuration that the other tests do not use, arrives where the
// configuration says.
func TestConfigurations(t *testing.T) {
	run := launch(t, nil, python(t), "-c", "import time; time.sleep(3)")
	want := spanIDs(run.spans)

	t.Run("debug", func(t *testing.T) {
		c := startCollector(t, "debug.yaml")
		send(t, run, c.grpc)
		c.says(t, "Name           : training.run", "process.cpu.time", run.report.Run.ID)
	})

	t.Run("file", func(t *testing.T) {
		archive := t.TempDir()
		c := startCollector(t, "file.yaml", "PTLAUNCH_ARCHIVE="+archive)
		send(t, run, c.grpc)
		eventually(t, "the archive to hold the run", func() error {
			spans, err := otlpread.Spans(filepath.Join(archive, "spans.otlp.jsonl"))
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want, spanIDs(spans)); diff != "" {
				return fmt.Errorf("spans of the run folder (-) and of the archive (+):\n%s", diff)
			}
			return nil
		})
	})

	t.Run("tempo", func(t *testing.T) {
		// Tempo takes OTLP/gRPC as Jaeger does, which stands in for it.
		j := startJaeger(t)
		send(t, run, startCollector(t, "tempo.yaml", "TEMPO_OTLP_ENDPOINT="+j.otlp).grpc)
		j.holds(t, run)
	})

	t.Run("prometheus", func(t *testing.T) {
		p := startPrometheus(t)
		c := startCollector(t, "prometheus.yaml", "PROMETHEUS_WRITE_URL="+p.url+"/api/v1/write")
		send(t, run, c.grpc)
		startScraper(t, c.scrape).knows(t, run)
		p.knows(t, run)
	})

	t.Run("full", func(t *testing.T) {
		j, p := startJaeger(t), startPrometheus(t)
		send(t, run, startCollector(t, "full.yaml", "TRACES_OTLP_ENDPOINT="+j.otlp, "PROMETHEUS_WRITE_URL="+p.url+"/api/v1/write").grpc)
		j.holds(t, run)
		p.knows(t, run)
	})

	t.Run("node and gateway", func(t *testing.T) {
		j, p := startJaeger(t), startPrometheus(t)
		gateway := startCollector(t, "gateway.yaml", "TRACES_OTLP_ENDPOINT="+j.otlp, "PROMETHEUS_WRITE_URL="+p.url+"/api/v1/write")
		send(t, run, startCollector(t, "node.yaml", "GATEWAY_OTLP_ENDPOINT="+gateway.grpc).grpc)
		j.holds(t, run)
		p.knows(t, run)
	})
}

// send delivers a finished run's files, as a user would after a run without a collector.
func send(t *testing.T, run launched, endpoint string) {
	t.Helper()
	cmd := exec.Command(ptlaunch, "replay", "--otlp", run.dir)
	cmd.Env = append(cmd.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+endpoint)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ptlaunch replay --otlp: %v\n%s", err, tail(string(out), 2000))
	}
}

func (j jaeger) holds(t *testing.T, run launched) {
	t.Helper()
	eventually(t, "Jaeger to hold the run", func() error {
		spans, err := j.trace(run.traceID(t))
		if err == nil && len(spans) != len(spanIDs(run.spans)) {
			err = fmt.Errorf("%d spans of %d", len(spans), len(spanIDs(run.spans)))
		}
		return err
	})
}

func (p prometheus) knows(t *testing.T, run launched) {
	t.Helper()
	eventually(t, "Prometheus to know the run", func() error {
		got, err := p.query(fmt.Sprintf(`process_cpu_time_seconds_total{ptlaunch_run_id=%q}`, run.report.Run.ID))
		if err == nil && len(got) == 0 {
			err = fmt.Errorf("no series")
		}
		return err
	})
}

func spanIDs(spans []otlpread.Span) map[string]string {
	ids := map[string]string{}
	for _, s := range spans {
		ids[s.SpanID] = s.Name
	}
	return ids
}
