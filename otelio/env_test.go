package otelio

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNothingIsSentUnlessAsked(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		env  []string
		want string // the signals that are sent
	}{
		"no variable":         {nil, ""},
		"empty":               {[]string{endpoint, ""}, ""},
		"endpoint":            {[]string{endpoint, "http://c:4317"}, "traces metrics logs"},
		"one signal":          {[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:4317"}, "metrics"},
		"disabled":            {[]string{endpoint, "http://c:4317", "OTEL_SDK_DISABLED", "TRUE"}, ""},
		"none":                {[]string{endpoint, "http://c:4317", "OTEL_TRACES_EXPORTER", "none", "OTEL_LOGS_EXPORTER", "none"}, "metrics"},
		"console":             {[]string{endpoint, "http://c:4317", "OTEL_TRACES_EXPORTER", "console"}, "metrics logs"},
		"console and otlp":    {[]string{endpoint, "http://c:4317", "OTEL_TRACES_EXPORTER", "console,otlp"}, "traces metrics logs"},
		"otlp, no endpoint":   {[]string{"OTEL_TRACES_EXPORTER", "otlp"}, ""},
		"only protocol":       {[]string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, ""},
		"ours beats theirs":   {[]string{endpoint, "http://c:4317", "PTLAUNCH_OTEL_SDK_DISABLED", "true"}, ""},
		"unusable for one":    {[]string{endpoint, "http://c:4317", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "::"}, "traces metrics"},
		"certificate missing": {[]string{endpoint, "https://c:4317", "OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			for sig, target := range readSettings(env(c.env...), "").targets {
				if target != nil {
					sent = append(sent, signal(sig).String())
				}
			}
			if got := strings.Join(sent, " "); got != c.want {
				t.Errorf("sent: %q, want %q", got, c.want)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	for name, c := range map[string]struct {
		env      []string
		want     string
		insecure bool
	}{
		"grpc http":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}, "dns:///c:4317", true},
		"grpc https":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c"}, "dns:///c:443", false},
		"grpc bare":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"}, "dns:///c:4317", false},
		"grpc bare plain":  {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317", "OTEL_EXPORTER_OTLP_INSECURE", "true"}, "dns:///c:4317", true},
		"grpc ipv6":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1]:4317"}, "dns:///[::1]:4317", true},
		"grpc unix":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "unix:///run/c.sock"}, "unix:///run/c.sock", true},
		"http general":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, "http://c:4318/base/v1/traces", true},
		"http own":         {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/mine", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"}, "https://c/mine", false},
		"http own no path": {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, "https://c/", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := readSettings(env(c.env...), "")
			got := s.targets[traces]
			if got == nil {
				t.Fatalf("no target: %q", s.problems)
			}
			if got.endpoint != c.want || got.insecure != c.insecure {
				t.Errorf("%s insecure=%v, want %s insecure=%v", got.endpoint, got.insecure, c.want, c.insecure)
			}
		})
	}
}

// TestMalformedVariables: each is said in one line that names it, and does not stop the run.
func TestMalformedVariables(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":                              "ftp://c",
		"OTEL_EXPORTER_OTLP_PROTOCOL":                              "carrier-pigeon",
		"OTEL_EXPORTER_OTLP_COMPRESSION":                           "zstd",
		"OTEL_EXPORTER_OTLP_TIMEOUT":                               "10s",
		"OTEL_EXPORTER_OTLP_INSECURE":                              "yes",
		"OTEL_EXPORTER_OTLP_HEADERS":                               "no-value",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE":                    "/nowhere",
		"OTEL_METRIC_EXPORT_INTERVAL":                              "-5",
		"OTEL_SDK_DISABLED":                                        "maybe",
		"OTEL_TRACES_EXPORTER":                                     "zipkin",
		"OTEL_METRICS_EXPORTER":                                    "console",
		"OTEL_TRACES_SAMPLER":                                      "jaeger_remote",
		"OTEL_RESOURCE_ATTRIBUTES":                                 "lonely",
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE":        "none",
		"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "fine",
		"OTEL_CONFIG_FILE":                                         "otel.yaml",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT":                          "many",
	} {
		t.Run(name, func(t *testing.T) {
			vars := []string{name, value, "OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4317"}
			s := readSettings(env(vars...), "")
			stem := strings.TrimSuffix(strings.TrimPrefix(name, "OTEL_EXPORTER_OTLP_"), "IFICATE")
			n := 0
			for _, p := range s.problems {
				if strings.Contains(p, stem) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d lines name %s, want one: %q", n, name, s.problems)
			}
			if strings.Contains(strings.Join(s.problems, ""), "\n") {
				t.Errorf("more than a line: %q", s.problems)
			}
		})
	}
	s := readSettings(env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_HEADERS", "secret"), "")
	if strings.Contains(strings.Join(s.problems, ""), "secret") {
		t.Errorf("a header's text, which may be a password, is in %q", s.problems)
	}
	for _, endpoint := range []string{"ftp://me:secret@c", "http://me:secret@c:99999", "https://me:se%zzcret@c", "me:secret@c"} {
		s := readSettings(env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), "")
		if text := strings.Join(s.problems, ""); len(s.problems) != 1 || strings.Contains(text, "cret") {
			t.Errorf("%s: want one line without the password: %q", endpoint, s.problems)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := readSettings(env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), "")
	if s.interval != 10*time.Second || s.dropSpans || s.expoHist || s.delta.counters {
		t.Errorf("%+v", s)
	}
	got := s.targets[metrics]
	if got.protocol != "grpc" || got.timeout != 10*time.Second || got.gzip {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff(0, len(s.problems)); d != "" {
		t.Errorf("%q", s.problems)
	}
}

func TestSampler(t *testing.T) {
	for name, c := range map[string]struct {
		sampler, arg string
		drops        bool
	}{
		"default":    {"", "", false},
		"off":        {"always_off", "", true},
		"ratio 0":    {"traceidratio", "0", true},
		"ratio 1":    {"traceidratio", "1", false},
		"parent off": {"parentbased_always_off", "", false}, // the parent is taken for sampled
		"odd ratio":  {"traceidratio", "many", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := readSettings(env("OTEL_TRACES_SAMPLER", c.sampler, "OTEL_TRACES_SAMPLER_ARG", c.arg), testRun().Trace.TraceID)
			if s.dropSpans != c.drops {
				t.Errorf("drops %v", s.dropSpans)
			}
		})
	}
}
