package launcher_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

var update = flag.Bool("update", false, "measure every wrapper and rewrite the comparison in docs/exec.md")

const (
	comparisonDoc   = "../docs/exec.md"
	comparisonBegin = "<!-- written by: go test ./launcher -run TestComparison -update -->\n"
	comparisonEnd   = "<!-- end of the comparison -->\n"
)

// ignoredAtStart is the one case in which a build without cgo is worse: see withoutConstructor.
const ignoredAtStart = "QUIT, PIPE, TERM ignored at the start"

// compared are the columns of the table.
var compared = []wrapper{bare, tini, dumbInit, dumbInitChild, ptlaunch}

// comparison is one row: a case, how to measure it, and what a run that is as good as bare shows.
type comparison struct {
	name string
	run  func(t *testing.T, w wrapper) string
	want string // of ptlaunch
	// bare is what the command shows alone where that is not the same: as PID 1.
	bare string
}

func comparisons() []comparison {
	rows := []comparison{
		{name: "Ctrl-C, INTs received", run: compareKey, want: "1"},
		{name: "Ctrl-Z, the prompt comes back", run: compareStop, want: "yes"},
		{name: "`cmd &`, then `kill %1`: TERMs received", run: compareBackground, want: "1"},
		{name: "background read of the terminal stops, `fg`", run: compareRead, want: "yes"},
		{name: "terminal resized, WINCHs received", run: compareResize, want: "1"},
		{name: "kill(pid), TERMs received", run: compareSend(toPid), want: "1"},
		{name: "killpg, TERMs received", run: compareSend(toGroup), want: "1"},
		{name: "kill every process (Slurm, systemd), TERMs received", run: compareSend(toAll), want: "1"},
		{name: ignoredAtStart, run: compareIgnored, want: "stay ignored"},
		{name: "CHLD ignored at the start", run: compareChild, want: "ok"},
		{name: "the job closes stdout: its reader sees EOF", run: compareEOF, want: "at once"},
		{name: "the job closes stdin: its writer gets EPIPE", run: compareEPIPE, want: "at once"},
		{name: "PID 1: zombies left of 200 orphans", run: compareOrphans, want: "0", bare: "200"},
		{name: "PID 1: TERM to a job without handler", run: comparePID1, want: "exit code 143", bare: "ignored"},
	}
	for _, c := range []struct{ name, start, want string }{
		{"file without `#!`", "no #!", "runs"},
		{"not found", "not found", "127"},
		{"not executable", "not executable", "126"},
		{"directory", "directory", "126"},
		{"interpreter missing", "bad interpreter", "127"},
		{"found by an empty element of PATH", "empty element of PATH", "runs"},
		{"PATH unset", "PATH unset", "runs"},
	} {
		rows = append(rows, comparison{name: c.name, run: compareStart(c.start), want: c.want})
	}
	return rows
}

// TestComparison measures bare and ptlaunch in every case, and wants the table in the documentation to say just that. With
// -update it measures all and writes the table.
func TestComparison(t *testing.T) {
	rows := comparisons()
	measured := make([]map[wrapper]string, len(rows))
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for i, c := range rows {
			measured[i] = map[wrapper]string{}
			for _, w := range compared {
				if w != bare && w != ptlaunch && !*update {
					continue
				}
				t.Run(c.name+"/"+string(w), func(t *testing.T) {
					t.Parallel()
					got := c.run(t, w)
					mu.Lock()
					defer mu.Unlock()
					measured[i][w] = got
				})
			}
		}
	})
	if *update {
		writeComparison(t, rows, measured)
	}
	table := readComparison(t)
	if len(table) != len(rows) {
		t.Errorf("%s has %d rows, want %d: run with -update", comparisonDoc, len(table), len(rows))
	}
	for i, c := range rows {
		if !inherited.Read().Exact && c.name == ignoredAtStart {
			measured[i][ptlaunch] = withoutConstructorText(t, measured[i][ptlaunch], c.want)
		}
		want := map[wrapper]string{ptlaunch: c.want, bare: c.want}
		if c.bare != "" {
			want[bare] = c.bare
		}
		for w, text := range want {
			if got := measured[i][w]; got != text {
				t.Errorf("%s, %s: measured %q, want %q", c.name, w, got, text)
			}
			if got := table[c.name][w]; got != measured[i][w] {
				t.Errorf("%s, %s: %s says %q, measured %q: run with -update", c.name, w, comparisonDoc, got, measured[i][w])
			}
		}
	}
}

// withoutConstructorText wants a build without cgo to ignore none of them, and returns what the normal build does.
func withoutConstructorText(t *testing.T, got, normal string) string {
	t.Helper()
	if got != "none stays" {
		t.Errorf("%s: without cgo measured %q, want none stays", ignoredAtStart, got)
	}
	return normal
}

// readComparison returns the committed table: row, column, cell.
func readComparison(t *testing.T) map[string]map[wrapper]string {
	t.Helper()
	_, table, _ := cutComparison(t)
	out := map[string]map[wrapper]string{}
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if i < 2 || len(cells) != len(compared)+1 {
			continue
		}
		row := map[wrapper]string{}
		for n, w := range compared {
			row[w] = strings.TrimSpace(cells[n+1])
		}
		out[strings.TrimSpace(cells[0])] = row
	}
	return out
}

func writeComparison(t *testing.T, rows []comparison, measured []map[wrapper]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Case |")
	for _, w := range compared {
		name := string(w)
		if w == tini {
			name = "tini -s"
		}
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(compared)) + "\n")
	for i, c := range rows {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, w := range compared {
			fmt.Fprintf(&b, " %s |", measured[i][w])
		}
		b.WriteString("\n")
	}
	before, _, after := cutComparison(t)
	if err := os.WriteFile(comparisonDoc, []byte(before+b.String()+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cutComparison splits the page into what comes before the table, the table, and what comes after it.
func cutComparison(t *testing.T) (before, table, after string) {
	t.Helper()
	page, err := os.ReadFile(comparisonDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), comparisonBegin)
	table, after, ok2 := strings.Cut(rest, comparisonEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", comparisonDoc)
	}
	return before + comparisonBegin, table, comparisonEnd + after
}

// patience is how long a wrapper may take to do what bare does at once. Those that we promise something about get all the time
// of a busy machine; of the others we only want to know.
func (w wrapper) patience() time.Duration {
	if w == bare || w == ptlaunch {
		return deadline
	}
	return 4 * time.Second
}

// comes reports whether ok becomes true while the wrapper's patience lasts.
func (w wrapper) comes(ok func() bool) bool {
	for end := time.Now().Add(w.patience()); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// spread says how often something came in several tries: "1", or "1 to 2".
func spread(counts []int) string {
	low, high := counts[0], counts[0]
	for _, n := range counts {
		low, high = min(low, n), max(high, n)
	}
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
