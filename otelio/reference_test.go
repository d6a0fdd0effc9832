package otelio

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/detect"
)

var update = flag.Bool("update", false, "write the metrics table of docs/telemetry.md anew")

// metricsTable is the catalogue as a Markdown table.
func metricsTable() string {
	var b strings.Builder
	b.WriteString("\n| metric | kind, unit | attributes | what it says |\n|---|---|---|---|\n")
	for _, m := range Catalogue() {
		var attrs []string
		if m.Process {
			attrs = append(attrs, "*process*")
		}
		if m.Rank {
			attrs = append(attrs, "`pytorch.rank`")
		}
		for _, a := range m.Attributes {
			attrs = append(attrs, "`"+a+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s, %s | %s | %s |\n", m.Name, m.Kind, m.Unit, strings.Join(attrs, ", "), m.Description)
	}
	return b.String()
}

// TestReference: docs/telemetry.md has the catalogue's table, and names every span, event and cause that there is.
func TestReference(t *testing.T) {
	const name, from, to = "../docs/telemetry.md", " -update` -->", "\n<!-- end of metrics -->"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), from)
	table, tail, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of its metrics table", name)
	}
	want := "\n" + metricsTable()
	if *update {
		if err := os.WriteFile(name, []byte(head+from+want+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		table = want
	}
	if table != want {
		t.Errorf("the metrics table of %s differs from the catalogue: run go test ./otelio -run TestReference -update", name)
	}
	for _, word := range []string{spanRun, spanNode, spanRank, spanPool, spanCheckpoint, spanStall, eventRunStarted, eventStallOpened, eventStallClosed,
		eventCheckpoint, eventWorkerDied, eventRankDied, eventSourceLost} {
		if !strings.Contains(head+tail, "`"+word+"`") {
			t.Errorf("%s does not name %s", name, word)
		}
	}
	for _, c := range []detect.Cause{detect.CauseStorageThroughput, detect.CauseStorageLatency, detect.CauseNetwork, detect.CauseTooFewWorkers,
		detect.CauseCPULimit, detect.CauseWorkerCPU, detect.CauseNoWorkers, detect.CauseSlowWorker, detect.CauseWorkerStartup, detect.CauseMemory,
		detect.CauseMainThread, detect.CauseCheckpoint, detect.CausePeer, detect.CauseOutputBlocked, detect.CauseGPUThrottled, detect.CauseGPULost,
		detect.CauseUnknown} {
		if !strings.Contains(head+tail, "| `"+string(c)+"` |") {
			t.Errorf("%s does not name the cause %s", name, c)
		}
	}
	for _, p := range detect.Phases {
		if !strings.Contains(head+tail, "`"+string(p)+"`") {
			t.Errorf("%s does not name the phase %s", name, p)
		}
	}
}
