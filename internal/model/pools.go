package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// pool is one generation of a loader's workers.
type pool struct {
	Pool
	loader    *loader
	members   []*member
	alive     int
	lastBirth time.Duration
	firstEnd  time.Duration // when the first member ended; 0 while all live
	opened    time.Duration // when its first member was found
	// settled: all its members are known, and so is the loader. Until then slots may still be renumbered, and nothing is
	// booked to them.
	settled bool
}

// loader is one DataLoader of a rank, as far as it can be told from outside. Two loaders of as many workers each whose
// workers never live at the same time look like one.
type loader struct {
	index       int
	count       int  // workers of its pools
	partial     bool // its count comes from a pool that ended before it was seen whole
	generations int  // pools so far
	lastEnd     time.Duration
	live        *pool
}

// How long a pool stays open to further members: births of one pool follow each other closely, but members started by the
// spawn methods may be found long after one another.
const (
	birthWindow = 3 * time.Second
	settleAfter = 1500 * time.Millisecond
	settleLimit = 20 * time.Second
)

// startTick is the resolution of start times in /proc: USER_HZ is 100 on every architecture that torch runs on.
const startTick = 10 * time.Millisecond

// maxLoaders bounds the loaders of a rank: beyond it a new pool goes to the loader it is most like.
const maxLoaders = 16

// group puts the workers into pools. Those that have ended whole are settled before new workers join: a set that replaces another
// in one step is its next generation from the start.
func (b *Builder) group() {
	for _, m := range b.dead {
		m.pool.leave(m)
	}
	b.joinAll(func(m *member) bool { return m.raw == nil })
	b.settleAll(func(p *pool) bool { return p.alive == 0 })
	b.joinAll(func(*member) bool { return true })
	b.settleAll(func(*pool) bool { return true })
}

// joinAll takes the workers that pass the test and have no pool yet into one.
func (b *Builder) joinAll(now func(*member) bool) {
	for _, m := range b.order {
		if m.Role != RoleWorker || m.pool != nil || m.life == nil || !now(m) {
			continue
		}
		b.join(m)
		if m.raw == nil {
			m.pool.leave(m)
		}
	}
}

func (b *Builder) settleAll(now func(*pool) bool) {
	for _, r := range b.lives {
		for _, p := range r.pools {
			if now(p) {
				b.settle(r, p)
			}
		}
	}
}

// leave notes that a member has ended.
func (p *pool) leave(m *member) {
	if p == nil {
		return
	}
	if p.firstEnd == 0 || m.end < p.firstEnd {
		p.firstEnd = m.end
	}
	if p.alive--; p.alive == 0 {
		p.End, p.loader.lastEnd = m.end, m.end
		if p.loader.live == p {
			p.loader.live = nil
		}
	}
}

// join puts a worker into the pool that it belongs to, or opens one.
func (b *Builder) join(m *member) {
	r := m.life
	var p *pool
	for i := len(r.pools) - 1; i >= 0 && p == nil; i-- {
		if b.belongs(r, r.pools[i], m) {
			p = r.pools[i]
		}
	}
	if p == nil {
		p = &pool{opened: b.now, Pool: Pool{Rank: r.Rank.Rank, OfRank: r.ID, StartMethod: m.startMethod(), Start: m.start}}
		r.pools = append(r.pools, p)
	}
	p.members = append(p.members, m)
	p.alive++
	p.End = 0 // it may have looked ended before this one was found
	p.lastBirth = max(p.lastBirth, m.start)
	p.Workers = max(p.Workers, len(p.members))
	p.Start = min(p.Start, m.start)
	m.pool = p
	if p.loader == nil {
		p.adopt(r)
	}
	p.number()
}

func (m *member) startMethod() string {
	switch {
	case m.facts.forkserver:
		return "forkserver"
	case m.facts.spawned:
		return "spawn"
	}
	return "fork"
}

// number gives the members their slots and tells them the loader. In a pool that is not settled the slots follow creation: a
// spawned worker that imported faster is found before its elder. In a settled one they never change.
func (p *pool) number() {
	if !p.settled {
		slices.SortStableFunc(p.members, func(x, y *member) int { return cmpID(x.id, y.id) })
	}
	p.Members = make([]snapshot.ProcID, len(p.members))
	for i, w := range p.members {
		w.Loader, w.Slot, w.Generation = p.Loader, i, p.Generation
		p.Members[i] = w.id
	}
}

// belongs decides whether a worker is one of a pool. A DataLoader starts all its workers in one go and never replaces one.
func (b *Builder) belongs(r *rankLife, p *pool, m *member) bool {
	// A start is cut down to the kernel's tick, an end may be exact: what was born in the tick of an end came after it.
	if p.StartMethod != m.startMethod() || p.firstEnd != 0 && p.firstEnd < m.start+startTick {
		return false
	}
	// Where nobody told when exactly the pool ended, it was before what is born in the step in which it did.
	if p.alive == 0 && m.raw != nil && b.prev != nil && m.start+startTick > b.prev.Mono {
		return false
	}
	if m.start-p.lastBirth > birthWindow || p.Start-m.start > birthWindow {
		return false
	}
	return !b.pipesDiffer(r, p, m)
}

