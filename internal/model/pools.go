package model

import (
	"slices"
	"time"
)

// pool is one generation of a loader's workers.
type pool struct {
	Pool
	loader    *loader
	members   []*member
	alive     int
	lastBirth time.Duration
	opened    time.Duration // when its first member was found
	// settled: all its members are known. Until then slots may still be renumbered, and nothing is booked to them.
	settled bool
}

// loader is one DataLoader of a rank, as far as it can be told from outside.
type loader struct {
	index       int
	count       int
	generations int
	live        *pool
}

// group puts the workers into pools.
func (b *Builder) group() {
	for _, m := range b.dead {
		m.pool.leave(b.now)
	}
	for _, m := range b.order {
		if m.Role != RoleWorker || m.pool != nil || m.life == nil {
			continue
		}
		b.join(m)
		if m.raw == nil {
			m.pool.leave(b.now)
		}
	}
	b.settle()
}

// leave notes that a member has ended.
func (p *pool) leave(at time.Duration) {
	if p == nil {
		return
	}
	if p.alive--; p.alive == 0 {
		p.End = at
		p.loader.live = nil
	}
}

const birthWindow = 3 * time.Second

func (b *Builder) join(m *member) {
	r := m.life
	var p *pool
	if n := len(r.pools); n > 0 {
		last := r.pools[n-1]
		if last.alive == len(last.members) && m.start-last.lastBirth <= birthWindow {
			p = last
		}
	}
	if p == nil {
		p = b.openPool(r, m)
	}
	p.members = append(p.members, m)
	p.alive++
	p.lastBirth = max(p.lastBirth, m.start)
	p.Workers = max(p.Workers, p.alive)
	p.Start = min(p.Start, m.start)
	p.loader.count = max(p.loader.count, p.Workers)
	m.pool = p
	m.Loader, m.Slot, m.Generation = p.Loader, len(p.members)-1, p.Generation
	if !p.settled {
		// A spawned worker that imported faster is found before its elder.
		slices.SortStableFunc(p.members, func(x, y *member) int { return cmpID(x.id, y.id) })
		for i, w := range p.members {
			w.Slot = i
		}
	}
	p.Members = p.Members[:0]
	for _, w := range p.members {
		p.Members = append(p.Members, w.id)
	}
}

// How long a pool stays open to further members: births of one pool follow each other closely, but members started by the
// spawn methods can be found long after one another.
const (
	settleAfter = 1500 * time.Millisecond
	settleLimit = 20 * time.Second
)

// settle closes pools whose members are all known.
func (b *Builder) settle() {
	for _, r := range b.lives {
		for _, p := range r.pools {
			if p.settled {
				continue
			}
			p.settled = p.alive < len(p.members) || b.now-p.opened > settleLimit ||
				b.now-p.lastBirth >= settleAfter && !b.awaited(p)
		}
	}
}

// awaited: a process that may yet turn out to be a member of the pool.
func (b *Builder) awaited(p *pool) bool {
	return slices.ContainsFunc(b.order, func(m *member) bool {
		return m.Undecided && m.life != nil && m.life.ID == p.OfRank && m.start >= p.Start-birthWindow && m.start <= p.lastBirth+birthWindow
	})
}

func (b *Builder) openPool(r *rankLife, m *member) *pool {
	i := slices.IndexFunc(r.loaders, func(l *loader) bool { return l.live == nil })
	if i < 0 {
		i = len(r.loaders)
		r.loaders = append(r.loaders, &loader{index: i})
	}
	l := r.loaders[i]
	method := "fork"
	switch {
	case m.facts.forkserver:
		method = "forkserver"
	case m.facts.spawned:
		method = "spawn"
	}
	p := &pool{loader: l, opened: b.now, Pool: Pool{
		Rank: r.Rank.Rank, OfRank: r.ID, Loader: l.index, Generation: l.generations, StartMethod: method, Start: m.start,
	}}
	l.generations++
	l.live = p
	r.pools = append(r.pools, p)
	return p
}
