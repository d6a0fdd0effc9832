package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// accounts divides the wall time of every rank into phases. What the kernel counts (time on a CPU, waiting for one,
// blocked) is integrated and therefore exact at any rate; what is sampled only says to which phase the blocked part goes.
type accounts struct {
	t       *Thresholds
	saves   saveCover
	ranks   []*timeline // in order of appearance
	byID    map[snapshot.ProcID]*timeline
	first   time.Duration // of the first frame
	started bool
	last    time.Duration // of the latest frame
	gpus    *gpuWatch
}

// saveCover says how much of an interval a rank spent in a checkpoint write that stopped it.
type saveCover interface {
	blocking(id snapshot.ProcID, from, to time.Duration) time.Duration
}

func newAccounts(t *Thresholds, saves saveCover) *accounts {
	return &accounts{t: t, saves: saves, byID: map[snapshot.ProcID]*timeline{}, gpus: newGPUWatch(t)}
}

// read adds what a frame tells of the ranks' main threads.
func (a *accounts) read(f *model.Frame, crews map[snapshot.ProcID]*crew) {
	if !a.started {
		a.started, a.first = true, f.Mono
	}
	a.last = max(a.last, f.Mono)
	a.gpus.observe(f)
	live := 0
	for i := range f.Ranks {
		if f.Ranks[i].End == 0 {
			live++
		}
	}
	fast := fastByID(f.Raw)
	for i := range f.Ranks {
		r := &f.Ranks[i]
		tl := a.timelineOf(r)
		if tl.ended {
			continue
		}
		tl.world = max(tl.world, r.WorldSize)
		tl.multi = tl.multi || r.WorldSize > 1 || live > 1
		p := procOf(f, r.ID)
		if p != nil {
			a.readRank(f, tl, p, fast[r.ID], crews[r.ID])
		}
		if r.End > 0 {
			tl.advance(reading{at: r.End, run: tl.cursor.run, queue: tl.cursor.queue, kind: waitNone})
			tl.ended = true
		}
	}
}

// timelineOf finds or begins the timeline of a rank. A rank that was seen from its birth is accounted from there: its
// cumulative times began at 0. One that is old in the first frame is accounted from its first reading.
func (a *accounts) timelineOf(r *model.Rank) *timeline {
	if tl := a.byID[r.ID]; tl != nil {
		return tl
	}
	tl := &timeline{id: r.ID, rank: r.Rank, local: r.LocalRank}
	if r.Start >= a.first-seconds(a.t.AttachAgeSeconds) {
		tl.cursor = reading{at: r.Start, sched: true}
	} else {
		tl.cursor = reading{at: a.first}
		tl.start.end(a.first)
	}
	a.byID[r.ID] = tl
	a.ranks = append(a.ranks, tl)
	return tl
}

// endedWorkers counts the rank's workers that ended in this frame, and gives the moment of the last one's end.
func endedWorkers(f *model.Frame, tl *timeline) (n int, last time.Duration) {
	for i := range f.Ended {
		if e := &f.Ended[i]; e.Role == model.RoleWorker && e.OfRank == tl.id {
			n, last = n+1, max(last, e.At)
		}
	}
	return n, last
}

func (a *accounts) readRank(f *model.Frame, tl *timeline, p *model.Proc, fast []*snapshot.FastSample, c *crew) {
	tl.around = surround{multi: tl.multi, pin: hasThread(p.Info, "pt_data_pin")}
	if c != nil {
		tl.around.workers = c.live
		tl.around.ahead = c.ahead(a.t)
	}
	if d := p.Delta; d != nil && d.IO != nil {
		tl.around.reading = float64(d.IO.RChar) > 1e6*d.Elapsed.Seconds()
	}
	tl.around.pressed = memoryPressure(f) >= a.t.MemoryPressure
	a.watchPools(f, tl)
	before := len(tl.slices)
	if dead(p.Raw.State) { // its time ends here; its launcher may reap it much later
		if tl.gone == 0 {
			tl.gone = p.Raw.At
		}
		return
	}
	lost, until := endedWorkers(f, tl)
	around := tl.around
	for _, s := range fast {
		if s.At < p.Raw.At && !dead(s.State) {
			if tl.around = around; s.At <= until { // the frame shows those that live at its end
				tl.around.workers += lost
			}
			tl.advance(readingOf(s.At, s.State, s.Sched, s.Wait))
		}
	}
	tl.around = around
	tl.advance(readingOf(p.Raw.At, p.Raw.State, p.Raw.Sched, p.Raw.Wait))
	if !tl.start.done {
		tl.start.firstBirth, tl.start.lastBirth = tl.pools.firstBirth, tl.pools.firstLast
		for i := before; i < len(tl.slices); i++ {
			tl.start.slice(&tl.slices[i])
		}
		tl.start.observe(p, a.gpus.busy(tl, p.Info) > 0.05, a.t)
	}
	a.gpus.attach(tl, p.Info)
}

