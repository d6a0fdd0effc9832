package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// checkpoints finds the writes of model states: bursts of writing by a rank, by a child of it, or by the launcher on its
// behalf, joined with the files they went to. Counters give the burst, open files the name, and file events the exact
// moments for every later write into the same directory.
type checkpoints struct {
	t        *Thresholds
	accounts *accounts
	book     *fileBook
	writers  map[snapshot.ProcID]*writer
	episodes []*episode // open ones, and those closed lately
	nextID   func() uint64
	saves    uint64
	prevSize map[string]int64 // of the last complete write by directory and rank
	now      time.Duration
	totals   map[snapshot.ProcID]uint64 // what every live process has written
	ended    []endedWriter              // lately
	dirty    uint64                     // bytes not on disk yet, now
	hasDirty bool
}

// writer is one process that could write a checkpoint.
type writer struct {
	id    snapshot.ProcID
	role  model.Role
	rank  int
	owner snapshot.ProcID // the rank's process, zero for the launcher
	log   writerLog
	ep    *episode
	wrote uint64 // in the latest frame
	alive bool
}

func newCheckpoints(t *Thresholds, nextID func() uint64) *checkpoints {
	return &checkpoints{
		t: t, book: newFileBook(), writers: map[snapshot.ProcID]*writer{}, nextID: nextID, prevSize: map[string]int64{},
		totals: map[snapshot.ProcID]uint64{},
	}
}

// historyKept is how long closed episodes and files stay for grouping and for late events.
const historyKept = 30 * time.Second

// Observe reads one frame.
func (c *checkpoints) Observe(f *model.Frame) []Event {
	if f.Raw == nil {
		return nil
	}
	c.now = f.Mono
	if f.Host != nil && f.Host.Host != nil {
		c.dirty, c.hasDirty = f.Host.Dirty+f.Host.Writeback, true
	}
	c.book.read(f.Raw)
	c.noteEnds(f)
	c.readWriters(f)
	c.adopt()
	events := c.judge(f)
	c.book.forget(c.now - historyKept)
	c.forget()
	return events
}

// readWriters feeds every process that may write a checkpoint. Workers never do: what they write are caches.
func (c *checkpoints) readWriters(f *model.Frame) {
	fast := fastByID(f.Raw)
	for _, w := range c.writers {
		w.alive, w.wrote = false, 0
	}
	for i := range f.Procs {
		p := &f.Procs[i]
		if p.Role == model.RoleWorker {
			continue
		}
		w := c.writers[p.ID]
		if w == nil {
			w = &writer{id: p.ID}
			if p.Start > c.now-f.Elapsed && p.Raw.IO != nil { // seen from birth: its counters began at 0
				w.log.last = &ioReading{at: p.Start, main: true}
			}
			c.writers[p.ID] = w
		}
		w.alive, w.role, w.rank = true, p.Role, p.Rank
		if w.owner = p.OfRank; p.Role == model.RoleRank {
			w.owner = p.ID
		}
		for _, s := range w.log.steps(p, fast[p.ID]) {
			w.wrote += s.written
			c.feed(w, s)
		}
	}
}

// feed adds a step to the writer's burst, or begins one.
func (c *checkpoints) feed(w *writer, s step) {
	busy := s.rate() >= c.t.BurstRate && s.written >= 256<<10
	if !busy && s.written >= 64<<10 {
		busy = c.holdsModelFile(w, s) || w.ep != nil && s.rate() >= c.t.BurstRate/8 && s.dirtied >= 64<<10
	}
	if e := w.ep; busy && e != nil && e.complete() && s.from > e.filesEnd() && (s.from > e.filesEnd()+seconds(c.t.BurstGapSeconds) || s.dirtied == 0) {
		w.ep = nil // its files are all there: what is written now is another save, or the traffic of a collective
		busy = s.dirtied > 0 || e.dirtied == 0
	}
	if !busy {
		if e := w.ep; e != nil && s.kind.isWrite() && s.from <= e.lastBusy+seconds(c.t.BurstGapSeconds) {
			e.tail(s) // fsync, or a write call that has not returned
		}
		return
	}
	if w.ep == nil {
		w.ep = &episode{
			writer: w, first: s, start: s.from, dirtyBefore: c.dirty,
		}
		w.ep.cp.Interval = Interval{Rank: w.rank, OfRank: w.owner}
		w.ep.cp.Writer, w.ep.cp.WriterRole = w.id, w.role
		c.episodes = append(c.episodes, w.ep)
	}
	w.ep.absorb(s)
}

