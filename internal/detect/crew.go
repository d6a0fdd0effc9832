package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// tally is what one process did over some frames.
type tally struct {
	elapsed, run, queue, blocked time.Duration
	cpu                          time.Duration // of all its threads
	by                           [numWaits]time.Duration
	samples, named               int // readings of its wait; those whose system call was readable
	rchar, wchar, syscr          uint64
	readBytes, majFaults         uint64
	hasIO                        bool
}

func (t *tally) add(o *tally) {
	t.elapsed += o.elapsed
	t.run += o.run
	t.queue += o.queue
	t.blocked += o.blocked
	t.cpu += o.cpu
	for i := range t.by {
		t.by[i] += o.by[i]
	}
	t.samples += o.samples
	t.named += o.named
	t.rchar += o.rchar
	t.wchar += o.wchar
	t.syscr += o.syscr
	t.readBytes += o.readBytes
	t.majFaults += o.majFaults
	t.hasIO = t.hasIO || o.hasIO
}

// share is the part of the time spent blocked in one of the kinds.
func (t *tally) share(kinds ...waitKind) float64 {
	var d time.Duration
	for _, k := range kinds {
		d += t.by[k]
	}
	return ratio(d, t.elapsed)
}

// idle is the share in which a worker waited for work. Where system calls are not readable a poll is taken for that.
func (t *tally) idle() float64 {
	d := t.by[waitLoaderPipe]
	if t.named == 0 {
		d += t.by[waitPoll]
	}
	return ratio(d, t.elapsed)
}

// storage is the share spent waiting for files.
func (t *tally) storage() float64 { return t.share(waitFileRead, waitFileMeta, waitPageFault) }

// computing is the share on a CPU or ready to be.
func (t *tally) computing() float64 { return ratio(t.run+t.queue, t.elapsed) }

func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// tallyOf reads one process in one frame. Its wait was sampled once, or more often where the fast lane has it: each sample
// stands for its part of the blocked time.
func tallyOf(p *model.Proc, fast []*snapshot.FastSample) tally {
	var t tally
	d := p.Delta
	if d == nil {
		return t
	}
	t.elapsed, t.majFaults, t.cpu = d.Elapsed, d.MajFlt, d.User+d.System
	if io := d.IO; io != nil {
		t.hasIO, t.rchar, t.wchar, t.syscr, t.readBytes = true, io.RChar, io.WChar, io.SyscR, io.ReadBytes
	}
	kinds := []waitKind{classify(p.Raw.State, p.Raw.Wait)}
	named := p.Raw.Wait != nil && p.Raw.Wait.Syscall != nil
	for _, s := range fast {
		kinds = append(kinds, classify(s.State, s.Wait))
		named = named || s.Wait != nil && s.Wait.Syscall != nil
	}
	t.samples = len(kinds)
	if named {
		t.named = len(kinds)
	}
	if m := d.Main; m != nil {
		t.run, t.queue, t.blocked = m.Run, m.RunQueue, m.Blocked
	} else {
		t.run, t.blocked = sampledRun(kinds, d.Elapsed)
	}
	asleep := 0
	for _, k := range kinds {
		if k != waitNone {
			asleep++
		}
	}
	for _, k := range kinds {
		if k != waitNone {
			t.by[k] += t.blocked / time.Duration(asleep)
		}
	}
	return t
}

// sampledRun divides a time by sampled states, where the kernel does not count.
func sampledRun(kinds []waitKind, elapsed time.Duration) (run, blocked time.Duration) {
	n := 0
	for _, k := range kinds {
		if k == waitNone {
			n++
		}
	}
	run = elapsed * time.Duration(n) / time.Duration(len(kinds))
	return run, elapsed - run
}

// slotKey names a worker slot of a rank.
type slotKey struct{ loader, slot int }

// crew is what a rank's workers, and the rank itself, did over some frames.
type crew struct {
	live    int // workers alive in the latest frame
	slots   map[slotKey]*tally
	rank    tally
	helpers tally // other processes of the rank: decoders, downloaders
	newborn int   // workers born
}

func newCrew() *crew { return &crew{slots: map[slotKey]*tally{}} }

func (c *crew) add(o *crew) {
	c.live = o.live
	c.newborn += o.newborn
	c.rank.add(&o.rank)
	c.helpers.add(&o.helpers)
	for k, t := range o.slots {
		if c.slots[k] == nil {
			c.slots[k] = &tally{}
		}
		c.slots[k].add(t)
	}
}

// workers is the sum over all worker slots.
func (c *crew) workers() *tally {
	var t tally
	for _, s := range c.slots {
		t.add(s)
	}
	return &t
}

// ahead says whether the workers wait for work: then the loader is not what holds the rank.
func (c *crew) ahead(t *Thresholds) bool {
	if len(c.slots) == 0 {
		return false
	}
	return c.workers().idle() >= t.WorkerIdleAhead
}

// collect reads a frame's ranks and workers.
func collect(f *model.Frame) map[snapshot.ProcID]*crew {
	fast := fastByID(f.Raw)
	crews := map[snapshot.ProcID]*crew{}
	of := func(id snapshot.ProcID) *crew {
		if crews[id] == nil {
			crews[id] = newCrew()
		}
		return crews[id]
	}
	for i := range f.Procs {
		p := &f.Procs[i]
		switch p.Role {
		case model.RoleRank:
			of(p.ID).rank = tallyOf(p, fast[p.ID])
		case model.RoleWorker:
			c := of(p.OfRank)
			c.live++
			if p.Delta == nil {
				c.newborn++
				continue
			}
			t := tallyOf(p, fast[p.ID])
			key := slotKey{p.Loader, p.Slot}
			if c.slots[key] == nil {
				c.slots[key] = &tally{}
			}
			c.slots[key].add(&t)
		case model.RoleHelper, model.RoleOther:
			if p.OfRank != (snapshot.ProcID{}) {
				t := tallyOf(p, fast[p.ID])
				of(p.OfRank).helpers.add(&t)
			}
		}
	}
	return crews
}
