package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// amounts is what was counted: for a process since its last booking, for a series since its start.
type amounts struct {
	user, system     time.Duration
	minFlt, majFlt   uint64
	io               ioFields
	blocked, waiting time.Duration
	storage          time.Duration
	hasIO, hasSched  bool
	hasDelay         bool
}

func (a *amounts) add(o *amounts) {
	a.user += o.user
	a.system += o.system
	a.minFlt += o.minFlt
	a.majFlt += o.majFlt
	a.io = a.io.plus(o.io)
	a.blocked += o.blocked
	a.waiting += o.waiting
	a.storage += o.storage
	a.hasIO = a.hasIO || o.hasIO
	a.hasSched = a.hasSched || o.hasSched
	a.hasDelay = a.hasDelay || o.hasDelay
}

// credit is the I/O of a dead child that its reaper's counters will jump by, or have jumped by.
type credit struct {
	io      ioFields
	child   *member
	expires uint64 // the step after which we no longer expect the jump; 0: never
}

// creditSteps is how long a jump may be late. The reaper is read before the child in one pass, and reaps it in between: then
// the jump shows one step later.
const creditSteps = 3

// account is what has been read of one process and where it stands.
type account struct {
	last     *ioFields // the newest reading of io: its whole history, reaped children included
	proc     *snapshot.Proc
	held     amounts  // not booked to a series yet
	ownTotal ioFields // its own share so far
	ended    ioFields // of that, done by threads that have ended: a lower bound
	ownPrev  ioFields // its own share of the step before
	credits  []credit
	counted  bool // as a holder of its worker slot
}

// settleAccounts takes the step's growth of every counter and books it: to the process's own series, or to that of the
// children it has reaped. Children come before their parents.
func (b *Builder) settleAccounts(s *snapshot.Snapshot) {
	if s.Host != nil && s.Host.DelayAcct != nil {
		b.delayAcct = *s.Host.DelayAcct
	}
	for i := len(b.order) - 1; i >= 0; i-- {
		m := b.order[i]
		if m.raw != nil {
			b.settleLiving(m)
		} else {
			b.settleDead(m, b.exits[m.id])
		}
	}
	for _, m := range b.order {
		b.book(m)
	}
	for _, m := range b.late {
		b.book(m)
	}
	b.late = b.late[:0]
}

func (b *Builder) settleLiving(m *member) {
	a, p := &m.acct, m.raw
	m.delta = nil
	d := &Delta{}
	if a.proc == nil {
		a.held.user += p.UTime
		a.held.system += p.STime
		a.held.minFlt += p.MinFlt
		a.held.majFlt += p.MajFlt
	} else {
		d.Elapsed = p.At - a.proc.At
		d.User, d.System = grown(p.UTime, a.proc.UTime), grown(p.STime, a.proc.STime)
		d.MinFlt, d.MajFlt = grown(p.MinFlt, a.proc.MinFlt), grown(p.MajFlt, a.proc.MajFlt)
		a.held.user += d.User
		a.held.system += d.System
		a.held.minFlt += d.MinFlt
		a.held.majFlt += d.MajFlt
		if d.Elapsed > 0 && d.Elapsed <= longGap {
			m.delta = d
		}
	}
	b.settleWaits(m, d)
	if p.IO != nil {
		known := a.last != nil && a.proc != nil && a.proc.IO != nil
		step, reaped, ok := b.settleIO(m, fieldsOf(p.IO), p.OwnIO, d.System)
		if known && ok {
			d.IO = &IODelta{step[ioRChar], step[ioWChar], step[ioSyscR], step[ioSyscW], step[ioReadBytes], step[ioWriteBytes], reaped}
		}
	}
	a.proc = p
}

