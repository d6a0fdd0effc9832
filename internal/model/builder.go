package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// BuilderConfig is what a Builder is told beforehand. The zero value works.
type BuilderConfig struct {
	// Root is the job's first process. Zero: the first process without a parent among the members.
	Root snapshot.ProcID
	// ClockTick is the unit of snapshot.ProcID.StartTicks; 0 means 10 ms, which every Linux has used for decades.
	ClockTick time.Duration
	// BootOffset is CLOCK_BOOTTIME less CLOCK_MONOTONIC: start times count the time that the machine was suspended.
	BootOffset time.Duration
}

// Builder makes frames of snapshots. It belongs to one goroutine.
type Builder struct {
	cfg     BuilderConfig
	seq     uint64
	prev    *snapshot.Snapshot
	members map[snapshot.ProcID]*member
	byPID   map[int32]*member // the living, by pid
	infos   map[snapshot.ProcID]*snapshot.ProcInfo
	root    snapshot.ProcID
	order   []*member // parents before children

	lives  []*rankLife // all that Frame.Ranks shows
	totals totals

	dead      []*member // that ended in this step
	exits     map[snapshot.ProcID]*snapshot.Exit
	late      []*member // dead before, and booked to again
	delayAcct bool
	now       time.Duration
	wall      time.Time
}

// NewBuilder returns a Builder that has seen nothing yet.
func NewBuilder(cfg BuilderConfig) *Builder {
	if cfg.ClockTick <= 0 {
		cfg.ClockTick = 10 * time.Millisecond
	}
	return &Builder{
		cfg:     cfg,
		root:    cfg.Root,
		members: map[snapshot.ProcID]*member{},
		byPID:   map[int32]*member{},
		infos:   map[snapshot.ProcID]*snapshot.ProcInfo{},
		totals:  newTotals(),
		exits:   map[snapshot.ProcID]*snapshot.Exit{},
	}
}

// Add takes the next snapshot and returns the frame of the step that ends with it. It keeps a reference to the snapshot,
// which must not change afterwards.
func (b *Builder) Add(s *snapshot.Snapshot) *Frame {
	b.seq++
	b.now, b.wall = s.Mono, s.Wall
	f := &Frame{Seq: s.Seq, Wall: s.Wall, Mono: s.Mono, Raw: s}
	if b.prev != nil && s.Mono > b.prev.Mono {
		f.Elapsed = s.Mono - b.prev.Mono
	}

	f.Born = b.meet(s)
	b.arrange()
	b.decideAll()
	b.group()
	b.settleAccounts(s)
	f.Ended = b.bury()
	b.fill(f)
	b.rates(f)
	f.GPUUse = gpuUse(f)
	b.prev = s
	return f
}

// meet takes in the snapshot's facts and processes, and notes who has gone.
func (b *Builder) meet(s *snapshot.Snapshot) (born []snapshot.ProcID) {
	for i := range s.Infos {
		in := &s.Infos[i]
		b.infos[in.ID] = merge(b.infos[in.ID], in)
		if m := b.members[in.ID]; m != nil {
			m.learn(b.infos[in.ID])
		}
	}
	procs := make([]*snapshot.Proc, len(s.Procs))
	for i := range s.Procs {
		procs[i] = &s.Procs[i]
	}
	slices.SortFunc(procs, func(x, y *snapshot.Proc) int { return cmpID(x.ID, y.ID) })
	for _, p := range procs {
		m := b.members[p.ID]
		if m == nil {
			m = b.admit(p.ID, p.PPID)
			born = append(born, p.ID)
		}
		m.prev, m.raw, m.mark = m.raw, p, b.seq
		if p.Status != nil {
			m.status = p.Status
		}
	}
	b.meetEnded(s)
	return born
}

