package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// causes gives every cause its place in a timeline point. The order is of no importance, but fixed within a process.
var causes = [...]detect.Cause{
	detect.CauseStorageThroughput, detect.CauseStorageLatency, detect.CauseNetwork, detect.CauseTooFewWorkers,
	detect.CauseCPULimit, detect.CauseWorkerCPU, detect.CauseNoWorkers, detect.CauseSlowWorker, detect.CauseWorkerStartup,
	detect.CauseMemory, detect.CauseMainThread, detect.CauseCheckpoint, detect.CausePeer, detect.CauseOutputBlocked,
	detect.CauseGPUThrottled, detect.CauseGPULost, detect.CauseUnknown,
}

// finding names what costs are added up under.
type finding struct {
	phase detect.Phase
	cause detect.Cause
}

// stallTotal is what a finding cost in all its intervals.
type stallTotal struct {
	lost     time.Duration
	count    int
	ranks    map[int]time.Duration
	culprits map[string]time.Duration
	worst    *detect.Stall // the interval that cost most: its evidence speaks for the rest
}

// stallBook holds the stalls of a run: all of those that are open, the costliest of those that are closed, and totals.
type stallBook struct {
	open    map[uint64]*detect.Stall
	closed  []*detect.Stall
	omitted int
	totals  map[finding]*stallTotal // of closed ones
}

func newStallBook() stallBook {
	return stallBook{open: map[uint64]*detect.Stall{}, totals: map[finding]*stallTotal{}}
}

func (b *stallBook) add(e detect.Event) {
	s := e.Stall
	if e.Kind != detect.Closed {
		b.open[s.ID] = s
		return
	}
	delete(b.open, s.ID)
	addStall(b.totals, s)
	b.closed = append(b.closed, s)
	if len(b.closed) >= 2*maxStalls {
		b.omitted += trimStalls(&b.closed)
	}
}

// trimStalls keeps the costliest.
func trimStalls(list *[]*detect.Stall) int {
	slices.SortStableFunc(*list, func(x, y *detect.Stall) int { return cmp.Compare(y.Lost, x.Lost) })
	if len(*list) <= maxStalls {
		return 0
	}
	n := len(*list) - maxStalls
	*list = slices.Clip((*list)[:maxStalls])
	return n
}

func addStall(totals map[finding]*stallTotal, s *detect.Stall) {
	key := finding{phase: s.Phase, cause: s.Cause}
	t := totals[key]
	if t == nil {
		t = &stallTotal{ranks: map[int]time.Duration{}, culprits: map[string]time.Duration{}}
		totals[key] = t
	}
	t.lost += s.Lost
	t.count++
	t.ranks[s.Rank] += s.Lost
	if _, known := t.culprits[s.Culprit]; s.Culprit != "" && (known || len(t.culprits) < maxCulprits) {
		t.culprits[s.Culprit] += s.Lost
	}
	if t.worst == nil || s.Lost > t.worst.Lost {
		t.worst = s
	}
}

// lostByCause is what each cause has cost so far, open stalls included.
func (b *stallBook) lostByCause() (lost [len(causes)]time.Duration) {
	for key, t := range b.totals {
		if i := slices.Index(causes[:], key.cause); i >= 0 {
			lost[i] += t.lost
		}
	}
	for _, s := range b.open {
		if i := slices.Index(causes[:], s.Cause); i >= 0 {
			lost[i] += s.Lost
		}
	}
	return lost
}

// finish counts stalls that nobody closed, as they were last known.
func (b *stallBook) finish() {
	ids := make([]uint64, 0, len(b.open))
	for id := range b.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		b.add(detect.Event{Kind: detect.Closed, Stall: b.open[id]})
	}
	b.omitted += trimStalls(&b.closed)
	slices.SortStableFunc(b.closed, func(x, y *detect.Stall) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.ID, y.ID))
	})
}

// save is one save of the job while it is put together.
type save struct {
	id     uint64
	writes []*detect.Checkpoint
}

// checkpointBook holds the saves of a run: the first and the last ones, and totals of all.
type checkpointBook struct {
	open    map[uint64]*detect.Checkpoint
	saves   []*save
	totals  Checkpoints
	omitted int
}

func (b *checkpointBook) add(e detect.Event) {
	c := e.Checkpoint
	if b.open == nil {
		b.open = map[uint64]*detect.Checkpoint{}
	}
	if e.Kind != detect.Closed {
		b.open[c.ID] = c
		return
	}
	delete(b.open, c.ID)
	// One save's intervals close close together: only the newest few can still grow.
	for i := len(b.saves) - 1; i >= 0; i-- {
		if b.saves[i].id == c.Save && c.Save != 0 {
			b.saves[i].writes = append(b.saves[i].writes, c)
			return
		}
	}
	b.saves = append(b.saves, &save{id: c.Save, writes: []*detect.Checkpoint{c}})
	if len(b.saves) > maxSaves {
		// The oldest of the later half goes: it is settled by now, maxSaves/2 saves ago.
		i := maxSaves / 2
		b.count(b.saves[i])
		b.saves = slices.Delete(b.saves, i, i+1)
		b.omitted++
	}
}