// settleWaits divides the wall time of the main thread.
func (b *Builder) settleWaits(m *member, d *Delta) {
	a, p := &m.acct, m.raw
	prev := a.proc
	elapsed := d.Elapsed
	if prev == nil {
		elapsed = p.At - m.start
	}
	if p.Sched != nil && elapsed > 0 && (prev == nil || prev.Sched != nil) {
		var run, wait time.Duration
		ok := true
		if prev == nil {
			run, wait = p.Sched.Run, p.Sched.Wait
		} else {
			var ok1, ok2 bool
			run, ok1 = delta(p.Sched.Run, prev.Sched.Run)
			wait, ok2 = delta(p.Sched.Wait, prev.Sched.Wait)
			ok = ok1 && ok2
		}
		if ok {
			run = min(run, elapsed)
			wait = min(wait, elapsed-run)
			d.Main = &MainThread{Run: run, RunQueue: wait, Blocked: elapsed - run - wait}
			a.held.blocked += d.Main.Blocked
			a.held.waiting += wait
			a.held.hasSched = true
		}
	}
	if b.delayAcct && elapsed > 0 {
		// Credited when a wait ends, in lumps, and too much at times: never more than the wall time.
		got := p.BlkIODelay
		if prev != nil {
			got = grown(p.BlkIODelay, prev.BlkIODelay)
		}
		a.held.storage += min(got, elapsed)
		a.held.hasDelay = true
	}
}

// settleDead books what a dead process did after its last reading, and tells its reaper what to expect.
func (b *Builder) settleDead(m *member, e *snapshot.Exit) {
	a := &m.acct
	m.delta = nil
	if e != nil {
		var user, system time.Duration
		if a.proc != nil {
			user, system = a.proc.UTime, a.proc.STime
		}
		dsys := grown(e.STime, system)
		a.held.user += grown(e.UTime, user)
		a.held.system += dsys
		if e.IO != nil {
			b.settleIO(m, fieldsOf(e.IO), nil, dsys)
		}
	}
	reaper := b.reaperOf(m)
	if reaper == nil {
		return
	}
	if a.last != nil {
		reaper.acct.credits = append(reaper.acct.credits, credit{io: *a.last, child: m, expires: b.seq + creditSteps})
	}
	reaper.acct.credits = append(reaper.acct.credits, a.credits...)
}

// reaperOf is the member that gets a dead process's I/O from the kernel: its parent at the last reading. nil when that is no
// member, or ignores SIGCHLD, which makes the kernel drop the child's counters.
func (b *Builder) reaperOf(m *member) *member {
	var p *member
	if m.prev != nil {
		p = b.byPID[m.prev.PPID]
	} else {
		p = m.parent
	}
	if p == nil || p == m || cmpID(p.id, m.id) > 0 {
		return nil
	}
	if p.status != nil && p.status.SigIgn&childSignal != 0 {
		return nil
	}
	return p
}

// settleIO takes a new reading of a process's I/O and parts the growth into its own share, which it returns, and that of the
// children it has reaped.
func (b *Builder) settleIO(m *member, cur ioFields, own *snapshot.IO, system time.Duration) (share ioFields, reaped, ok bool) {
	a := &m.acct
	step := cur
	if a.last != nil {
		if step, ok = cur.minus(*a.last); !ok {
			a.last = &cur
			return ioFields{}, false, false
		}
	}
	a.last = &cur
	a.held.hasIO = true

	share = step
	sure := false // the own share is known from the threads
	if own != nil {
		if grew, good := a.ownGrowth(fieldsOf(own)); good {
			share, sure = step.min(grew), true
		}
	}
	rest := step
	if sure {
		rest = step.less(share)
	}
	var children []*member
	kept := a.credits[:0]
	for _, c := range a.credits {
		switch {
		case rest.covers(c.io):
			rest = rest.less(c.io)
			children = append(children, c.child)
		case c.expires == 0 || b.seq < c.expires:
			if c.expires == b.seq+creditSteps && a.ownPrev.covers(c.io) && !c.io.zero() {
				// The jump came before the child was seen to be gone: its own share was overstated in the step before.
				c.expires = 0
			}
			kept = append(kept, c)
		}
	}
	a.credits = kept
	if sure {
		share = share.plus(b.bookRest(m, rest, children, system))
	} else {
		share = rest
	}
	a.ownTotal = a.ownTotal.plus(share)
	a.ownPrev = share
	a.held.io = a.held.io.plus(share)
	return share, len(children) > 0, true
}

// threadSlack is how far the sum over the threads may fall behind in one step without saying that a thread ended which had
// done much.
const threadSlack = 1 << 20

