package model

import (
	"cmp"
	"slices"
)

// maxEnded bounds the lives of ranks that are remembered, for runs that restart for weeks.
const maxEnded = 1024

// bury takes leave of the members that ended in this step.
func (b *Builder) bury() []Ended {
	if len(b.dead) == 0 {
		return nil
	}
	out := make([]Ended, 0, len(b.dead))
	for _, m := range b.dead {
		e := Ended{ID: m.id, Identity: m.Identity, Info: m.info, Start: m.start, At: m.end}
		if x := b.exits[m.id]; x != nil {
			e.Status = x.Status
		}
		e.Orphaned = m.Role != RoleRank && m.life != nil && m.life.member == nil
		out = append(out, e)
	}
	for _, m := range b.dead {
		if m.Role == RoleRank && m.life != nil {
			m.life.End, m.life.member = m.end, nil
			if x := b.exits[m.id]; x != nil {
				m.life.Status = x.Status
			}
		}
		delete(b.members, m.id)
		delete(b.infos, m.id)
		if b.byPID[m.id.PID] == m {
			delete(b.byPID, m.id.PID)
		}
	}
	for _, m := range b.dead {
		b.handOver(m)
	}
	b.forgetLives()
	return out
}

// handOver gives the children of a dead member to the one above it. They keep what they were found to be.
func (b *Builder) handOver(m *member) {
	heir := m.parent
	for heir != nil && b.members[heir.id] == nil {
		heir = heir.parent
	}
	for _, c := range m.children {
		if b.members[c.id] == nil {
			continue
		}
		c.parent, c.orphan = heir, true
		if heir != nil {
			heir.children = append(heir.children, c)
		}
	}
	m.children = nil
	if p := m.parent; p != nil {
		p.children = slices.DeleteFunc(p.children, func(c *member) bool { return c == m })
	}
}

// forgetLives drops the ranks that ended longest ago when there are too many.
func (b *Builder) forgetLives() {
	over := len(b.lives) - maxEnded
	b.lives = slices.DeleteFunc(b.lives, func(l *rankLife) bool {
		if over <= 0 || l.member != nil {
			return false
		}
		over--
		return true
	})
}

// fill writes what the step left behind into the frame.
func (b *Builder) fill(f *Frame) {
	workers := map[*rankLife]int{}
	f.Procs = make([]Proc, 0, len(b.order))
	for _, m := range b.order {
		if m.raw == nil {
			continue
		}
		f.Procs = append(f.Procs, Proc{
			ID: m.id, Parent: m.parentID, Identity: m.Identity, Info: m.info, Raw: m.raw, Start: m.start, Delta: m.delta,
		})
		if m.Role == RoleWorker && m.life != nil {
			workers[m.life]++
		}
	}
	for _, l := range b.lives {
		r := l.Rank
		r.Workers = workers[l]
		f.Ranks = append(f.Ranks, r)
		kept := l.pools[:0]
		for _, p := range l.pools {
			if p.certain(l) {
				out := p.Pool
				out.Members = slices.Clone(p.Members)
				f.Pools = append(f.Pools, out)
			}
			if p.alive > 0 {
				kept = append(kept, p)
			}
		}
		l.pools = kept
	}
	slices.SortFunc(f.Ranks, func(x, y Rank) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Generation, y.Generation))
	})
	f.Totals = b.list()
	b.order = slices.DeleteFunc(b.order, func(m *member) bool { return m.raw == nil })
}
