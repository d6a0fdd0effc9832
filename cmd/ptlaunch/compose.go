package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
)

// plan says what compose is to wire. Live and replayed runs differ in Source and in where the results go, in nothing else.
type plan struct {
	run        model.Run
	bootOffset time.Duration // CLOCK_BOOTTIME less CLOCK_MONOTONIC on the machine of the run
	thresholds detect.Thresholds
	log        *slog.Logger

	source agent.Source
	resume agent.Source // what an earlier agent of this run recorded, nil for the first
	sinks  []agent.Sink
	blind  func() []string // what the machine does not show
	// saveReport keeps report.json, nil to keep nothing.
	saveReport func([]byte) error

	notices <-chan agent.Notice
	over    func(*model.Frame) (model.Outcome, bool)
	budget  time.Duration
}

// compose wires source, builder, detectors and sinks. It is the only place that does, for run, attach and replay alike.
func compose(p plan) (*agent.Agent, *report.Recorder, error) {
	thresholds, err := json.Marshal(p.thresholds)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the thresholds: %v", err)
	}
	recorder := report.NewRecorder(report.Options{Run: p.run, Thresholds: thresholds, Blind: p.blind, Save: p.saveReport})
	return &agent.Agent{
		Source:  p.source,
		Builder: model.NewBuilder(model.BuilderConfig{Root: p.run.Root, BootOffset: p.bootOffset}),
		Judge:   detect.NewSet(p.thresholds),
		Report:  recorder,
		Sinks:   p.sinks,
		Log:     p.log,
		Notices: p.notices,
		Over:    p.over,
		Now:     monotonic,
		Resume:  p.resume,
		Budget:  p.budget,
	}, recorder, nil
}

// loadThresholds reads the file of adjusted thresholds, relative to dir; the defaults when there is none.
func loadThresholds(path, dir string) (detect.Thresholds, error) {
	if path == "" {
		return detect.Default(), nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return detect.Default(), fmt.Errorf("read thresholds: %v", err)
	}
	defer f.Close()
	t, err := detect.ReadThresholds(f)
	if err != nil {
		return t, fmt.Errorf("%s: %v", path, err)
	}
	return t, nil
}

// parseThresholds reads the thresholds that a manifest holds; the defaults when another version wrote them.
func parseThresholds(data []byte) detect.Thresholds {
	t, err := detect.ReadThresholds(bytes.NewReader(data))
	if err != nil {
		return detect.Default()
	}
	return t
}

// openLog makes the run folder's log; the returned function closes it.
func openLog(folder *runfolder.Folder, level string) (*slog.Logger, func()) {
	if folder == nil {
		return slog.New(slog.DiscardHandler), func() {}
	}
	f, err := os.OpenFile(filepath.Join(folder.Path, runfolder.LogName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return slog.New(slog.DiscardHandler), func() {}
	}
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: logLevel(level)})), func() { f.Close() }
}

func logLevel(word string) slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(strings.ToUpper(word))) != nil {
		return slog.LevelInfo
	}
	return l
}

// monotonic is CLOCK_MONOTONIC.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: the clock exists and ts is ours
	return time.Duration(ts.Nano())
}

// bootOffset is CLOCK_BOOTTIME less CLOCK_MONOTONIC: how long the machine was suspended. Start times in /proc count it.
func bootOffset() time.Duration {
	var boot, mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	offset := time.Duration(boot.Nano() - mono.Nano())
	if offset < 10*time.Millisecond { // the two were read one after the other
		return 0
	}
	return offset
}