// ownGrowth is what a process did itself since its last booking, by its threads. A thread that ends takes its part out of the
// sum, while the process keeps it: ended is how much must have gone that way, so far as it shows. The sum is read a little
// later than the process's own file, which makes ended too small at times, never too large. ok is false in the step in
// which a thread with much I/O ended.
func (a *account) ownGrowth(own ioFields) (grew ioFields, ok bool) {
	ok = true
	was := a.ownTotal.less(a.ended)
	for _, i := range []int{ioRChar, ioWChar, ioReadBytes, ioWriteBytes} {
		ok = ok && own[i]+threadSlack >= was[i]
	}
	a.ended = a.ended.max(a.ownTotal.less(own))
	return own.less(a.ownTotal.less(a.ended)), ok
}

// unseenSlack is the growth beyond a process's own that is not worth a thought when nobody died.
const unseenSlack = 64 << 10

// threadRate is a rate that no thread exceeds when it copies to or from the page cache, in bytes per second of system time.
const threadRate = 4 << 30

// bookRest books what a process's counters grew by beyond its own share and the known totals of the children reaped in this
// step: what these did after their last reading, their own children included, or what children did that were never seen. It
// returns the part that is the process's own after all.
func (b *Builder) bookRest(m *member, rest ioFields, children []*member, system time.Duration) ioFields {
	if rest.zero() {
		return rest
	}
	if n := len(children); n > 0 {
		for i, c := range children {
			c.acct.held.io = c.acct.held.io.plus(rest.share(i, n))
			c.acct.held.hasIO = true
			if c.mark != b.seq { // died in an earlier step, or in this one: booked again at the end of it
				b.late = append(b.late, c)
			}
		}
		return ioFields{}
	}
	most := max(rest[ioRChar], rest[ioWChar], rest[ioReadBytes], rest[ioWriteBytes])
	if most <= unseenSlack {
		return rest
	}
	// Workers read, checkpoints write.
	if m.Role == RoleRank && m.life != nil && max(rest[ioRChar], rest[ioReadBytes]) >= max(rest[ioWChar], rest[ioWriteBytes]) {
		if slots := m.life.churning(); len(slots) > 0 {
			for i, key := range slots {
				b.totals.at(key, m.start).add(&amounts{io: rest.share(i, len(slots)), hasIO: true})
			}
			return ioFields{}
		}
	}
	if float64(most) <= (system+b.cfg.ClockTick).Seconds()*threadRate {
		return rest // a thread that came and went: copying costs system time, reaping does not
	}
	b.totals.at(Series{RoleHelper, None, None, None}, m.start).add(&amounts{io: rest, hasIO: true})
	return ioFields{}
}

// churning are the series of a rank's worker slots while workers come and go between two readings; nil while a pool lives on.
func (r *rankLife) churning() []Series {
	if len(r.loaders) == 0 {
		return nil
	}
	for _, p := range r.pools {
		if p.firstEnd == 0 && p.settled {
			return nil
		}
	}
	l := r.loaders[0]
	if n := len(r.pools); n > 0 {
		l = r.pools[n-1].loader
	}
	keys := make([]Series, max(l.count, 1))
	for i := range keys {
		keys[i] = Series{RoleWorker, r.Rank.Rank, l.index, i}
	}
	return keys
}

// book moves what is held of a process to its series, once it has one.
func (b *Builder) book(m *member) {
	key, ok := m.series()
	if !ok {
		return
	}
	t := b.totals.at(key, m.start)
	t.add(&m.acct.held)
	if m.pool != nil {
		m.pool.ReadBytes += m.acct.held.io[ioRChar]
		m.pool.StorageRead += m.acct.held.io[ioReadBytes]
	}
	m.acct.held = amounts{}
	if m.Role == RoleWorker && !m.acct.counted {
		m.acct.counted = true
		t.workerStarts++
	}
}

// series is where a process's figures belong. ok is false as long as that is not decided.
func (m *member) series() (key Series, ok bool) {
	switch {
	case m.Undecided:
		return Series{}, false
	case m.Role == RoleRank:
		return Series{RoleRank, m.Rank, None, None}, true
	case m.Role == RoleWorker:
		return Series{RoleWorker, m.Rank, m.Loader, m.Slot}, m.pool != nil && m.pool.settled
	}
	return Series{m.Role, None, None, None}, true
}
