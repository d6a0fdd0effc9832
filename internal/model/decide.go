package model

import (
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// shortLife is a life in which a worker may not have come to setting its signal handlers and its name.
const shortLife = 1500 * time.Millisecond

// maxPasses bounds how often one step judges all members again: a rank that turns up turns its parent into a launcher, which
// can make ranks of its siblings.
const maxPasses = 4

// decideAll gives every member its role. Roles are judged again in every step, because the facts come late: a worker is a copy
// of its rank first, and looks like a worker half a second later.
func (b *Builder) decideAll() {
	b.comparePipes()
	for range maxPasses {
		changed := false
		for _, m := range b.order {
			m.relate()
		}
		for _, m := range b.order {
			if b.decide(m) {
				changed = true
			}
		}
		if !changed {
			return
		}
	}
}

// relate works out what the rules want to know of a member's relatives.
func (m *member) relate() {
	p := m.parent
	if p == nil {
		return
	}
	if !m.orphan {
		m.underWorker = p.Role == RoleWorker || p.underWorker
	}
	// Only a rank has children of multiprocessing's spawn methods, or workers: DataLoader workers are daemonic, and daemonic
	// processes may have no children.
	if m.facts.tracker || m.facts.spawned || m.facts.forkserver && !p.facts.forkserver || m.info.Comm == "pt_data_worker" && p.info.Comm != "pt_data_worker" {
		p.hasWorkers = p.hasWorkers || m.info.Comm == "pt_data_worker" || p.facts.spawned
		if g := p.parent; g != nil && p.facts.forkserver {
			g.hasWorkers = true
		}
	}
}

// decide applies the table to one member and reports whether its role changed.
func (b *Builder) decide(m *member) bool {
	if m.raw == nil && m.rule >= 0 {
		return b.decideEnded(m)
	}
	if m.orphan && m.rule >= 0 && !m.Undecided && m.Role != RoleOther && m.Role != RoleRank {
		return false // what it was born below is gone: what we found then stands
	}
	v := view{member: m, above: above(m), now: b.now}
	if m.Role == RoleRank && m.raw != nil {
		m.life.status, m.life.wait = m.status, m.raw.Wait
	}
	for i := range rules {
		if m.keeps(i) {
			return m.life != v.above && m.Role != RoleRank && b.assign(&v, m.rule)
		}
		if rules[i].match(&v) {
			return b.assign(&v, i)
		}
	}
	return false
}

// keeps: a worker stays one although the signs come and go, unless an earlier rule says better; a rank stays one unless it turns
// out to be a launcher. Only an exec makes something else of a process.
func (m *member) keeps(i int) bool {
	if m.rule < 0 || m.execed {
		return false
	}
	switch m.Role {
	case RoleWorker:
		return i == m.rule
	case RoleRank:
		return rules[i].role != RoleLauncher && i >= firstRankRule
	}
	return false
}

// decideEnded makes up its mind about a process that ended undecided.
func (b *Builder) decideEnded(m *member) bool {
	if !m.Undecided {
		return false
	}
	m.Undecided = false
	v := view{member: m, above: above(m), now: b.now}
	// So short a life leaves no time to show a sign. Between two pools it was a worker more likely than anything else.
	if v.above != nil && v.isForkOf(v.above) && (m.end-m.start < shortLife || m.facts.bare) && v.above.handsOver() {
		m.Role, m.Reason, m.Confidence = RoleWorker, "a fork of the rank that ended before it could show a sign, between two pools", ConfidenceLow
	}
	return true
}

// above is the nearest rank above a process.
func above(m *member) *rankLife {
	if m.orphan && m.life != nil {
		return m.life
	}
	for p := m.parent; p != nil; p = p.parent {
		if p.Role == RoleRank || p.life != nil && p.Role != RoleLauncher {
			return p.life
		}
	}
	return nil
}

// assign gives a member the role of a rule.
func (b *Builder) assign(v *view, i int) bool {
	m, r := v.member, &rules[i]
	if m.rule == i && (r.role == RoleRank || m.life == v.above) {
		return false
	}
	was := m.Role
	if was == RoleRank && r.role != RoleRank {
		b.withdraw(m)
	}
	m.rule, m.execed = i, false
	m.Role, m.Confidence, m.Undecided, m.Reason = r.role, r.confidence, r.undecided, r.reason(v)
	switch {
	case r.role == RoleRank && was != RoleRank:
		b.enthrone(m)
		if p := m.parent; p != nil && m.startedByMultiprocessing() {
			if p.facts.forkserver && p.parent != nil {
				p = p.parent
			}
			p.spawnsRanks = true
		}
	case r.role == RoleLauncher:
		m.life, m.Rank, m.LocalRank, m.OfRank = nil, None, None, snapshot.ProcID{}
		m.coverAncestors()
	case r.role != RoleRank:
		m.life = v.above
		m.Rank, m.LocalRank, m.OfRank = None, None, snapshot.ProcID{}
		if v.above != nil {
			m.Rank, m.LocalRank, m.OfRank = v.above.Rank.Rank, v.above.LocalRank, v.above.ID
		}
	}
	return true
}

// enthrone makes a rank of a member.
func (b *Builder) enthrone(m *member) {
	n, local := m.facts.rank, m.facts.localRank
	switch {
	case n != None:
	case m.parent != nil && rules[m.rule].name == "spawned rank":
		n = m.spawnOrder - m.parent.spawnBase(m)
	default:
		n = b.freeRank()
	}
	if local == None {
		local = n
	}
	life := &rankLife{
		Rank: Rank{ID: m.id, Rank: n, LocalRank: local, Reason: m.Reason, Start: m.start, StartWall: b.wall.Add(m.start - b.now)},
		exe:  m.info.Exe, comm: m.info.Comm, args: m.info.Cmdline, firstArgs: m.born,
		status: m.status, member: m,
	}
	life.WorldSize = max(m.facts.world, 0)
	for _, l := range b.lives {
		if l.Rank.Rank == n {
			life.Generation = max(life.Generation, l.Generation+1)
		}
	}
	life.Generation = max(life.Generation, m.facts.restart)
	m.life = life
	m.Rank, m.LocalRank, m.OfRank = n, local, m.id
	b.lives = append(b.lives, life)
	m.coverAncestors()
}

// coverAncestors: whatever is above a rank or a launcher is a launcher.
func (m *member) coverAncestors() {
	for p := m.parent; p != nil; p = p.parent {
		p.hasRankBelow = true
	}
}

// spawnBase is the number of the first of the children that a spawned rank was started with: other children of
// multiprocessing may have come and gone before.
func (m *member) spawnBase(child *member) int {
	if m.firstSpawn == nil {
		base := child.spawnOrder
		for _, s := range m.children {
			if s.startedByMultiprocessing() && !s.facts.tracker {
				base = min(base, s.spawnOrder)
			}
		}
		m.firstSpawn = &base
	}
	return *m.firstSpawn
}

// freeRank is the lowest rank that no living process has.
func (b *Builder) freeRank() int {
	for n := 0; ; n++ {
		if !slices.ContainsFunc(b.lives, func(l *rankLife) bool { return l.member != nil && l.Rank.Rank == n }) {
			return n
		}
	}
}

// withdraw takes back that a member was a rank.
func (b *Builder) withdraw(m *member) {
	b.lives = slices.DeleteFunc(b.lives, func(l *rankLife) bool { return l == m.life })
	m.life = nil
}
