package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// writeTable writes one line per score, for a terminal.
func writeTable(w io.Writer, scores []Score) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(columns, "\t"))
	for _, s := range scores {
		fmt.Fprintln(tw, strings.Join(row(s), "\t"))
	}
	tw.Flush()
	for _, s := range scores {
		for _, n := range s.remarks() {
			fmt.Fprintf(w, "  %s (%s): %s\n", s.Scenario, s.Via, n)
		}
	}
}

// remarks is everything that was not as it should be.
func (s Score) remarks() []string {
	if s.PhaseError <= 5 || s.Blurred {
		return s.Notes
	}
	return append(slices.Clone(s.Notes), "phases: "+s.PhaseWorst)
}

var columns = []string{
	"scenario", "judged", "saves", "false", "size err", "mode wrong", "phase err", "stall cover", "false stalls", "cause",
}

func row(s Score) []string {
	dash := func(have bool, text string) string {
		if !have {
			return "-"
		}
		return text
	}
	phase := fmt.Sprintf("%.1f", s.PhaseError)
	if s.Blurred {
		phase = "(" + phase + ")"
	}
	return []string{
		s.Scenario, s.Via,
		dash(s.Saves > 0, fmt.Sprintf("%d/%d", s.Found, s.Saves)), fmt.Sprint(s.FalseSaves),
		dash(s.Found > 0, fmt.Sprintf("%.2f%%", 100*s.SizeError)), fmt.Sprint(s.ModeWrong),
		phase, dash(s.Lost > time.Second, fmt.Sprintf("%.0f%%", 100*float64(s.Covered)/float64(max(s.Lost, 1)))),
		fmt.Sprint(s.FalseStalls), causeWord(s),
	}
}

func causeWord(s Score) string {
	var words []string
	for _, c := range []struct {
		n    int
		word string
	}{{s.Right, "right"}, {s.Wrong, "WRONG"}, {s.Unknown, "unknown"}, {s.Missed, "missed"}} {
		switch {
		case c.n == 1:
			words = append(words, c.word)
		case c.n > 1:
			words = append(words, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// sum is the whole laboratory against its goals, for one way of judging.
type sum struct {
	saves, found, falseSaves, modeWrong, falseStalls int
	right, wrong, unknown, missed                    int
	first, later                                     []time.Duration
	size                                             float64
	phases                                           []float64
}

func add(scores []Score) sum {
	var t sum
	for _, s := range scores {
		t.saves += s.Saves
		t.found += s.Found
		t.falseSaves += s.FalseSaves
		t.modeWrong += s.ModeWrong
		t.falseStalls += s.FalseStalls
		t.right += s.Right
		t.wrong += s.Wrong
		t.unknown += s.Unknown
		t.missed += s.Missed
		t.first = slices.Concat(t.first, s.First.Start, s.First.End)
		t.later = slices.Concat(t.later, s.Later.Start, s.Later.End)
		t.size = max(t.size, s.SizeError)
		if !s.Blurred {
			t.phases = append(t.phases, s.PhaseError)
		}
	}
	return t
}

// quantile of a list that need not be sorted; 0 of an empty one.
func quantile[T time.Duration | float64](list []T, q float64) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// writeGoals writes the sums as Markdown, beside what they aim at.
func writeGoals(w io.Writer, byVia map[string][]Score, vias []string) {
	fmt.Fprintf(w, "| figure | goal | %s |\n|---|---|%s\n", strings.Join(vias, " | "), strings.Repeat("---|", len(vias)))
	for _, line := range []struct {
		name, goal string
		value      func(sum) string
	}{
		{"saves of 32 MB or more found", "all", func(t sum) string { return fmt.Sprintf("%d of %d", t.found, t.saves) }},
		{"saves reported that were none", "0", func(t sum) string { return fmt.Sprint(t.falseSaves) }},
		{"start and end of the first save in a folder: median, 95 %", "60 ms, 250 ms", func(t sum) string { return edges(t.first) }},
		{"start and end of later saves: median, 95 %", "5 ms, 50 ms", func(t sum) string { return edges(t.later) }},
		{"largest error of a save's size", "1 %", func(t sum) string { return fmt.Sprintf("%.2f %%", 100*t.size) }},
		{"saves called blocking that were not, or the other way", "0", func(t sum) string { return fmt.Sprint(t.modeWrong) }},
		{"error of phase shares: median, largest", "5 points (10 without ptrace)", func(t sum) string {
			return fmt.Sprintf("%.1f, %.1f", quantile(t.phases, 0.5), quantile(t.phases, 1))
		}},
		{"causes of losses of 10 % or more: right", "95 %", func(t sum) string {
			return fmt.Sprintf("%d of %d", t.right, t.right+t.wrong+t.unknown+t.missed)
		}},
		{"… wrong", "2 %", func(t sum) string { return fmt.Sprint(t.wrong) }},
		{"… unknown", "the rest", func(t sum) string { return fmt.Sprint(t.unknown) }},
		{"… nothing said", "0", func(t sum) string { return fmt.Sprint(t.missed) }},
		{"stalls reported that were none", "0", func(t sum) string { return fmt.Sprint(t.falseStalls) }},
	} {
		fmt.Fprintf(w, "| %s | %s |", line.name, line.goal)
		for _, via := range vias {
			fmt.Fprintf(w, " %s |", line.value(add(byVia[via])))
		}
		fmt.Fprintln(w)
	}
}

func edges(list []time.Duration) string {
	if len(list) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f ms, %.0f ms", quantile(list, 0.5).Seconds()*1e3, quantile(list, 0.95).Seconds()*1e3)
}

// writeMarkdown writes docs/accuracy.md.
func writeMarkdown(w io.Writer, scores []Score, machine string) {
	fmt.Fprint(w, `# How well the verdict holds

Written by `+"`make lab`"+`: real PyTorch jobs that log what they really do, judged by ptlaunch and scored against their logs
(test/lab says how). "live" is what the run published; "replay" is the same recording judged again; "no ptrace" is the
recording without what a user under Yama's ptrace_scope 1 cannot read.

`)
	fmt.Fprintf(w, "Machine: %s.\n\n## Against the goals\n\n", machine)
	byVia := map[string][]Score{}
	var vias []string
	for _, s := range scores {
		if byVia[s.Via] == nil {
			vias = append(vias, s.Via)
		}
		byVia[s.Via] = append(byVia[s.Via], s)
	}
	writeGoals(w, byVia, vias)
	fmt.Fprintf(w, "\n## By scenario\n\nPhase errors are in points of the wall time; those in brackets cannot be told apart from outside and are not held against the goal.\n\n| %s |\n|%s\n",
		strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, s := range scores {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row(s), " | "))
	}
	fmt.Fprint(w, "\n## What went wrong\n\n")
	clean := true
	for _, s := range scores {
		for _, n := range s.remarks() {
			clean = false
			fmt.Fprintf(w, "- %s (%s): %s\n", s.Scenario, s.Via, n)
		}
	}
	if clean {
		fmt.Fprintln(w, "Nothing.")
	}
}
