package otelio

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/collectortest"
	"github.com/ptlaunch/ptlaunch/internal/detect"
)

// TestCollectorAgreesWithFiles: what a real Collector wrote with its file exporter is what the run folder holds.
func TestCollectorAgreesWithFiles(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf", "http/json"} {
		t.Run(protocol, func(t *testing.T) {
			out := t.TempDir()
			var exporters, pipelines []string
			for sig := range numSignals {
				exporters = append(exporters, fmt.Sprintf("file/%s: {path: %q}", sig, filepath.Join(out, sig.wire().file)))
				pipelines = append(pipelines, fmt.Sprintf("%s: {receivers: [otlp], exporters: [file/%s]}", sig, sig))
			}
			c := collectortest.Start(t, fmt.Sprintf("exporters: {%s}\nservice: {pipelines: {%s}}\n", strings.Join(exporters, ", "), strings.Join(pipelines, ", ")))
			endpoint := c.HTTP
			if protocol == "grpc" {
				endpoint = c.GRPC
			}
			dir := t.TempDir()
			s := newSink(t, dir, env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol, "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"))
			s.Consume(fullFrame(3), fullFindings(detect.Opened))
			s.Consume(fullFrame(4), fullFindings(detect.Closed))
			consume(s, 5, 25)
			if err := closeWithin(t, s, 20*time.Second, 25); err != nil {
				t.Fatal(err)
			}
			c.Stop(t)
			for sig := range numSignals {
				want, got := jsonLines(t, filepath.Join(dir, sig.wire().file)), jsonLines(t, filepath.Join(out, sig.wire().file))
				if d := gocmp.Diff(want, got); d != "" {
					t.Errorf("%s (-run folder +Collector):\n%.4000s", sig, d)
				}
			}
		})
	}
}

// jsonLines returns the lines of a file, each as its values by path, sorted: the Collector writes some zeros that proto3
// JSON leaves out, and none of those that we write.
func jsonLines(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for l := range bytes.Lines(b) {
		var v any
		if err := json.Unmarshal(l, &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var flat []string
		flatten("", v, &flat)
		slices.SortFunc(flat, cmp.Compare)
		out = append(out, flat)
	}
	return out
}

func flatten(path string, v any, out *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(path+"."+k, x, out)
		}
	case []any:
		for i, x := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), x, out)
		}
	case nil:
	default:
		text := fmt.Sprint(v)
		if text == "0" || text == "" || text == "false" {
			return
		}
		*out = append(*out, path+"="+text)
	}
}
