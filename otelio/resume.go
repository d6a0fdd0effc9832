package otelio

import (
	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// Resume takes over a step that an earlier agent of the same run had already consumed: totals and open spans continue from
// it, and what it ended is not sent a second time. Span ids are derived from what a span is of, so those that children of the
// earlier agent point to are the ones that this one will end.
func (s *Sink) Resume(f *model.Frame, found *detect.Findings) {
	s.clock.see(f)
	s.events.runStarted(&s.cfg.Run)
	s.meter.consume(f, found)
	s.spans.consume(f, found)
	s.events.step(f, s.spans.parentOf)
	s.tracer.take()
	s.events.take()
}
