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
	io    ioFields
	child *member
	tries int // readings of the reaper in which the jump may still come
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
	wasSure  bool     // the own share of the step before was known from the threads
	debt     ioFields // booked as its own, and known by now to have been a child's
	credits  []credit
	// unexplained waits, since the step unexplainedAt, for the end of a child that explains it.
	unexplained   ioFields
	unexplainedAt uint64
	counted       bool // as a holder of its worker slot
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
	if !a.unexplained.zero() {
		a.held.io = a.held.io.plus(b.bookUnseen(m, a.unexplained, 0))
		a.unexplained = ioFields{}
	}
	reaper := b.reaperOf(m)
	if reaper == nil {
		return
	}
	if a.last != nil {
		reaper.acct.credits = append(reaper.acct.credits, credit{io: *a.last, child: m, tries: creditSteps})
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
	if p == nil || p == m || p.id.StartTicks > m.id.StartTicks {
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
	var children []*member
	if sure {
		rest := step.less(share).plus(a.unexplained)
		var theirs ioFields
		if theirs, children = a.match(rest, step.plus(a.unexplained)); len(children) > 0 {
			b.bookChildren(rest.less(theirs), children)
			a.unexplained, a.unexplainedAt = ioFields{}, 0
			share = share.less(theirs.less(rest))
		} else {
			share = share.plus(b.bookUnseen(m, rest, system))
		}
	} else {
		if !a.unexplained.zero() {
			if theirs, late := a.match(a.unexplained, a.unexplained); len(late) > 0 {
				b.bookChildren(a.unexplained.less(theirs), late)
				a.unexplained, a.unexplainedAt = ioFields{}, 0
			}
		}
		var theirs ioFields
		theirs, children = a.match(step, step)
		share = step.less(theirs)
		a.suspect()
	}
	a.wasSure = sure
	paid := share.min(a.debt)
	share, a.debt = share.less(paid), a.debt.less(paid)
	a.ownTotal = a.ownTotal.plus(share)
	a.ownPrev = share
	a.held.io = a.held.io.plus(share)
	return share, len(children) > 0, true
}

// match finds the reaped children whose totals are in a growth, and returns the sum of these. likely is the part of the growth
// that is not the process's own as far as we know, most is all of it. A child whose total is not in there has not been
// reaped yet, or its jump is not read yet.
func (a *account) match(likely, most ioFields) (theirs ioFields, children []*member) {
	if len(a.credits) == 0 {
		return theirs, nil
	}
	kept := a.credits[:0]
	for _, c := range a.credits {
		sum := theirs.plus(c.io)
		switch {
		case !most.zero() && most.covers(sum) && likely.holdsHalf(sum):
			theirs = sum
			children = append(children, c.child)
		case c.tries > 1:
			c.tries--
			kept = append(kept, c)
		}
	}
	clear(a.credits[len(kept):])
	a.credits = kept
	return theirs, children
}

// suspect looks at the children that have just ended without a jump in this step: if the step before was large enough, it held
// the jump already. It was booked as the process's own then, and is taken out of what it does from now on.
func (a *account) suspect() {
	if a.wasSure {
		return
	}
	kept := a.credits[:0]
	for _, c := range a.credits {
		if c.tries == creditSteps-1 && !c.io.zero() && a.ownPrev.covers(c.io) {
			a.debt = a.debt.plus(c.io)
			continue
		}
		kept = append(kept, c)
	}
	clear(a.credits[len(kept):])
	a.credits = kept
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

// bookChildren books what a process's counters grew by beyond its own share and the known totals of the children that were
// reaped: what these did after their last reading, their own children included.
func (b *Builder) bookChildren(rest ioFields, children []*member) {
	var known ioFields
	for _, c := range children {
		known = known.plus(*c.acct.last)
	}
	for i, c := range children {
		// Who did much before did most of the rest.
		part := rest
		if i < len(children)-1 {
			part = rest.part(*c.acct.last, known)
			known = known.less(*c.acct.last)
		}
		rest = rest.less(part)
		c.acct.held.io = c.acct.held.io.plus(part)
		c.acct.held.hasIO = true
		b.late = append(b.late, c) // some of them ended in an earlier step
	}
}

// unseenSlack is a growth beyond a process's own that is not worth a thought when nobody died.
const unseenSlack = 64 << 10

// threadRate is a rate that no thread exceeds when it copies to or from the page cache, in bytes per second of system time.
const threadRate = 4 << 30

// unseenSteps is how long a growth without a cause waits for one: the reaper may be read after it has reaped a child that was
// read before.
const unseenSteps = 2

// bookUnseen books a growth beyond a process's own share for which no child is known to have ended: children that were never
// seen alive, or a thread that came and went. It returns what is the process's own after all.
func (b *Builder) bookUnseen(m *member, rest ioFields, system time.Duration) ioFields {
	a := &m.acct
	most := max(rest[ioRChar], rest[ioWChar], rest[ioReadBytes], rest[ioWriteBytes])
	if most <= unseenSlack {
		a.unexplained, a.unexplainedAt = ioFields{}, 0
		return rest
	}
	var slots []Series
	// Workers read, checkpoints write.
	if m.Role == RoleRank && max(rest[ioRChar], rest[ioReadBytes]) >= max(rest[ioWChar], rest[ioWriteBytes]) {
		slots = m.life.churning()
	}
	if a.unexplainedAt == 0 && len(slots) == 0 && float64(most) <= (system+b.cfg.ClockTick).Seconds()*threadRate {
		return rest // a thread that came and went: copying costs system time, reaping does not
	}
	if a.unexplainedAt == 0 {
		a.unexplainedAt = b.seq
	}
	if m.raw != nil && b.seq < a.unexplainedAt+unseenSteps {
		a.unexplained = rest
		return ioFields{}
	}
	a.unexplained, a.unexplainedAt = ioFields{}, 0
	if len(slots) == 0 {
		slots = []Series{{RoleHelper, None, None, None}}
	}
	for i, key := range slots {
		b.totals.at(key, m.start).add(&amounts{io: rest.share(i, len(slots)), hasIO: true})
	}
	return ioFields{}
}

// churning are the series of a rank's worker slots while workers come and go between two readings; nil while a pool lives on.
func (r *rankLife) churning() []Series {
	if r == nil || len(r.loaders) == 0 {
		return nil
	}
	for _, p := range r.pools {
		if p.firstEnd == 0 && p.settled && p.alive > 0 {
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