// meetEnded notes the members that have gone, and admits those that came and went between two snapshots.
func (b *Builder) meetEnded(s *snapshot.Snapshot) {
	b.dead = b.dead[:0]
	clear(b.exits)
	for i := range s.Exits {
		b.exits[s.Exits[i].ID] = &s.Exits[i]

		id := s.Exits[i].ID
		if b.members[id] == nil && b.infos[id] != nil {
			b.admit(id, b.infos[id].PPID)
		}
	}
	for _, m := range b.members {
		if m.mark != b.seq {
			m.prev, m.raw, m.end = m.raw, nil, b.now
			if e := b.exits[m.id]; e != nil {
				m.end = e.At
			}
			b.dead = append(b.dead, m)
		}
	}
	slices.SortFunc(b.dead, func(x, y *member) int { return cmpID(x.id, y.id) })
	// Facts without a process are kept a while, in case it is still to come, but not for ever.
	if len(b.infos) > 2*len(b.members)+64 {
		maps.DeleteFunc(b.infos, func(id snapshot.ProcID, _ *snapshot.ProcInfo) bool { return b.members[id] == nil })
	}
}

// cmpID is the order of creation: start time, then pid.
func cmpID(x, y snapshot.ProcID) int {
	if c := cmp.Compare(x.StartTicks, y.StartTicks); c != 0 {
		return c
	}
	return cmp.Compare(x.PID, y.PID)
}

// merge keeps of the old facts what a title has wiped out: setproctitle overwrites the memory of the environment. The
// environment changes with an exec only, and that changes the executable as a rule.
func merge(old, cur *snapshot.ProcInfo) *snapshot.ProcInfo {
	if old == nil {
		return cur
	}
	in := *cur
	if len(in.Env) < len(old.Env) && in.Exe == old.Exe {
		in.Env = old.Env
	}
	if in.Exe == "" {
		in.Exe = old.Exe
	}
	return &in
}

func (b *Builder) admit(id snapshot.ProcID, ppid int32) *member {
	in := b.infos[id]
	if in == nil {
		in = &snapshot.ProcInfo{ID: id, PPID: ppid}
		b.infos[id] = in
	}
	m := &member{id: id, seen: b.now, rule: -1, Identity: unknown()}
	m.start = min(time.Duration(id.StartTicks)*b.cfg.ClockTick-b.cfg.BootOffset, b.now)
	m.learn(in)
	m.born = in.Cmdline
	if p := b.byPID[in.PPID]; p != nil && p.id.StartTicks <= id.StartTicks {
		m.parent, m.bornOf = p, p.id
		p.children = append(p.children, m)
		m.spawnOrder = p.spawned
		if m.facts.python && !m.facts.tracker && (m.facts.spawned || sameArgs(m.born, p.info.Cmdline)) {
			p.spawned++
		}
	}
	b.members[id] = m
	b.byPID[id.PID] = m
	if b.root == (snapshot.ProcID{}) && m.parent == nil {
		b.root = id
	}
	return m
}

func unknown() Identity {
	return Identity{Rank: None, LocalRank: None, Loader: None, Slot: None, Generation: None}
}

func (m *member) learn(in *snapshot.ProcInfo) {
	if m.info != nil && m.info.Exe != in.Exe { // an exec: what it was born as no longer counts
		m.born, m.execed = in.Cmdline, m.Role != ""
	}
	if m.info != nil && m.born == nil {
		m.born = in.Cmdline
	}
	m.info = in
	m.facts = factsOf(in)
}

// arrange orders the members, parents before children, and finds each one's present parent.
func (b *Builder) arrange() {
	b.order = b.order[:0]
	for _, m := range b.members {
		m.parentID = snapshot.ProcID{}
		if m.raw != nil {
			if p := b.byPID[m.raw.PPID]; p != nil && p.raw != nil && p.id.StartTicks <= m.id.StartTicks {
				m.parentID = p.id
			}
		} else if m.parent != nil {
			m.parentID = m.parent.id
		}
		m.depth = 0
		for p := m.parent; p != nil; p = p.parent {
			m.depth++
		}
		b.order = append(b.order, m)
	}
	slices.SortFunc(b.order, func(x, y *member) int {
		if c := cmp.Compare(x.depth, y.depth); c != 0 {
			return c
		}
		return cmpID(x.id, y.id)
	})
}
