// Package config holds ptlaunch's own settings: one struct, its flags, its PTLAUNCH_* variables and its validation.
//
// A flag beats its variable, which beats the default. It imports the standard library only, because the supervisor parses
// the run form before anything heavier is initialised; cobra takes the same flags over for the subcommands.
package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// Config is every setting of a run.
type Config struct {
	Interval     time.Duration // between two samples
	Out          string        // parent of the run folders
	NoRecord     bool          // keep nothing on disk
	Quiet        bool          // print nothing
	Name         string        // of the run, "" to derive it from the command
	JobID        string        // shared by all nodes of a job
	FlushTimeout time.Duration // how long the exit may wait for telemetry
	SpanRotation time.Duration // pieces of long spans
	RecordLimit  int64         // bytes of recording kept
	Procfs       string
	Sysfs        string
	Thresholds   string // file of adjusted thresholds
	LogLevel     string
	NoSubreaper  bool
}

// Default returns the settings without any flag or variable.
func Default() Config {
	return Config{
		Interval:     time.Second,
		Out:          "ptlaunch-runs",
		FlushTimeout: 5 * time.Second,
		SpanRotation: 10 * time.Minute,
		RecordLimit:  256 << 20,
		Procfs:       "/proc",
		Sysfs:        "/sys",
		LogLevel:     "info",
	}
}

// Bind registers the flags of c on fs; the current values of c are the defaults that help shows.
func (c *Config) Bind(fs *flag.FlagSet) {
	fs.DurationVar(&c.FlushTimeout, "flush-timeout", c.FlushTimeout, "how `long` the exit may wait for telemetry to be delivered; 0: not at all")
	fs.DurationVar(&c.Interval, "interval", c.Interval, "`time` between two samples")
	fs.StringVar(&c.JobID, "job-id", c.JobID, "`id` that all nodes of the job share: makes them one trace")
	fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "of the run folder's log: debug, info, warn or error")
	fs.StringVar(&c.Name, "name", c.Name, "`name` of the run (default: the training script's)")
	fs.BoolVar(&c.NoRecord, "no-record", c.NoRecord, "keep no run folder")
	fs.BoolVar(&c.NoSubreaper, "no-subreaper", c.NoSubreaper, "leave orphaned processes to PID 1, as without ptlaunch")
	fs.StringVar(&c.Out, "out", c.Out, "`folder` in which the run folder is made")
	fs.StringVar(&c.Procfs, "procfs", c.Procfs, "`folder` where the proc file system is mounted")
	fs.BoolVar(&c.Quiet, "quiet", c.Quiet, "print no summary at the end")
	fs.Int64Var(&c.RecordLimit, "record-limit", c.RecordLimit, "most `bytes` of recording to keep per run")
	fs.DurationVar(&c.SpanRotation, "span-rotation", c.SpanRotation, "export longer spans in pieces of this `length`")
	fs.StringVar(&c.Sysfs, "sysfs", c.Sysfs, "`folder` where the sys file system is mounted")
	fs.StringVar(&c.Thresholds, "thresholds", c.Thresholds, "JSON `file` of adjusted detection thresholds")
}

// EnvName is the variable of a flag: "flush-timeout" is PTLAUNCH_FLUSH_TIMEOUT.
func EnvName(flagName string) string {
	return "PTLAUNCH_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// ApplyEnv sets the flags of fs from their variables. Call it before fs.Parse, so that a flag beats its variable.
// An empty variable counts as unset.
func ApplyEnv(fs *flag.FlagSet) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		name := EnvName(f.Name)
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: %v", name, value, err))
		}
	})
	return errors.Join(errs...)
}

// Validate reports the first setting that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Interval <= 0:
		return fmt.Errorf("--interval %v: it must be above 0", c.Interval)
	case c.Interval < 100*time.Millisecond:
		return fmt.Errorf("--interval %v: below 100ms the sampler would cost more than it shows", c.Interval)
	case c.FlushTimeout < 0:
		return fmt.Errorf("--flush-timeout %v: it must not be negative", c.FlushTimeout)
	case c.SpanRotation < time.Second:
		return fmt.Errorf("--span-rotation %v: it must be at least 1s", c.SpanRotation)
	case c.RecordLimit < 1<<20:
		return fmt.Errorf("--record-limit %d: it must be at least 1048576 bytes", c.RecordLimit)
	case c.Out == "" && !c.NoRecord:
		return errors.New("--out is empty: name a folder, or use --no-record")
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("--log-level %q: it must be debug, info, warn or error", c.LogLevel)
	}
	return nil
}

// Map returns the settings by flag name, for the agent; FromMap is its inverse.
func (c *Config) Map() map[string]string {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	d := *c
	d.Bind(fs)
	m := map[string]string{}
	fs.VisitAll(func(f *flag.Flag) { m[f.Name] = f.Value.String() })
	return m
}

// FromMap builds a Config from what Map returned. Unknown names are ignored: they are another version's.
func FromMap(m map[string]string) (Config, error) {
	c := Default()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	c.Bind(fs)
	for name, value := range m {
		if fs.Lookup(name) == nil {
			continue
		}
		if err := fs.Set(name, value); err != nil {
			return c, fmt.Errorf("setting %s to %q: %v", name, value, err)
		}
	}
	return c, nil
}
