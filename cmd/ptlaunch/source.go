package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
	"github.com/ptlaunch/ptlaunch/internal/sampler"
	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
	"github.com/ptlaunch/ptlaunch/internal/sampler/cgroupfs"
	"github.com/ptlaunch/ptlaunch/internal/sampler/hostfs"
	"github.com/ptlaunch/ptlaunch/internal/sampler/mounts"
	"github.com/ptlaunch/ptlaunch/internal/sampler/network"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// liveSource is the sampler, behind its meter.
type liveSource struct {
	meter *meter
	fast  func([]snapshot.ProcID) // chooses the members of the fast lane; nil when nothing is sampled
	close func()
}

// sinks are those that serve the run while it lasts: the one that keeps the fast lane on those who can write a checkpoint, as
// the model sees them, and the one that logs what lasts.
func (l liveSource) sinks(t detect.Thresholds, log *slog.Logger) []agent.Sink {
	out := []agent.Sink{report.NewWatch(t, log)}
	if l.fast != nil {
		out = append(out, &fastLane{set: l.fast})
	}
	return out
}

// openSource opens the sampler, or, when the job cannot be observed at all, a source that says so.
func openSource(o observation, log *slog.Logger) liveSource {
	s, err := sampler.New(sampler.Config{
		Procfs: o.cfg.Procfs, Interval: o.cfg.Interval, Root: o.root, RootIsMember: o.attached, Job: o.job,
		Exclude: []int32{int32(os.Getpid())}, Parts: parts(o, log), Log: log,
	})
	m := &meter{restarted: o.generation > 0}
	if err != nil {
		log.Error("start the sampler", "err", err)
		m.from = &blind{gap: blindGap(err)}
		return liveSource{meter: m, close: func() {}}
	}
	m.from = s
	return liveSource{meter: m, fast: s.SetFast, close: func() {
		if err := s.Close(); err != nil {
			log.Warn("close the sampler", "err", err)
		}
	}}
}

// parts are the sources beside the processes. Mounts come before the network and after the devices that they lie on; none of
// them waits for a slow source.
func parts(o observation, log *slog.Logger) []sampler.Part {
	topology := mounts.Topology(o.cfg.Procfs, o.cfg.Sysfs)
	out := []sampler.Part{
		hostfs.New(o.cfg.Procfs),
		blockdev.New(o.cfg.Procfs, topology),
		mounts.New(o.cfg.Procfs, topology),
		network.New(o.cfg.Procfs, o.cfg.Sysfs),
		nvml.New(nvml.Library(""), nvml.Options{Log: log}),
	}
	if o.job != 0 {
		out = append(out, cgroupfs.New(o.cfg.Procfs, o.cfg.Sysfs, o.job))
	}
	return out
}

// blind is the source of a run that cannot be observed: snapshots that hold nothing but the reason.
type blind struct {
	gap snapshot.Gap
	seq uint64
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
	if b.seq > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Last(ctx)
}

// Last implements agent.LastSource: even the shortest run says why nothing was seen.
func (b *blind) Last(context.Context) (*snapshot.Snapshot, error) {
	b.seq++
	return &snapshot.Snapshot{Seq: b.seq, Wall: time.Now(), Mono: monotonic(), Gaps: []snapshot.Gap{b.gap}}, nil
}

// meter sees every snapshot before it is recorded: it adds what only the agent knows. It also lets the caller ask for a last
// snapshot through whatever wraps it.
type meter struct {
	from      agent.Source
	dropped   func() uint64 // snapshots that the recording lacks; nil when there is none
	restarted bool          // the first snapshot of a restarted agent says that nothing was seen before it
	last      bool          // the next one is to be taken at once
}

func (m *meter) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	next := m.from.Next
	if last, ok := m.from.(agent.LastSource); ok && m.last {
		next = last.Last
	}
	snap, err := next(ctx)
	if snap != nil && m.restarted {
		m.restarted = false
		snap.Gaps = append(snap.Gaps, snapshot.Gap{
			Source: report.SourceAgent, Reason: snapshot.GapGone, Detail: "the agent was started again: nothing was seen meanwhile",
		})
	}
	if snap != nil && snap.Self != nil && m.dropped != nil {
		if n := m.dropped(); n > 0 {
			snap.Self.Dropped = map[string]uint64{"recording": n}
		}
	}
	return snap, err
}

// recording is the live source with a copy of each snapshot going to the run folder. It implements agent.LastSource.
type recording struct {
	meter  *meter
	tee    *snapshot.Tee    // nil: not recorded
	resume *snapshot.Reader // what an earlier agent recorded, nil for the first
}

func (r *recording) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	if r.tee == nil {
		return r.meter.Next(ctx)
	}
	return r.tee.Next(ctx)
}

func (r *recording) Last(ctx context.Context) (*snapshot.Snapshot, error) {
	r.meter.last = true
	return r.Next(ctx)
}

// startRecording begins the recording, or goes on with the one of an earlier agent. With an error the source works all the
// same.
func startRecording(folder *runfolder.Folder, o observation, m *meter, log *slog.Logger) (*recording, error) {
	r := &recording{meter: m}
	if folder == nil {
		return r, nil
	}
	dir := filepath.Join(folder.Path, runfolder.RecordingName)
	if o.generation > 0 {
		if reader, err := snapshot.NewReader(dir); err == nil {
			r.resume = reader
		} else {
			log.Warn("take over the recording", "err", err)
		}
	}
	w, err := snapshot.NewWriter(dir, snapshot.WriterConfig{Limit: o.cfg.RecordLimit})
	if err != nil {
		return r, err
	}
	r.tee = snapshot.NewTee(m, w, log)
	m.dropped = r.tee.Dropped
	return r, nil
}

// resumed is the earlier recording as a source, nil (and not a nil pointer in an interface) when there is none.
func (r *recording) resumed() agent.Source {
	if r.resume == nil {
		return nil
	}
	return r.resume
}

// closeBudget is how long the disk may take for what is queued, at the very end.
const closeBudget = 200 * time.Millisecond

// close ends the recording and says what it lacks.
func (r *recording) close(log *slog.Logger) (notes []string) {
	if r.resume != nil {
		_ = r.resume.Close()
	}
	if r.tee == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
	defer cancel()
	if err := r.tee.Close(ctx); err != nil {
		log.Warn("close the recording", "err", err)
	}
	if n := r.tee.Dropped(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d samples are missing in the recording: the disk of the run folder was too slow.", n))
	}
	return notes
}