// pipesDiffer: the members of a pool share the pipe of its result queue, and each has at most its own index pipe more than the
// one before. The first worker of another loader brings two new pipes. A forked worker inherits what the rank holds, the
// pipes of its older workers too, so only what is new tells.
func (b *Builder) pipesDiffer(r *rankLife, p *pool, m *member) bool {
	if len(m.info.Pipes) == 0 {
		return false
	}
	var theirs, foreign []string
	for _, q := range r.pools {
		for _, w := range q.members {
			if q == p {
				theirs = append(theirs, w.info.Pipes...)
			} else {
				foreign = append(foreign, w.info.Pipes...)
			}
		}
	}
	theirs = without(theirs, foreign)
	if len(theirs) == 0 {
		return false
	}
	own := without(m.info.Pipes, foreign)
	fresh := without(own, theirs)
	if len(fresh) == len(own) {
		return true
	}
	// Pipes that a worker makes for itself, to talk to a child, are not the rank's.
	if r.member != nil {
		fresh = without(fresh, without(fresh, r.member.info.Pipes))
	}
	missing := 0 // siblings born in between that are not known yet
	for _, s := range b.order {
		if s.Undecided && s.bornOf == m.bornOf && cmpID(s.id, m.id) < 0 && s.start >= p.Start {
			missing++
		}
	}
	return len(fresh) > 1+missing
}

// settle closes a pool whose members are all known.
func (b *Builder) settle(r *rankLife, p *pool) {
	if p.settled {
		return
	}
	p.settled = p.firstEnd != 0 || b.now-p.opened > settleLimit || b.now-p.lastBirth >= settleAfter && !b.awaited(p)
	if !p.settled {
		return
	}
	if p.loader.live == p {
		p.loader.live = nil
	}
	guess := p.loader
	p.adopt(r)
	r.guessed = guess == p.loader && p.loader.generations > 0
	short := p.firstEnd != 0 && p.firstEnd-p.lastBirth < settleAfter
	l := p.loader
	if l.generations == 0 || l.partial && !short {
		l.count, l.partial = p.Workers, short
	} else {
		l.count = max(l.count, p.Workers)
	}
	l.generations++
	if p.alive == 0 {
		l.live, l.lastEnd = nil, p.End
	}
	p.number()
}

// adopt finds the loader that a pool is the next generation of.
func (p *pool) adopt(r *rankLife) {
	// A loader that was made for this pool alone, while another was still ending, is not needed if that one is free now.
	if n := len(r.loaders); n > 0 && r.loaders[n-1] == p.loader && p.loader.generations == 0 {
		r.loaders = r.loaders[:n-1]
	}
	var best *loader
	for _, l := range r.loaders {
		if l.live == nil && l.suits(p) && (best == nil || l.rank(p, best) < 0) {
			best = l
		}
	}
	if best == nil && len(r.loaders) >= maxLoaders {
		best = slices.MinFunc(r.loaders, func(x, y *loader) int { return x.rank(p, y) })
	}
	if best == nil {
		best = &loader{index: len(r.loaders)}
		r.loaders = append(r.loaders, best)
	}
	best.live = p
	p.loader, p.Loader, p.Generation = best, best.index, best.generations
}

// suits: pools of one loader have as many workers each. A pool that is still growing, or was seen in part, may have fewer yet.
func (l *loader) suits(p *pool) bool {
	if l.generations == 0 {
		return true
	}
	whole := p.settled && (p.firstEnd == 0 || p.firstEnd-p.lastBirth >= settleAfter)
	return l.count == p.Workers || l.count > p.Workers && !whole || l.count < p.Workers && l.partial
}

// certain: the pool's loader and generation will not be found to be others. Before a pool is settled we guess, by whose turn
// it is; a guess that was right the last time is good enough.
func (p *pool) certain(r *rankLife) bool {
	return p.settled || r.guessed || len(r.loaders) == 1 && p.loader.generations == 0
}

// rank orders loaders by how well they suit a pool: same count first, then the one whose turn it is. While the pool still
// grows only the turn counts.
func (l *loader) rank(p *pool, other *loader) int {
	if !p.settled {
		return cmp.Compare(l.lastEnd, other.lastEnd)
	}
	off := func(l *loader) int { return max(l.count-p.Workers, p.Workers-l.count) }
	return cmp.Or(cmp.Compare(off(l), off(other)), cmp.Compare(l.lastEnd, other.lastEnd))
}

// awaited: a process that may yet turn out to be a member of the pool.
func (b *Builder) awaited(p *pool) bool {
	return slices.ContainsFunc(b.order, func(m *member) bool {
		return m.Undecided && m.life != nil && m.life.ID == p.OfRank && m.start >= p.Start-birthWindow && m.start <= p.lastBirth+birthWindow
	})
}
