package otlpread

import "time"

// Span is one exported span.
type Span struct {
	Name, TraceID, SpanID, ParentID string
	Start, End                      time.Time
	Attrs                           Attrs
	Error                           bool // its status is Error
}

// Final says that it is a whole span and not a piece of one that goes on.
func (s Span) Final() bool { return s.Attrs["ptlaunch.span.final"] != false }

// Spans reads spans.otlp.jsonl.
func Spans(path string) ([]Span, error) {
	type request struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					Name, TraceID, SpanID, ParentSpanID string
					StartTimeUnixNano, EndTimeUnixNano  nanos
					Attributes                          []keyValue
					Status                              struct{ Code int }
				}
			}
		}
	}
	var all []Span
	err := eachLine(path, func(r request) {
		for _, rs := range r.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					all = append(all, Span{
						Name: s.Name, TraceID: s.TraceID, SpanID: s.SpanID, ParentID: s.ParentSpanID,
						Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
						Attrs: attrs(s.Attributes), Error: s.Status.Code == 2,
					})
				}
			}
		}
	})
	return all, err
}
