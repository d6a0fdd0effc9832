package report

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Options are what a Recorder needs beside the frames.
type Options struct {
	Run        model.Run
	Thresholds json.RawMessage // as they go into the document; nil when not known
	// Blind returns what the machine does not show, a sentence each; nil when nobody looked. It is called once, at the end.
	Blind func() []string
	// Save keeps report.json; nil to keep nothing. It is called once.
	Save func(data []byte) error
}

// Bounds of what a Recorder holds, whatever the run's length. Totals count everything.
const (
	maxSaves     = 400 // half of them the first, half the last
	maxStalls    = 400 // those that cost most
	maxExits     = 256
	maxCaveats   = 64
	maxCaveatIDs = 64
	maxCulprits  = 64
)

// Recorder is the sink that makes the report. It is used by one goroutine.
type Recorder struct {
	opts Options

	frames     int
	firstMono  time.Duration
	lastMono   time.Duration
	last       *model.Frame
	lastRanks  []model.Rank
	budgets    []detect.Budget
	shape      Shape
	roleMax    map[model.Role]*RoleTotals // maxima only
	lastTotals []model.Total

	stalls      stallBook
	checkpoints checkpointBook
	timeline    timeline
	firstPools  map[poolKey]poolSpan // the first generation of each loader

	exits    []ended
	oomKills uint64
	oomSeen  bool // the cgroup tells about OOM kills
	gpus     map[string]*gpuBook
	gpuOrder []string
	caveats  caveatBook
	self     selfBook
	host     *snapshot.Host
	shm      Shm
	cgroup   *snapshot.Cgroup
	cpus     int32 // the most CPUs that a rank's affinity allows, 0 when never seen

	doc     *Document
	saveErr error
}

// ended is a process that ended, as far as the report tells of it.
type ended struct {
	model.Ended
	name string
}

// NewRecorder returns a Recorder for one run.
func NewRecorder(opts Options) *Recorder {
	return &Recorder{
		opts:       opts,
		roleMax:    map[model.Role]*RoleTotals{},
		firstPools: map[poolKey]poolSpan{},
		gpus:       map[string]*gpuBook{},
		caveats:    newCaveatBook(),
		stalls:     newStallBook(),
	}
}

// Consume takes one step of the run.
func (r *Recorder) Consume(f *model.Frame, findings *detect.Findings) {
	if r.frames == 0 {
		r.firstMono = f.Mono
	}
	r.frames++
	r.self.step(f)
	r.last, r.lastMono = f, f.Mono
	if findings != nil {
		if findings.Budgets != nil {
			r.budgets = findings.Budgets
		}
		for _, e := range findings.Events {
			switch {
			case e.Stall != nil:
				r.stalls.add(e)
			case e.Checkpoint != nil:
				r.checkpoints.add(e)
			}
		}
	}
	r.members(f)
	r.ends(f)
	r.surroundings(f)
	r.timeline.add(f.Mono, r.budgets, &r.stalls, storageRead(f.Totals))
}

// members follows who is there and how many.
func (r *Recorder) members(f *model.Frame) {
	if f.Ranks != nil {
		r.lastRanks = f.Ranks
	}
	ranks, workers := 0, 0
	for _, k := range f.Ranks {
		r.shape.WorldSize = max(r.shape.WorldSize, k.WorldSize)
		if k.End != 0 {
			continue
		}
		ranks++
		workers += k.Workers
		r.shape.WorkersPerRank = max(r.shape.WorkersPerRank, k.Workers)
	}
	r.shape.Ranks = max(r.shape.Ranks, ranks)
	r.shape.RankLives = max(r.shape.RankLives, len(f.Ranks))
	r.shape.Workers = max(r.shape.Workers, workers)
	r.shape.Members = max(r.shape.Members, len(f.Procs))
	if f.Totals != nil {
		r.lastTotals = f.Totals
	}
	procs, rss := map[model.Role]int{}, map[model.Role]uint64{}
	for _, t := range f.Totals {
		procs[t.Role] += t.Procs
		rss[t.Role] += t.RSS
	}
	for role, n := range procs {
		m := r.roleMax[role]
		if m == nil {
			m = &RoleTotals{}
			r.roleMax[role] = m
		}
		m.MaxProcesses = max(m.MaxProcesses, n)
		m.MaxRSS = max(m.MaxRSS, rss[role])
	}
	for _, p := range f.Procs {
		if p.Role == model.RoleRank && p.Raw != nil && p.Raw.Status != nil {
			r.cpus = max(r.cpus, p.Raw.Status.CPUsAllowed)
		}
	}
	for _, p := range f.Pools {
		r.pool(p)
	}
}

