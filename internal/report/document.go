package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// document makes the report of what was consumed.
func (r *Recorder) document(outcome model.Outcome) *Document {
	r.stalls.finish()
	r.checkpoints.finish()
	run := r.opts.Run
	d := &Document{
		Schema: Schema,
		Run: Run{
			ID: run.ID, TraceID: run.Trace.TraceID, Name: run.Name, Command: run.Command, Host: run.Host,
			Version: run.Version, JobID: run.Trace.JobID, Attached: run.Attached, Start: run.Start.UTC(),
		},
		Shape:      r.shape,
		Caveats:    r.caveats.document(),
		Self:       r.selfDocument(),
		Thresholds: r.opts.Thresholds,
	}
	if r.opts.Blind != nil {
		d.Blind = r.opts.Blind()
	}
	for _, t := range r.lastTotals {
		d.Shape.WorkerStarts += t.WorkerStarts
	}
	d.Shape.CPUsAllowed = r.cpusAllowed()
	d.Machine = r.machine()
	d.Roles = r.roles()
	for _, id := range r.gpuOrder {
		d.GPUs = append(d.GPUs, r.gpus[id].document())
	}
	if r.oomSeen || r.oomKills > 0 {
		d.OOMKills = &r.oomKills
	}
	for _, s := range outcome.Signals {
		d.Signals = append(d.Signals, Signal{Signal: s.Signal, AtSeconds: r.since(s.At)})
	}
	d.Checkpoints = r.checkpointsDocument()
	d.Stalls = r.stallsDocument()
	d.Exits = r.exitsDocument(outcome)
	d.Survivors = r.survivors(outcome)
	d.End = r.end(outcome)
	d.Time = r.timeBudget()
	d.Findings = r.findings(d)
	d.End.Words = endWords(d)
	d.Verdict = judge(d)
	return d
}

func (r *Recorder) selfDocument() Self {
	s := Self{
		CPUSeconds: round(r.self.cpu), MaxRSS: r.self.maxRSS, Samples: r.frames, IntervalSeconds: round(r.self.interval),
		MissedTicks: r.self.missed, Dropped: r.self.dropped, UnseenSeconds: round(r.self.unseen), Agents: r.self.agents,
	}
	if wall := r.lastMono - r.firstSight(); wall > 0 {
		s.CPUShare = share(r.self.cpu, wall)
	}
	return s
}

// firstSight is from when on the agent worked: the start of the job, or of the observation when it was attached later.
func (r *Recorder) firstSight() time.Duration {
	if r.opts.Run.Attached {
		return r.firstMono
	}
	return min(r.firstMono, r.opts.Run.StartMono)
}

// cpusAllowed is how many CPUs the job may use: the tightest of quota, cpuset, affinity and the machine.
func (r *Recorder) cpusAllowed() *float64 {
	least := 0.0
	tighten := func(n float64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if r.host != nil {
		tighten(float64(r.host.CPUs))
	}
	tighten(float64(r.cpus))
	if c := r.cgroup; c != nil {
		if c.CPU != nil && c.CPU.Limit != nil {
			tighten(*c.CPU.Limit)
		}
		if c.Cpuset != nil {
			tighten(float64(c.Cpuset.CPUs))
		}
	}
	if least == 0 {
		return nil
	}
	return &least
}

func (r *Recorder) machine() Machine {
	var m Machine
	if r.host != nil {
		m.CPUs, m.MemoryBytes = r.host.CPUs, r.host.MemTotal
	}
	if c := r.cgroup; c != nil {
		if c.CPU != nil {
			m.CgroupCPULimit = c.CPU.Limit
		}
		if c.Memory != nil {
			m.CgroupMemory = c.Memory.Limit
		}
	}
	if r.shm.SizeBytes > 0 {
		shm := r.shm
		m.Shm = &shm
	}
	var cpu time.Duration
	for _, t := range r.lastTotals {
		cpu += t.User + t.System
	}
	if wall := r.lastMono - r.opts.Run.StartMono; wall > 0 && r.frames > 0 {
		used := share(cpu, wall)
		m.CPUsUsed = &used
	}
	return m
}

// roles sums the last totals by role, in the order of the roles.
func (r *Recorder) roles() []RoleTotals {
	out := []RoleTotals{}
	for _, role := range [...]model.Role{
		model.RoleLauncher, model.RoleRank, model.RoleWorker, model.RoleHelper, model.RoleOther,
	} {
		t, found := RoleTotals{Role: string(role)}, false
		var user, system, blocked, queue time.Duration
		var rchar, wchar, rbytes, wbytes uint64
		io, sched := false, false
		for _, s := range r.lastTotals {
			if s.Role != role {
				continue
			}
			found = true
			user, system = user+s.User, system+s.System
			t.MajorFaults += s.MajFlt
			if s.HasIO {
				io = true
				rchar, wchar, rbytes, wbytes = rchar+s.RChar, wchar+s.WChar, rbytes+s.ReadBytes, wbytes+s.WriteBytes
			}
			if s.HasSched {
				sched = true
				blocked, queue = blocked+s.Blocked, queue+s.RunQueue
			}
		}
		if !found {
			continue
		}
		t.UserSeconds, t.SystemSeconds = round(user), round(system)
		if io {
			t.ReadBytes, t.WriteBytes, t.StorageReadBytes, t.StorageWriteBytes = &rchar, &wchar, &rbytes, &wbytes
		}
		if sched {
			b, q := round(blocked), round(queue)
			t.BlockedSeconds, t.RunQueueSeconds = &b, &q
		}
		if m := r.roleMax[role]; m != nil {
			t.MaxProcesses, t.MaxRSS = m.MaxProcesses, m.MaxRSS
		}
		out = append(out, t)
	}
	return out
}

func (r *Recorder) timeBudget() TimeBudget {
	end := makePoint(r.lastMono, r.budgets, &r.stalls, storageRead(r.lastTotals))
	t := TimeBudget{Ranks: []RankBudget{}}
	t.Phases, t.Shares, t.RankSeconds = phaseMaps(point{}, end)
	for _, b := range r.budgets {
		rb := RankBudget{Rank: b.Rank, PID: b.OfRank.PID, Phases: map[string]float64{}}
		var wall time.Duration
		for _, phase := range detect.Phases {
			rb.Phases[string(phase)] = round(b.Time[phase])
			wall += b.Time[phase]
		}
		rb.WallSeconds = round(wall)
		for _, k := range r.lastRanks {
			if k.ID == b.OfRank {
				rb.Generation = k.Generation
			}
		}
		t.Ranks = append(t.Ranks, rb)
	}
	slices.SortStableFunc(t.Ranks, func(x, y RankBudget) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Generation, y.Generation))
	})
	if t.RankSeconds > 0 {
		good := t.Shares[string(detect.PhaseCompute)]
		t.Goodput = &good
		rest := t.RankSeconds - t.Phases[string(detect.PhaseStartup)] - t.Phases[string(detect.PhaseShutdown)] -
			t.Phases[string(detect.PhaseCheckpoint)]
		if rest > 0 {
			au := t.Phases[string(detect.PhaseCompute)] / rest
			t.EstimatedAU = &au
		}
	}
	cut, basis := r.coldStart()
	if cut == 0 || r.lastMono-cut < steadyLeast {
		return t
	}
	at := r.timeline.before(cut)
	if at.at == 0 {
		return t
	}
	t.FirstEpoch = r.epoch(point{at: r.firstSight()}, at, basis)
	t.Steady = r.epoch(at, end, basis)
	return t
}

