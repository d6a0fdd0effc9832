package dashboards

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql/parser"
)

const folder = "../../collector-config/grafana/dashboards"

var update = flag.Bool("update", false, "write the dashboards")

// TestUpToDate: the committed files are what the builders make.
func TestUpToDate(t *testing.T) {
	for name, builder := range Dashboards() {
		built, err := builder.Build()
		if err != nil {
			t.Fatalf("build %s: %v", name, err)
		}
		want, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		path := filepath.Join(folder, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what its builder makes; run: go test -run TestUpToDate -update .", name)
		}
	}
}

// TestFiles: every file in the folder passes Grafana's strict decoder and its validation, and every query Prometheus' parser.
func TestFiles(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != len(Dashboards()) {
		t.Fatalf("found %d dashboards (%v), want %d", len(files), err, len(Dashboards()))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard.Dashboard
		// The decoder answers a success with an empty error list that is not nil.
		if err := d.UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
			t.Errorf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		exprs := Expressions(raw)
		if len(exprs) < 5 {
			t.Errorf("%s: only %d queries found", file, len(exprs))
		}
		p := parser.NewParser(parser.Options{})
		for _, e := range exprs {
			if _, err := p.ParseExpr(e); err != nil {
				t.Errorf("%s: %s: %v", file, e, err)
			}
		}
	}
}

// TestNoUnknownField shows that the strict decoder would notice.
func TestNoUnknownField(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict([]byte(`{"title":"x","panels":[{"type":"stat","gridPoss":{}}]}`)); err == nil || !strings.Contains(err.Error(), "gridPoss") {
		t.Errorf("a misspelt field gives %v", err)
	}
}

var variable = regexp.MustCompile(`\$\{?[a-z_]+\}?`)

// Expressions returns the PromQL of a dashboard, Grafana's own variables replaced by values that parse.
func Expressions(raw []byte) []string {
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if e, ok := v["expr"].(string); ok && e != "" {
				e = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(e)
				out = append(out, variable.ReplaceAllString(e, ".+"))
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
	var doc any
	if json.Unmarshal(raw, &doc) == nil {
		walk(doc)
	}
	return out
}