// count adds a save to the totals.
func (b *checkpointBook) count(s *save) {
	m := s.measure()
	b.totals.Saves++
	if !m.background {
		b.totals.Blocking++
	}
	b.totals.Bytes += m.bytes
	b.totals.Seconds += round(m.longest)
	for _, w := range s.writes {
		b.totals.BlockedSeconds += round(w.Blocked)
	}
}

func (b *checkpointBook) finish() {
	ids := make([]uint64, 0, len(b.open))
	for id := range b.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		b.add(detect.Event{Kind: detect.Closed, Checkpoint: b.open[id]})
	}
	for _, s := range b.saves {
		b.count(s)
	}
}

// measured are a save's figures: MLPerf's rule, the duration is the longest interval's and the throughput the slowest's.
type measured struct {
	start, longest, blocked time.Duration
	bytes                   int64
	slowest                 float64 // bytes per second
	background              bool
}

func (s *save) measure() measured {
	m := measured{background: true, start: s.writes[0].Start}
	for _, w := range s.writes {
		d := w.End - w.Start
		m.start = min(m.start, w.Start)
		m.longest = max(m.longest, d)
		m.blocked = max(m.blocked, w.Blocked)
		m.bytes += w.Size
		m.background = m.background && w.Background
		if rate := throughput(w.Size, d); rate > 0 && (m.slowest == 0 || rate < m.slowest) {
			m.slowest = rate
		}
	}
	return m
}

func throughput(bytes int64, d time.Duration) float64 {
	if d <= 0 || bytes <= 0 {
		return 0
	}
	return float64(bytes) / d.Seconds()
}

// gpuBook follows one GPU.
type gpuBook struct {
	last      snapshot.GPU
	firstBusy *time.Duration
	firstAt   time.Duration
	samples   int
	sumUtil   float64
	utils     int
	sumPower  float64
	powers    int
	maxMem    uint64
	hasMem    bool
	stale     time.Duration
}

func (b *gpuBook) add(g snapshot.GPU, elapsed time.Duration) {
	if g.Stale {
		b.stale += elapsed
	}
	fresh := b.samples == 0 || g.At != b.last.At
	b.last = g
	if !fresh {
		return
	}
	b.samples++
	if g.Busy != nil && b.firstBusy == nil {
		b.firstBusy, b.firstAt = g.Busy, g.At
	}
	if g.Utilization != nil {
		b.sumUtil += *g.Utilization
		b.utils++
	}
	if g.PowerW != nil {
		b.sumPower += *g.PowerW
		b.powers++
	}
	if g.MemUsed != nil {
		b.maxMem, b.hasMem = max(b.maxMem, *g.MemUsed), true
	}
}

func (b *gpuBook) document() GPU {
	g := GPU{UUID: b.last.UUID, Index: b.last.Index, Name: b.last.Name, Lost: b.last.Lost, StaleSeconds: round(b.stale)}
	switch {
	case b.firstBusy != nil && b.last.Busy != nil && b.last.At > b.firstAt && *b.last.Busy >= *b.firstBusy:
		u := share(*b.last.Busy-*b.firstBusy, b.last.At-b.firstAt)
		g.MeanUtilization = &u
	case b.utils > 0:
		u := b.sumUtil / float64(b.utils)
		g.MeanUtilization = &u
	}
	if b.powers > 0 {
		p := b.sumPower / float64(b.powers)
		g.MeanPowerW = &p
	}
	if b.hasMem {
		g.MaxMemory = &b.maxMem
	}
	return g
}

// selfBook follows what ptlaunch costs.
type selfBook struct {
	cpu, lastCPU time.Duration
	agents       int
	maxRSS       uint64
	interval     time.Duration
	missed       uint64
	dropped      map[string]uint64
	unseen       time.Duration
	seen         bool
}

// A step far longer than the interval is a time in which nothing was seen: the agent was stopped or replaced, or the
// machine suspended.
const (
	unseenLeast     = 5 * time.Second
	unseenIntervals = 5
)

func (b *selfBook) step(f *model.Frame) {
	if f.Raw == nil {
		return
	}
	b.interval = max(b.interval, f.Raw.Interval.Duration())
	if restarted(f.Raw) || f.Elapsed > max(unseenLeast, unseenIntervals*f.Raw.Interval.Duration()) {
		b.unseen += f.Elapsed
	}
	b.missed = max(b.missed, f.Raw.MissedTicks)
	s := f.Raw.Self
	if s == nil {
		return
	}
	if !b.seen || s.CPU < b.lastCPU { // the first agent, or another one in its place
		b.agents++
		b.lastCPU = 0
	}
	b.cpu += s.CPU - b.lastCPU
	b.lastCPU, b.seen = s.CPU, true
	b.maxRSS = max(b.maxRSS, s.RSS)
	if len(s.Dropped) > 0 {
		b.dropped = s.Dropped
	}
}

// SourceAgent is the source of the gap with which a restarted agent begins.
const SourceAgent = "agent"

func restarted(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Source == SourceAgent })
}
