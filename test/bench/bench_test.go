package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

func TestParseRunTime(t *testing.T) {
	got, err := parseRunTime("4990557129 17 33\n")
	if err != nil || got != 4990557129 {
		t.Errorf("parseRunTime = %d, %v; want 4990557129 ns", got, err)
	}
	for _, bad := range []string{"", "1 2", "x 2 3"} {
		if _, err := parseRunTime(bad); err == nil {
			t.Errorf("parseRunTime(%q) did not fail", bad)
		}
	}
}

func TestParseResident(t *testing.T) {
	got, err := parseResident("700 300 200 1 0 90 0\n")
	if want := int64(300 * os.Getpagesize()); err != nil || got != want {
		t.Errorf("parseResident = %d, %v; want %d", got, err, want)
	}
	if _, err := parseResident("700"); err == nil {
		t.Error("parseResident of one field did not fail")
	}
}

func TestReadUsageOfThisProcess(t *testing.T) {
	before, err := readUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if before.RSS < 1<<20 {
		t.Errorf("resident memory %d bytes: a Go program has more", before.RSS)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if after, err := readUsage(os.Getpid()); err == nil && after.CPU > before.CPU {
			return
		}
	}
	t.Error("a minute of work shows no CPU time")
}

func TestReadUsageOfAnEndedProcess(t *testing.T) {
	if _, err := readUsage(1 << 30); err == nil {
		t.Error("no error for a process that cannot exist")
	}
}

func TestParentOf(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (python3) S 7 12 12 0":       7,
		"12 (a) R 3) (b) S 9 12 12 0 -1": 9,
		"12 (x":                          0,
		"":                               0,
	} {
		if got := parentOf(stat); got != want {
			t.Errorf("parentOf(%q) = %d, want %d", stat, got, want)
		}
	}
}

func TestDescendantsHoldTheRoot(t *testing.T) {
	if got := descendants(os.Getpid()); len(got) == 0 || got[0] != os.Getpid() {
		t.Errorf("descendants = %v, want this process first", got)
	}
}

func TestVerdicts(t *testing.T) {
	var s section
	s.ratio("low", 3, 2, 1.6)
	s.ratio("high", 4, 2, 1.6)
	s.ratio("missing", 0, 2, 1.6)
	s.times("enough", 1, 8, 8)
	s.times("too few", 1, 7, 8)
	s.times("missing", 1, 0, 8)
	var got []verdict
	for _, r := range s.Rows {
		got = append(got, r.Met)
	}
	if diff := cmp.Diff([]verdict{reached, missed, unknown, reached, missed, unknown}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	var s section
	s.Title = "Title"
	s.cost(cost{Name: "tool", Core: 0.0123, RSS: 2_500_000, PerSample: 4200 * time.Nanosecond})
	s.cost(cost{Name: "peer", Missing: errMissing})
	s.ratio("a / b", 1, 2, 1)
	var b strings.Builder
	writeTables(&b, []section{s, {Title: "empty"}})
	for _, text := range []string{"### Title", "1.23 % of a core, 2.5 MB, 4.2 µs per process and sample", "no figure: not on this machine", "| 0.50 "} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, b.String())
		}
	}
	if strings.Contains(b.String(), "empty") {
		t.Error("a section without rows is in the table")
	}
}

func TestPutIntoDocs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(file, []byte("before\n"+docsBegin+"old\n"+docsEnd+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sec := section{Title: "New"}
	sec.add(row{What: "x", Figure: "1"})
	if err := putIntoDocs(file, "A machine.", []section{sec}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") || strings.Contains(got, "old") || !strings.Contains(got, "### New") {
		t.Errorf("the documentation became:\n%s", got)
	}
	if err := os.WriteFile(file, []byte("no markers"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := putIntoDocs(file, "", nil); err == nil {
		t.Error("no error for a file without markers")
	}
}

func TestNewSeries(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	point := func(worker string, s int) otlpread.Point {
		return otlpread.Point{Metric: "m", Attrs: otlpread.Attrs{"worker": worker}, Time: at(s)}
	}
	before, after := newSeries([]otlpread.Point{point("0", 0), point("1", 5), point("0", 10), point("1", 9), point("2", 10)})
	if before != 2 || after != 1 {
		t.Errorf("%d series in the first half and %d new ones, want 2 and 1", before, after)
	}
}