// holdsModelFile says whether the writer has a file open that is named like a model state.
func (c *checkpoints) holdsModelFile(w *writer, s step) bool {
	for _, r := range c.book.open {
		if r.kind == fileModel && !r.append && (r.writer == w.id || r.writer == (snapshot.ProcID{}) && w.role == model.RoleRank) &&
			r.opened <= s.to && s.to-r.seen < historyKept {
			return true
		}
	}
	return false
}

// adopt gives every file to the episode that wrote it. A closed file that nobody's burst explains (small, or slow) makes
// an episode of its own when it is named like a model state.
func (c *checkpoints) adopt() {
	for _, r := range c.book.open {
		c.adoptOne(r)
	}
	for _, r := range c.book.done {
		c.adoptOne(r)
	}
}

func (c *checkpoints) adoptOne(r *fileRecord) {
	if r.taken || r.append || r.kind == fileOther {
		return
	}
	gap := seconds(c.t.BurstGapSeconds)
	var best *episode
	var most time.Duration = -1
	for _, e := range c.episodes {
		if e.closed || !c.mayWrite(e, r) || !r.exact && r.end() == 0 && r.opened < e.start-time.Second && r.pos-r.first < 256<<10 {
			continue // open for long and hardly written: a log
		}
		end := r.end()
		if end == 0 {
			end = max(r.seen, r.opened)
		}
		common := window{e.start - gap, e.lastBusy + gap}.overlap(r.opened, end+time.Millisecond)
		if common > most && common > 0 {
			best, most = e, common
		}
	}
	if best == nil && r.kind == fileModel && r.end() > 0 && float64(r.bytes()) >= c.t.CheckpointMinBytes {
		best = c.fromFile(r)
	}
	if best != nil {
		r.taken = true
		best.files = append(best.files, r)
		best.cp.Files = len(best.files)
	}
}

func (c *checkpoints) mayWrite(e *episode, r *fileRecord) bool {
	if r.writer != (snapshot.ProcID{}) && r.writer != e.writer.id {
		return false
	}
	if n, ok := rankInName(r.name()); ok && e.writer.role == model.RoleRank && n != e.writer.rank {
		return false
	}
	return true
}

// fromFile begins an episode for a file that no burst explains: its writer is the rank that wrote most lately.
func (c *checkpoints) fromFile(r *fileRecord) *episode {
	var w *writer
	for _, o := range c.writers {
		if o.role != model.RoleRank || o.ep != nil || !c.mayWrite(&episode{writer: o}, r) {
			continue
		}
		if w == nil || o.wrote > w.wrote || o.wrote == w.wrote && o.rank < w.rank {
			w = o
		}
	}
	if w == nil || w.wrote == 0 {
		return nil
	}
	e := &episode{writer: w, start: r.opened, lastBusy: r.end(), dirtyBefore: c.dirty}
	e.cp.Interval = Interval{Rank: w.rank, OfRank: w.owner}
	e.cp.Writer, e.cp.WriterRole = w.id, w.role
	e.written, e.wchar = uint64(r.bytes()), uint64(r.bytes())
	w.ep = e
	c.episodes = append(c.episodes, e)
	return e
}

// judge opens, updates and closes.
func (c *checkpoints) judge(f *model.Frame) []Event {
	var events []Event
	for _, e := range c.episodes {
		if e.closed {
			continue
		}
		over := c.over(e, f)
		e.fits = c.fits(e, f)
		if e.fits || e.opened {
			c.describe(e, f, over)
		}
		switch {
		case e.fits && !e.opened && (over || e.named() || c.now-e.start > 2*time.Second):
			e.opened = true
			e.cp.ID = c.nextID()
			e.cp.Save = c.group(e)
			events = append(events, c.event(Opened, e))
		case e.opened && !over:
			events = append(events, c.event(Updated, e))
		}
		if over {
			e.closed = true
			if e.writer.ep == e {
				e.writer.ep = nil
			}
			if e.opened {
				events = append(events, c.event(Closed, e))
			}
		}
	}
	return events
}

