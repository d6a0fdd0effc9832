package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Status is how much of a source can be read.
type Status string

// The statuses.
const (
	Available   Status = "available"
	Degraded    Status = "degraded" // readable, with something missing
	Unavailable Status = "unavailable"
)

// Source is one row of the table.
type Source struct {
	Name   string `json:"name"`  // "process I/O"
	Shows  string `json:"shows"` // what it is needed for
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"` // why it is not available, or a fact worth knowing when it is
	Fix    string `json:"fix,omitempty"`    // what would open it, "" when nothing would
	// Caveat is what a report has to say when the source is not available: "" when nobody misses it (no GPU in the machine).
	Caveat string `json:"caveat,omitempty"`
}

// Report is the whole table.
type Report struct {
	Kernel    string   `json:"kernel"` // release
	UID       int      `json:"uid"`
	PID       int32    `json:"pid,omitempty"` // the process examined, 0 for ptlaunch's own
	Container string   `json:"container,omitempty"`
	Sources   []Source `json:"sources"`
}

// Caveats are the report's sentences about what could not be observed, in the order of the table.
func Caveats(r Report) []string {
	var out []string
	for _, s := range r.Sources {
		if s.Status == Available || s.Caveat == "" {
			continue
		}
		line := s.Caveat
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		out = append(out, line)
	}
	return out
}

// WriteJSON writes the report for a program.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report for a person: a line per source, and below it why and what to do.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Linux %s, uid %d", r.Kernel, r.UID)
	if r.Container != "" {
		fmt.Fprintf(&b, ", in %s", r.Container)
	}
	if r.PID != 0 {
		fmt.Fprintf(&b, ", looking at process %d", r.PID)
	}
	b.WriteString("\n\n")
	name := 0
	for _, s := range r.Sources {
		name = max(name, len(s.Name))
	}
	count := map[Status]int{}
	for _, s := range r.Sources {
		count[s.Status]++
		fmt.Fprintf(&b, "%-*s  %-11s  %s\n", name, s.Name, s.Status, s.Shows)
		indent := strings.Repeat(" ", name+2)
		switch {
		case s.Reason != "" && s.Status == Available:
			fmt.Fprintf(&b, "%s%s\n", indent, s.Reason)
		case s.Reason != "":
			fmt.Fprintf(&b, "%swhy: %s\n", indent, s.Reason)
		}
		if s.Fix != "" {
			fmt.Fprintf(&b, "%sfix: %s\n", indent, s.Fix)
		}
	}
	fmt.Fprintf(&b, "\n%d available, %d degraded, %d unavailable\n", count[Available], count[Degraded], count[Unavailable])
	_, err := io.WriteString(w, b.String())
	return err
}
