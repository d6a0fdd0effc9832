package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
	"github.com/ptlaunch/ptlaunch/internal/sampler"
	"github.com/ptlaunch/ptlaunch/internal/sampler/hostfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// liveSource is the sampler with the agent's own figures in each snapshot.
type liveSource struct {
	source agent.Source
	close  func()
}

// openSource opens the sampler, or, when the job cannot be observed at all, a source that says so.
func openSource(o observation, log *slog.Logger) liveSource {
	s, err := sampler.New(sampler.Config{
		Procfs: o.cfg.Procfs, Interval: o.cfg.Interval, Root: o.root, RootIsMember: o.attached, Job: o.job,
		Exclude: []int32{int32(os.Getpid())}, Parts: parts(o), Log: log,
	})
	meter := &selfMeter{restarted: o.generation > 0}
	if err != nil {
		log.Error("start the sampler", "err", err)
		meter.from = &blind{gap: blindGap(err)}
		return liveSource{source: meter, close: func() {}}
	}
	meter.from = s
	return liveSource{source: meter, close: func() {
		if err := s.Close(); err != nil {
			log.Warn("close the sampler", "err", err)
		}
	}}
}

// parts are the sources beside the processes.
func parts(o observation) []sampler.Part {
	return []sampler.Part{hostfs.New(o.cfg.Procfs)}
}

// blind is the source of a run that cannot be observed: snapshots that hold nothing but the reason.
type blind struct {
	gap  snapshot.Gap
	said bool
}

func blindGap(err error) snapshot.Gap {
	g := snapshot.Gap{Source: "procfs", Reason: snapshot.GapUnsupported, Detail: err.Error()}
	switch {
	case errors.Is(err, fs.ErrPermission):
		g.Reason = snapshot.GapDenied
	case errors.Is(err, fs.ErrNotExist):
		g.Reason = snapshot.GapGone
	}
	return g
}

// Next yields one snapshot and then waits for the end.
func (b *blind) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	if b.said {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b.said = true
	return &snapshot.Snapshot{Seq: 1, Wall: time.Now(), Mono: monotonic(), Gaps: []snapshot.Gap{b.gap}}, nil
}

// selfMeter adds to each snapshot what ptlaunch itself costs and, to the first one of a restarted agent, that nothing was
// seen before it.
type selfMeter struct {
	from      agent.Source
	restarted bool
	dropped   func() map[string]uint64
}

func (m *selfMeter) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	snap, err := m.from.Next(ctx)
	return m.complete(snap), err
}

// Last implements agent.LastSource where the source does.
func (m *selfMeter) Last(ctx context.Context) (*snapshot.Snapshot, error) {
	last, ok := m.from.(agent.LastSource)
	if !ok {
		return nil, errNoLast
	}
	snap, err := last.Last(ctx)
	return m.complete(snap), err
}

var errNoLast = errors.New("the source takes no last sample")

func (m *selfMeter) complete(snap *snapshot.Snapshot) *snapshot.Snapshot {
	if snap == nil {
		return nil
	}
	if m.restarted {
		m.restarted = false
		snap.Gaps = append(snap.Gaps, snapshot.Gap{
			Source: report.SourceAgent, Reason: snapshot.GapGone, Detail: "the agent was started again: nothing was seen meanwhile",
		})
	}
	if snap.Self == nil {
		snap.Self = &snapshot.Self{}
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		snap.Self.CPU = time.Duration(unix.TimevalToNsec(usage.Utime) + unix.TimevalToNsec(usage.Stime))
		snap.Self.RSS = uint64(usage.Maxrss) * 1024
	}
	if rss := residentMemory(); rss > 0 {
		snap.Self.RSS = rss
	}
	if m.dropped != nil {
		snap.Self.Dropped = m.dropped()
	}
	return snap
}

// residentMemory reads our own resident set, 0 when /proc does not show it: getrusage has only the peak.
func residentMemory() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// recording is the source with a tee to the run folder.
type recording struct {
	source agent.Source
	resume agent.Source
	close  func()
	notes  func() []string
}

func startRecording(folder *runfolder.Folder, o observation, source agent.Source, log *slog.Logger) (recording, error) {
	return recording{source: source, close: func() {}, notes: func() []string { return nil }}, nil
}
