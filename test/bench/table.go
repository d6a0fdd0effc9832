package main

import (
	"fmt"
	"io"
	"strings"
)

// row is one line of the result.
type row struct {
	What   string
	Figure string
	Goal   string // "" when it is only for comparison
	Met    verdict
}

// verdict is whether a goal is reached.
type verdict int

const (
	noGoal verdict = iota
	reached
	missed
	unknown // a part of the comparison is missing
)

func (v verdict) String() string { return [...]string{"", "yes", "**no**", "not measured"}[v] }

// met turns a comparison into a verdict.
func met(ok bool) verdict {
	if ok {
		return reached
	}
	return missed
}

// section is a group of rows under a heading.
type section struct {
	Title string
	Rows  []row
}

// add appends a row.
func (s *section) add(r row) { s.Rows = append(s.Rows, r) }

// cost appends the figures of a tool.
func (s *section) cost(c cost) {
	if c.Missing != nil {
		s.add(row{What: c.Name, Figure: "no figure: " + c.Missing.Error()})
		return
	}
	s.add(row{What: c.Name, Figure: fmt.Sprintf("%s of a core, %s, %.1f µs per process and sample",
		percent(c.Core), megabytes(c.RSS), float64(c.PerSample.Nanoseconds())/1000)})
}

// ratio appends how two figures compare. Two costs of which one is missing compare to nothing.
func (s *section) ratio(what string, a, b float64, limit float64) {
	r := row{What: what, Goal: fmt.Sprintf("≤ %.2g", limit), Met: unknown}
	if a > 0 && b > 0 {
		r.Figure, r.Met = fmt.Sprintf("%.2f", a/b), met(a/b <= limit)
	}
	s.add(r)
}

// times appends how many times less a costs than b.
func (s *section) times(what string, a, b float64, least float64) {
	r := row{What: what, Goal: fmt.Sprintf("≥ %g times less", least), Met: unknown}
	if a > 0 && b > 0 {
		r.Figure, r.Met = fmt.Sprintf("%.1f times less", b/a), met(b/a >= least)
	}
	s.add(r)
}

func percent(core float64) string  { return fmt.Sprintf("%.2f %%", core*100) }
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// writeTables prints the sections as Markdown, which is a readable table in a terminal as well.
func writeTables(w io.Writer, sections []section) {
	for _, s := range sections {
		if len(s.Rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n### %s\n\n", s.Title)
		rows := [][4]string{{"what", "figure", "goal", "reached"}}
		for _, r := range s.Rows {
			rows = append(rows, [4]string{r.What, r.Figure, r.Goal, r.Met.String()})
		}
		writeAligned(w, rows)
	}
}

func writeAligned(w io.Writer, rows [][4]string) {
	var width [4]int
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for n, r := range rows {
		for i, cell := range r {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for i := range r {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width[i]+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}