// ends notes who ended, where it is worth telling: the job's first process, launchers, ranks, and workers that died.
func (r *Recorder) ends(f *model.Frame) {
	for _, e := range f.Ended {
		died := e.Status != nil && (e.Status.Signal != 0 || e.Status.Code != 0)
		switch {
		case e.Role == model.RoleRank, e.ID == r.opts.Run.Root:
		case e.Role == model.RoleLauncher && died:
		// A DataLoader ends workers that do not leave in time with SIGTERM: that is its way, not a death.
		case e.Role == model.RoleWorker && (died && e.Status.Signal != sigTERM || e.Orphaned):
		default:
			continue
		}
		if len(r.exits) < maxExits {
			r.exits = append(r.exits, ended{Ended: e, name: processName(e.Info)})
		}
	}
}

// surroundings follows the machine, the GPUs, and what could not be seen.
func (r *Recorder) surroundings(f *model.Frame) {
	raw := f.Raw
	if raw == nil {
		return
	}
	if raw.Host != nil {
		r.host = raw.Host
	}
	if raw.Cgroup != nil {
		r.cgroup = raw.Cgroup
		if raw.Cgroup.Memory != nil {
			if _, ok := raw.Cgroup.Memory.Events["oom_kill"]; ok {
				r.oomSeen = true
			}
		}
	}
	if f.Cgroup != nil {
		r.oomKills += f.Cgroup.NewEvents["oom_kill"]
	}
	for _, m := range raw.Mounts {
		if m.Mountpoint == "/dev/shm" && m.Space != nil {
			r.shm.SizeBytes = m.Space.Total
			r.shm.MostUsed = max(r.shm.MostUsed, m.Space.Total-min(m.Space.Total, m.Space.Free))
		}
	}
	for _, g := range raw.GPUs {
		b := r.gpus[g.UUID]
		if b == nil {
			b = &gpuBook{}
			r.gpus[g.UUID] = b
			r.gpuOrder = append(r.gpuOrder, g.UUID)
		}
		b.add(g, f.Elapsed)
	}
	for _, g := range raw.Gaps {
		r.caveats.add(g)
	}
}

// Conclude makes the document, saves it, and returns the verdict's line.
func (r *Recorder) Conclude(outcome model.Outcome) string {
	r.doc = r.document(outcome)
	if r.opts.Save != nil {
		data, err := r.doc.Encode()
		if err == nil {
			err = r.opts.Save(data)
		}
		r.saveErr = err
	}
	return r.doc.Verdict.Line
}

// Close reports whether the document could be saved.
func (r *Recorder) Close(context.Context, model.Outcome) error {
	if r.saveErr != nil {
		return fmt.Errorf("report: %v", r.saveErr)
	}
	return nil
}

// Document is what Conclude made; nil before.
func (r *Recorder) Document() *Document { return r.doc }

// Encode is report.json.
func (d *Document) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the report: %v", err)
	}
	return append(data, '\n'), nil
}

// Decode reads report.json.
func Decode(data []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("read the report: %v", err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("read the report: schema %q, this version of ptlaunch reads %s", d.Schema, Schema)
	}
	return d, nil
}

func storageRead(totals []model.Total) (n uint64) {
	for _, t := range totals {
		n += t.ReadBytes
	}
	return n
}

// since is the time after the run's start, in seconds, never negative.
func (r *Recorder) since(mono time.Duration) float64 {
	return max(0, round(mono-r.opts.Run.StartMono))
}

// wall turns a monotonic time into a time of day by the run's start: a stepped clock moves no interval.
func (r *Recorder) wall(mono time.Duration) time.Time {
	return r.opts.Run.Start.Add(mono - r.opts.Run.StartMono).UTC()
}

// round converts to seconds with milliseconds kept: a report is read by people.
func round(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond)) / float64(time.Second)
}
