package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRecordings judges recorded runs of the laboratory again. A change in judgement shows here in seconds; after a look at
// it, -update takes it over. The recordings come from `go run ./test/lab -keep test/lab/testdata`.
func TestRecordings(t *testing.T) {
	known := scenarios()
	folders, err := filepath.Glob("testdata/*/recording")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		t.Fatal("no recording below testdata")
	}
	for _, recording := range folders {
		run := filepath.Dir(recording)
		name := filepath.Base(run)
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(known, func(s Scenario) bool { return s.Name == name })
			if i < 0 {
				t.Fatalf("no scenario is called %s", name)
			}
			truth, err := ReadTruth(filepath.Join(run, "truth"))
			if err != nil {
				t.Fatal(err)
			}
			scores, err := judgeRecording(known[i], truth, run)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			writeTable(&got, scores)
			compareGolden(t, filepath.Join(run, "score.txt"), got.Bytes())
		})
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		if err := os.WriteFile(path+".got", got, 0o644); err != nil {
			t.Error(err)
		}
		t.Errorf("judged differently (-want +got), now in %s.got:\n%s", path, d)
	}
}

// TestScenariosAreWhole: names are unique, and the causes and phases are ones that exist.
func TestScenariosAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if seen[s.Name] {
			t.Errorf("two scenarios are called %s", s.Name)
		}
		seen[s.Name] = true
		for phase, causes := range s.Causes {
			if !slices.Contains(lossPhases, phase) {
				t.Errorf("%s: no phase is called %s", s.Name, phase)
			}
			for _, c := range causes {
				if !slices.Contains(causesKnown, c) {
					t.Errorf("%s: no cause is called %s", s.Name, c)
				}
			}
		}
	}
}

// causesKnown is written out, not taken from package detect: the names are a public interface.
var causesKnown = []string{
	"storage_throughput", "storage_latency", "network", "too_few_workers", "cpu_limit", "worker_cpu", "no_workers", "slow_worker",
	"worker_startup", "memory", "main_thread", "checkpoint", "peer", "output_blocked", "gpu_throttled", "gpu_lost", "unknown",
}