// dead says whether a process has ended and only waits to be reaped.
func dead(state byte) bool { return state == 'Z' || state == 'X' }

func readingOf(at time.Duration, state byte, sc *snapshot.Sched, w *snapshot.Wait) reading {
	r := reading{at: at, kind: classify(state, w)}
	if sc != nil {
		r.run, r.queue, r.sched = sc.Run, sc.Wait, true
	}
	return r
}

// book settles all slices that are old enough, and returns them by rank. final settles everything.
func (a *accounts) book(final bool) map[*timeline][]slice {
	fresh := map[*timeline][]slice{}
	for _, tl := range a.ranks {
		delay := seconds(a.t.SettleSeconds)
		if !tl.start.done {
			delay = seconds(a.t.StartupSettleSeconds)
		}
		begin, quiet := tl.open, a.quietFrom(tl)
		for tl.open < len(tl.slices) {
			s := &tl.slices[tl.open]
			hold := delay
			if s.from >= quiet {
				hold = max(hold, seconds(a.t.EndHoldSeconds))
			}
			if !final && !tl.ended && s.to > a.last-hold {
				break
			}
			a.divide(tl, s)
			tl.budget.add(s.parts)
			tl.open++
		}
		if tl.open > begin {
			fresh[tl] = append([]slice(nil), tl.slices[begin:tl.open]...)
		}
		tl.trim(a.last - 2*seconds(a.t.SyncWindowSeconds))
	}
	return fresh
}

// divide gives every part of a slice a phase.
func (a *accounts) divide(tl *timeline, s *slice) {
	rest := s.length()
	if !tl.start.done || s.from < tl.start.at {
		d := rest
		if tl.start.done {
			d = min(rest, tl.start.at-s.from)
		}
		s.parts[inStartup] = d
		if rest -= d; rest == 0 {
			return
		}
	}
	if tl.ended && a.closing(tl, s) {
		s.parts[inShutdown] = rest
		return
	}
	if d := min(rest, a.saves.blocking(tl.id, s.from, s.to)); d > 0 {
		s.parts[inCheckpoint] = d
		rest -= d
	}
	lost := a.lostIn(tl, s, rest)
	for i := range lost {
		s.parts[i] += lost[i]
		rest -= lost[i]
	}
	s.parts[inCompute] += rest
	a.gpus.correct(tl, s)
	a.watchFirstBatch(tl, s)
	if a.marks(tl, s) {
		tl.lastMarker = s.to
	}
}

// lostIn attributes what a checkpoint has left of a slice. rest is how long that is.
func (a *accounts) lostIn(tl *timeline, s *slice, rest time.Duration) (p parts) {
	if rest <= 0 {
		return p
	}
	blocked := scale(s.blocked, rest, s.length())
	for _, w := range tl.forks {
		if d := w.overlap(s.from, s.to); d > 0 {
			s.loading = true
			p[inData] = min(rest, scale(s.run+s.queue, d, s.length()))
		}
	}
	phase := phaseOf(s.kind, s.around)
	if phase == inPeer {
		share, peer := a.peerShare(tl, s)
		blocked, s.peer = time.Duration(share*float64(blocked)), peer
	}
	if phase == inData && 2*s.blocked > s.length() { // the wait for a CPU once a batch has come belongs to the wait for it
		queue := scale(s.queue, rest, s.length())
		blocked += scale(queue, blocked, blocked+scale(s.run, rest, s.length()))
	}
	if phase != inCompute {
		p[phase] += min(blocked, rest-p.sum())
	}
	return p
}

