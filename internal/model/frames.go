package model

import (
	"cmp"
	"slices"
)

// maxEnded bounds the ended ranks and pools that are remembered, for runs that restart for weeks.
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
		if m.Role == RoleRank && m.life != nil {
			m.life.End, m.life.Status, m.life.member = e.At, e.Status, nil
		}
		delete(b.members, m.id)
		delete(b.infos, m.id)
		if b.byPID[m.id.PID] == m {
			delete(b.byPID, m.id.PID)
		}
	}
	for _, m := range b.members {
		for m.parent != nil && b.members[m.parent.id] == nil {
			m.parent, m.orphan = m.parent.parent, true
		}
	}
	return out
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
			out := p.Pool
			out.Members = slices.Clone(p.Members)
			f.Pools = append(f.Pools, out)
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
