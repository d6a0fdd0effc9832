package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/otelio"
)

// sinks are everything that takes findings elsewhere.
type sinks struct {
	list  []agent.Sink
	notes []string // what could not be opened, for a person
	otel  *otelio.Sink
}

// openSinks opens OpenTelemetry: the run folder's files, and the endpoint that the OTEL_* variables name.
func openSinks(ctx context.Context, o observation, run model.Run, log *slog.Logger) *sinks {
	s := &sinks{}
	otel, err := otelio.New(ctx, otelio.Config{
		Run: run, Dir: run.Dir, Lookup: lookup(o.launchEnv), SpanRotation: o.cfg.SpanRotation, Logger: log, Procfs: o.cfg.Procfs,
	})
	if err != nil {
		log.Error("open OpenTelemetry", "err", err)
		s.notes = append(s.notes, "No OpenTelemetry: "+err.Error()+".")
		return s
	}
	s.otel = otel
	s.notes = s.problems(nil) // of the settings
	s.list = append(s.list, otel)
	return s
}

// problems are what was wrong with settings and delivery, one line each. When something could not be delivered in the end,
// that one line stands for all that went wrong on the way there, which the log has.
func (s *sinks) problems(undelivered []string) []string {
	lines := undelivered
	if s.otel != nil && len(undelivered) == 0 {
		lines = s.otel.Problems()
	}
	var out []string
	for _, p := range lines {
		if line := "Telemetry: " + strings.TrimSuffix(p, ".") + "."; !slices.Contains(s.notes, line) {
			out = append(out, line)
		}
	}
	return out
}

// lookup reads variables from a recorded environment, or from our own when it is nil.
func lookup(environ []string) otelio.Lookup {
	if environ == nil {
		return os.LookupEnv
	}
	return func(name string) (string, bool) {
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
}