// phaseOf says what a rank loses that is blocked in k. inCompute means: nothing that we can name. A main thread asleep
// in something unnamed is taken for computing, because that is what waiting for a GPU looks like.
func phaseOf(k waitKind, c surround) int {
	loader := c.workers > 0
	switch k {
	case waitLoaderPipe, waitPipeRead:
		if loader {
			return inData
		}
		return inOther
	case waitTimedFutex:
		if c.pin || loader && !c.ahead {
			return inData
		}
	case waitFutex: // timed or not was not readable
		switch {
		case c.pin && loader && !c.ahead:
			return inData
		case c.multi:
			return inPeer
		case loader && !c.ahead:
			return inData
		}
	case waitUntimedFutex:
		if c.multi {
			return inPeer
		}
	case waitPoll:
		if loader {
			return inData
		}
	case waitFileRead, waitFileMeta, waitPageFault:
		switch {
		case !loader:
			return inData
		case c.reading && k != waitPageFault || c.pressed:
			return inOther
		}
		// Else pages of libraries that were evicted, or of code used for the first time: part of the step.
	case waitSocket:
		if !loader {
			return inData
		}
		return inOther
	case waitFileWrite, waitFileSync, waitChild, waitOutput, waitPipeWrite, waitStopped:
		return inOther
	}
	return inCompute
}

// inSync says whether a slice ends in a collective, or in what cannot be told from one.
func inSync(s *slice) bool {
	return s.around.multi && phaseOf(s.kind, s.around) == inPeer
}

// watchFirstBatch marks the slices that waited for the first batch of new workers.
func (a *accounts) watchFirstBatch(tl *timeline, s *slice) {
	w := &tl.pools
	if !w.waiting || s.to <= w.newest {
		return
	}
	s.newPool = true
	if s.from < w.lastBirth {
		return
	}
	if s.run >= batchRun && (w.waited || s.parts[inData] < s.length()/3) {
		w.waiting = false
	}
	w.waited = s.parts[inData] > s.length()/2
}

// budgets gives the phases of every rank so far.
func (a *accounts) budgets() []Budget {
	out := make([]Budget, 0, len(a.ranks))
	for _, tl := range a.ranks {
		b := Budget{Rank: tl.rank, OfRank: tl.id, Time: make(map[Phase]time.Duration, numPhases)}
		for i, d := range tl.budget {
			b.Time[Phases[i]] = d
		}
		out = append(out, b)
	}
	return out
}

// finish ends all timelines at a moment: what lies after the last reading belongs to the end.
func (a *accounts) finish(at time.Duration) {
	for _, tl := range a.ranks {
		end := at
		if tl.gone > 0 {
			end = tl.gone
		}
		if !tl.ended && end > tl.cursor.at {
			tl.advance(reading{at: end, run: tl.cursor.run, queue: tl.cursor.queue, kind: waitNone})
		}
		tl.ended = true
	}
	a.last = max(a.last, at)
}

// memoryPressure is the share of the frame in which tasks stalled for memory, of the job's cgroup where that is known.
func memoryPressure(f *model.Frame) float64 {
	share, scope := 0.0, ""
	for _, p := range f.Pressure {
		if p.Resource == "memory" && p.Kind == "some" && scope != "cgroup" {
			share, scope = p.Share, p.Scope
		}
	}
	return share
}

// fastByID sorts the fast lane's samples by process, oldest first.
func fastByID(s *snapshot.Snapshot) map[snapshot.ProcID][]*snapshot.FastSample {
	if s == nil || len(s.Fast) == 0 {
		return nil
	}
	out := map[snapshot.ProcID][]*snapshot.FastSample{}
	for i := range s.Fast {
		out[s.Fast[i].ID] = append(out[s.Fast[i].ID], &s.Fast[i])
	}
	return out
}

func procOf(f *model.Frame, id snapshot.ProcID) *model.Proc {
	for i := range f.Procs {
		if f.Procs[i].ID == id {
			return &f.Procs[i]
		}
	}
	return nil
}
