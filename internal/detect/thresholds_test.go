package detect_test

import (
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/detect"
)

func TestEveryThresholdIsDocumentedAndSet(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range detect.Default().List() {
		if e.Name == "" || e.Unit == "" || e.Origin == "" || e.Doc == "" {
			t.Errorf("not documented: %+v", e)
		}
		if e.Value <= 0 {
			t.Errorf("%s is %v by default", e.Name, e.Value)
		}
		if seen[e.Name] {
			t.Errorf("%s twice", e.Name)
		}
		seen[e.Name] = true
	}
}

func TestReadThresholds(t *testing.T) {
	for _, c := range []struct{ text, err string }{
		{`{}`, ""},
		{`{"stall_open_share": 0.5}`, ""},
		{`{"stall_open_shares": 0.5}`, "stall_open_shares"},
		{`{"stall_open_share": "a lot"}`, "stall_open_share"},
		{`{"stall_open_share": -1}`, "stall_open_share is negative"},
		{`{} {}`, "text after the object"},
		{``, "EOF"},
	} {
		got, err := detect.ReadThresholds(strings.NewReader(c.text))
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want %q in it", c.text, err, c.err)
		}
		want := detect.Default()
		if strings.Contains(c.text, "0.5") && c.err == "" {
			want.StallOpenShare = 0.5
		}
		if got != want {
			t.Errorf("%s: %+v", c.text, got)
		}
	}
}
