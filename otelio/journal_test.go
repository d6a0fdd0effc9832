package otelio

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLongRunsKeepFewerExports: a metrics file beyond its full resolution keeps every second export, and always the last.
func TestLongRunsKeepFewerExports(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, metrics.wire().file)
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, dir, env())
	<-s.journal.ready
	s.cfg.Wait = true
	s.journal.sizes[metrics] = fullResolution // no line has been handed over yet
	consume(s, 1, 52)                         // exports at seconds 1, 11, … 51
	if err := closeWithin(t, s, 20e9, 52); err != nil {
		t.Fatal(err)
	}
	if n := len(readRequests(t, dir, metrics)); n != 4 {
		t.Errorf("%d exports in the file, want the 2nd, 4th and 6th and the last", n)
	}
	for size, want := range map[int64]int64{0: 1, fullResolution - 1: 1, fullResolution: 2, 3 * fullResolution: 8} {
		if got := keepEvery(size); got != want {
			t.Errorf("of a file of %d bytes one in %d is kept, want %d", size, got, want)
		}
	}
}

// TestUnwritableFolder: the run goes on and the endpoint's telemetry with it.
func TestUnwritableFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := newSink(t, dir, env())
	consume(s, 1, 5)
	if err := closeWithin(t, s, 10e9, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
}
