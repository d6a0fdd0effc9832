package early

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := []struct {
		args    []string
		ours    bool
		bad     bool
		command []string
	}{
		{args: nil},
		{args: []string{"--help"}},
		{args: []string{"-h"}},
		{args: []string{"--quiet", "--help"}},
		{args: []string{"--version"}},
		{args: []string{"attach", "5"}},
		{args: []string{"report", "--", "-x"}},
		{args: []string{"--quiet", "report", "x"}},
		{args: []string{"__complete", "rep"}},
		{args: []string{"--", "report"}, ours: true, command: []string{"report"}},
		{args: []string{"--", "--help"}, ours: true, command: []string{"--help"}},
		{args: []string{"--", "a", "--", "b"}, ours: true, command: []string{"a", "--", "b"}},
		{args: []string{"--name=--", "--", "a"}, ours: true, command: []string{"a"}},
		{args: []string{"--name", "--", "a"}, ours: true, bad: true, command: []string{"a"}},
		{args: []string{"train.py"}, ours: true, bad: true},
		{args: []string{"--"}, ours: true, bad: true, command: []string{}},
		{args: []string{"--nope", "--", "a"}, ours: true, bad: true, command: []string{"a"}},
	}
	for _, tt := range tests {
		form, ok := parse(tt.args)
		if ok != tt.ours || (form.err != nil) != tt.bad && ok {
			t.Errorf("%q: ours %v, error %v", tt.args, ok, form.err)
		}
		if ok {
			if diff := cmp.Diff(tt.command, form.command); diff != "" {
				t.Errorf("%q: %s", tt.args, diff)
			}
		}
	}
}

// TestFlagBeatsVariable, which beats the default.
func TestFlagBeatsVariable(t *testing.T) {
	t.Setenv("PTLAUNCH_INTERVAL", "3s")
	t.Setenv("PTLAUNCH_FLUSH_TIMEOUT", "4s")
	form, ok := parse([]string{"--interval", "2s", "--", "a"})
	if !ok || form.err != nil {
		t.Fatalf("%v, %v", ok, form.err)
	}
	if form.cfg.Interval != 2*time.Second || form.cfg.FlushTimeout != 4*time.Second {
		t.Errorf("interval %v, flush timeout %v", form.cfg.Interval, form.cfg.FlushTimeout)
	}
}
