package config

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	c := Default()
	fs := flag.NewFlagSet("ptlaunch", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.Bind(fs)
	if err := ApplyEnv(fs); err != nil {
		return c, err
	}
	return c, fs.Parse(args)
}

// TestPrecedence: a flag beats its variable, which beats the default; an empty variable counts as unset.
func TestPrecedence(t *testing.T) {
	t.Setenv("PTLAUNCH_INTERVAL", "2s")
	t.Setenv("PTLAUNCH_OUT", "/from/env")
	t.Setenv("PTLAUNCH_NO_RECORD", "")
	t.Setenv("PTLAUNCH_JOB_ID", "exp")
	got, err := parse(t, "--interval", "500ms", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Interval, want.Out, want.JobID, want.Quiet = 500*time.Millisecond, "/from/env", "exp", true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestBadVariableIsNamed(t *testing.T) {
	t.Setenv("PTLAUNCH_FLUSH_TIMEOUT", "soon")
	if _, err := parse(t); err == nil || !strings.Contains(err.Error(), `PTLAUNCH_FLUSH_TIMEOUT="soon"`) {
		t.Errorf("error is %v, want one that names the variable and its value", err)
	}
}

func TestValidate(t *testing.T) {
	ok := Default()
	if err := ok.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	tests := map[string]func(*Config){
		"--interval":      func(c *Config) { c.Interval = 0 },
		"--interval -1s":  func(c *Config) { c.Interval = -time.Second },
		"--interval 1ms":  func(c *Config) { c.Interval = time.Millisecond },
		"--flush-timeout": func(c *Config) { c.FlushTimeout = -1 },
		"--span-rotation": func(c *Config) { c.SpanRotation = 0 },
		"--record-limit":  func(c *Config) { c.RecordLimit = 1 },
		"--out":           func(c *Config) { c.Out = "" },
		"--log-level":     func(c *Config) { c.LogLevel = "loud" },
	}
	for want, change := range tests {
		t.Run(want, func(t *testing.T) {
			c := Default()
			change(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Validate() = %v, want an error that names %s", err, want)
			}
		})
	}
	noRecord := Default()
	noRecord.Out, noRecord.NoRecord = "", true
	if err := noRecord.Validate(); err != nil {
		t.Errorf("no folder with --no-record is refused: %v", err)
	}
}

// TestMap: the agent gets every setting the supervisor parsed; unknown ones are another version's.
func TestMap(t *testing.T) {
	c := Default()
	c.Interval, c.Name, c.NoSubreaper, c.RecordLimit, c.Thresholds = time.Minute, "a b", true, 5<<20, "/t.json"
	m := c.Map()
	m["from-the-future"] = "1"
	got, err := FromMap(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if _, err := FromMap(map[string]string{"interval": "never"}); err == nil {
		t.Error("a malformed setting is accepted")
	}
}