func (r *Recorder) epoch(from, to point, basis string) *Epoch {
	e := &Epoch{
		FromSeconds: r.since(from.at), ToSeconds: r.since(to.at), Basis: basis, StorageBytes: to.storage - min(from.storage, to.storage),
	}
	e.Phases, e.Shares, _ = phaseMaps(from, to)
	return e
}

// phaseMaps returns seconds and shares of each phase between two points, and their sum.
func phaseMaps(from, to point) (secs, shares map[string]float64, sum float64) {
	secs, shares = map[string]float64{}, map[string]float64{}
	var total time.Duration
	for i := range detect.Phases {
		total += max(0, to.phases[i]-from.phases[i])
	}
	for i, phase := range detect.Phases {
		d := max(0, to.phases[i]-from.phases[i])
		secs[string(phase)] = round(d)
		if total > 0 {
			shares[string(phase)] = share(d, total)
		}
	}
	return secs, shares, round(total)
}

// share is a ratio with four decimals kept.
func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(int64(float64(part)/float64(whole)*1e4+0.5)) / 1e4
}

func (r *Recorder) checkpointsDocument() Checkpoints {
	c := r.checkpoints.totals
	c.List, c.Omitted = []Save{}, r.checkpoints.omitted
	slices.SortStableFunc(r.checkpoints.saves, func(x, y *save) int {
		return cmp.Compare(x.measure().start, y.measure().start)
	})
	for _, s := range r.checkpoints.saves {
		m := s.measure()
		out := Save{
			ID: s.id, Start: r.wall(m.start), StartSeconds: r.since(m.start), Seconds: round(m.longest), Bytes: m.bytes,
			BytesPerSecond: float64(int64(m.slowest)), Mode: "blocking", MaxBlockedSeconds: round(m.blocked),
		}
		if m.background {
			out.Mode = "background"
		}
		for _, w := range s.writes {
			out.Ranks = append(out.Ranks, r.rankWrite(w))
		}
		c.List = append(c.List, out)
	}
	c.Seconds, c.BlockedSeconds = tidy(c.Seconds), tidy(c.BlockedSeconds)
	return c
}

// tidy takes the noise of adding floating point numbers away.
func tidy(s float64) float64 { return round(seconds(s)) }

func (r *Recorder) rankWrite(w *detect.Checkpoint) RankWrite {
	d := w.End - w.Start
	return RankWrite{
		Rank: known(w.Rank), PID: w.Writer.PID, WriterRole: string(w.WriterRole), Path: w.Path, Files: w.Files, Bytes: w.Size,
		StartSeconds: r.since(w.Start), Seconds: round(d), BytesPerSecond: float64(int64(throughput(w.Size, d))),
		BlockedSeconds: round(w.Blocked), Background: w.Background, Durable: w.Durable, FSType: w.FSType,
		Mountpoint: w.Mountpoint, Device: w.Device, CutShort: w.CutShort, Evidence: w.Evidence, Caveats: w.Caveats,
	}
}

// known returns nil for model.None.
func known(n int) *int {
	if n == model.None {
		return nil
	}
	return &n
}

func (r *Recorder) stallsDocument() Stalls {
	out := Stalls{List: []Stall{}, Omitted: r.stalls.omitted}
	var lost time.Duration
	for _, t := range r.stalls.totals {
		out.Count += t.count
		lost += t.lost
	}
	out.LostSeconds = round(lost)
	for _, s := range r.stalls.closed {
		out.List = append(out.List, Stall{
			ID: s.ID, Rank: s.Rank, Start: r.wall(s.Start), StartSeconds: r.since(s.Start), Seconds: round(s.End - s.Start),
			LostSeconds: round(s.Lost), Phase: string(s.Phase), Cause: string(s.Cause), Second: string(s.Second),
			Culprit: s.Culprit, Confidence: string(s.Confidence), Checkpoint: s.Checkpoint, Evidence: s.Evidence,
			Caveats: s.Caveats,
		})
	}
	return out
}