func (c *checkpoints) event(k EventKind, e *episode) Event {
	cp := e.cp
	return Event{Kind: k, At: c.now, Checkpoint: &cp}
}

// over says whether an episode has ended: nothing was written for a while and no file of it is known to be open, or its
// writer is gone.
func (c *checkpoints) over(e *episode, f *model.Frame) bool {
	for i := range f.Ended {
		if f.Ended[i].ID == e.writer.id {
			e.end = &f.Ended[i]
			return true
		}
	}
	if !e.writer.alive {
		return true
	}
	quiet := c.now - max(e.lastBusy, e.filesEnd())
	if quiet <= seconds(c.t.BurstGapSeconds) {
		return false
	}
	for _, r := range e.files {
		if r.exact && r.end() == 0 && quiet < historyKept {
			return false
		}
	}
	return true
}

// blocking is how much of an interval the rank spent in writes that stopped it.
func (c *checkpoints) blocking(id snapshot.ProcID, from, to time.Duration) time.Duration {
	var d time.Duration
	for _, e := range c.episodes {
		if e.writer.owner != id || !e.fits || e.cp.Background {
			continue
		}
		end := e.cp.End
		if !e.closed {
			end = max(end, e.lastBusy)
		}
		d += window{e.cp.Start, end}.overlap(from, to)
	}
	return min(d, to-from)
}

// blockingAt is the id of the checkpoint that stopped a rank at a moment, 0 when there is none.
func (c *checkpoints) blockingAt(id snapshot.ProcID, from, to time.Duration) *Checkpoint {
	var best *Checkpoint
	var most time.Duration
	for _, e := range c.episodes {
		if e.writer.owner != id || !e.opened || e.cp.Background {
			continue
		}
		if d := (window{e.cp.Start, max(e.cp.End, e.lastBusy)}).overlap(from, to); d > most {
			best, most = &e.cp, d
		}
	}
	return best
}

// group gives the save of the job that an episode belongs to: that of other ranks' writes at the same time.
func (c *checkpoints) group(e *episode) uint64 {
	near := seconds(c.t.SaveGroupSeconds)
	for i := len(c.episodes) - 1; i >= 0; i-- {
		o := c.episodes[i]
		if o == e || o.cp.Save == 0 || o.writer.owner == e.writer.owner {
			continue
		}
		if o.cp.Start <= max(e.cp.End, e.lastBusy)+near && max(o.cp.End, o.lastBusy)+near >= e.cp.Start && !c.inSave(o.cp.Save, e) {
			return o.cp.Save
		}
	}
	c.saves++
	return c.saves
}

// inSave says whether the writer already has a part in a save.
func (c *checkpoints) inSave(save uint64, e *episode) bool {
	for _, o := range c.episodes {
		if o != e && o.cp.Save == save && o.writer == e.writer {
			return true
		}
	}
	return false
}

// forget drops what is old.
func (c *checkpoints) forget() {
	kept := c.episodes[:0]
	for _, e := range c.episodes {
		if !e.closed || max(e.cp.End, e.lastBusy) >= c.now-historyKept {
			kept = append(kept, e)
		}
	}
	clear(c.episodes[len(kept):])
	c.episodes = kept
	for id, w := range c.writers {
		if !w.alive && w.ep == nil {
			delete(c.writers, id)
		}
	}
}

// Finish closes what is open at the end of the run.
func (c *checkpoints) Finish(at time.Duration) []Event {
	var events []Event
	for _, e := range c.episodes {
		if e.closed {
			continue
		}
		e.closed = true
		empty := &model.Frame{Mono: at}
		c.now = max(c.now, at)
		if e.fits = c.fits(e, empty); e.fits && !e.opened {
			c.describe(e, empty, true)
			e.opened, e.cp.ID, e.cp.Save = true, c.nextID(), c.group(e)
			events = append(events, c.event(Opened, e))
		}
		if e.opened {
			c.describe(e, empty, true)
			events = append(events, c.event(Closed, e))
		}
	}
	return events
}
