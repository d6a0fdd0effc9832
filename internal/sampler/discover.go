package sampler

import (
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// discovery finds the members of the job at a cost that follows the job, not the machine. Each listing of /proc is a few
// system calls; only pids that were not there in the previous one are opened. A foreign process is remembered by its pid
// alone, so its number may have passed on to a new process in between: the kernel gives pids out in a circle, and
// /proc/loadavg says how far it has come, so only numbers that it has come past since are looked at again.
type discovery struct {
	loadavg procfs.File
	gate    bool  // loadavg speaks of the same pid namespace as this /proc
	last    int32 // pid that was given out last, at the previous listing
	listing uint64
	skipped int // listings that the gate has saved since the last one

	pids    []int32
	foreign []int32 // ascending
	next    []int32 // the foreign of the listing being made
	fresh   map[int32]*candidate
	pending int // candidates whose parent was not known in the previous listing
	rotor   int // without a gate: where the rotating re-check of foreign pids stands
}

// candidate is a process that was not known before.
type candidate struct {
	stat    procfs.Stat
	comm    string
	verdict verdict
}

type verdict uint8

const (
	undecided verdict = iota
	deciding          // being resolved: a cycle in what was read ends here
	member
	foreign
	pending // its parent is not known: look again next time
)

// maxSkipped is how many listings in a row the gate may save: the number given out last also stands still when the kernel's
// circle was set back and has come to the same place again.
const maxSkipped = 4

// recheckWithoutGate is how many remembered foreign pids are looked at again per listing where loadavg cannot say which.
const recheckWithoutGate = 256

// discover lists /proc, takes in new members and marks the ones that are not there any more.
func (s *Sampler) discover() error {
	d := &s.disc
	from := d.last
	if d.gate {
		last, err := s.fs.ReadLastPID(d.loadavg)
		if err != nil {
			d.gate = false
		} else if last == d.last && d.skipped < maxSkipped && d.pending == 0 && s.dead == 0 {
			d.skipped++
			return nil // nothing was forked, and ends are known from the kept descriptors
		} else {
			d.last = last
		}
	}
	var err error
	if d.pids, err = s.fs.PIDs(d.pids[:0]); err != nil {
		return err
	}
	if !slices.IsSorted(d.pids) { // a real /proc is; a folder that looks like one need not be
		slices.Sort(d.pids)
	}
	d.listing++
	d.skipped = 0
	d.next = d.next[:0]
	clear(d.fresh)
	d.pending = 0
	s.sortOut(from)
	s.takeIn()
	d.foreign, d.next = d.next, d.foreign
	for _, p := range s.members {
		if p.seen != d.listing && !p.reaped {
			s.markReaped(p, s.clock.Now())
		}
	}
	return nil
}

// sortOut goes through the listing: known members, known foreigners, and those that must be looked at.
func (s *Sampler) sortOut(from int32) {
	d := &s.disc
	old, budget, at := d.foreign, recheckWithoutGate, 0
	if d.rotor >= len(d.pids) {
		d.rotor = 0
	}
	for i, pid := range d.pids {
		if p := s.byPID[pid]; p != nil && !p.reaped {
			p.seen = d.listing
			continue
		}
		if slices.Contains(s.cfg.Exclude, pid) || (pid == s.cfg.Root && !s.cfg.RootIsMember) {
			d.next = append(d.next, pid)
			continue
		}
		for at < len(old) && old[at] < pid {
			at++
		}
		if at < len(old) && old[at] == pid {
			again := d.gate && passed(pid, from, d.last)
			if !d.gate && i >= d.rotor && budget > 0 {
				again = true
				budget--
				d.rotor = i + 1
			}
			if !again {
				d.next = append(d.next, pid)
				continue
			}
		}
		s.lookAt(pid)
	}
}

// passed reports whether the kernel's pid circle has come past pid on its way from one last pid to another.
func passed(pid, from, to int32) bool {
	if from <= to {
		return pid > from && pid <= to
	}
	return pid > from || pid <= to
}

// lookAt reads the stat of a pid that may be new. One that has gone meanwhile, or that hidepid hides, is nobody's.
func (s *Sampler) lookAt(pid int32) {
	c := &candidate{}
	if err := s.fs.Stat(pid, &c.stat); err != nil {
		return
	}
	c.comm = string(c.stat.Comm)
	c.stat.Comm = nil // points into the reader's buffer
	s.disc.fresh[pid] = c
}

// takeIn decides all candidates and adds the members among them, parents before children.
func (s *Sampler) takeIn() {
	d := &s.disc
	for _, pid := range d.pids {
		c := d.fresh[pid]
		if c == nil {
			continue
		}
		switch s.decide(c) {
		case foreign:
			d.next = append(d.next, pid)
		case pending:
			d.pending++
		}
	}
	slices.Sort(d.next)
}

// decide finds out whether a candidate descends from the root. A member stays one after re-parenting, since it is kept by
// its ProcID; what counts here is the parent at first sight.
func (s *Sampler) decide(c *candidate) verdict {
	if c.verdict != undecided {
		return c.verdict
	}
	c.verdict = deciding
	c.verdict = s.judge(c)
	if c.verdict == member {
		s.add(c)
	}
	return c.verdict
}

func (s *Sampler) judge(c *candidate) verdict {
	pid, ppid := c.stat.PID, c.stat.PPID
	switch {
	case pid == s.cfg.Root:
		if s.cfg.RootIsMember && c.stat.StartTicks == s.rootStart {
			return member
		}
		return foreign
	case slices.Contains(s.cfg.Exclude, ppid):
		return foreign
	case ppid == s.cfg.Root && !s.cfg.RootIsMember && !s.rootGone:
		if c.stat.StartTicks < s.jobStart {
			return foreign // the supervisor had it before it started the job
		}
		return member
	}
	if parent := s.byPID[ppid]; parent != nil && parent.id.StartTicks <= c.stat.StartTicks {
		return member
	}
	// An orphan that was re-parented away before it was ever seen: without a subreaper only its session tells. A session's
	// number stays taken as long as the session has members, so a member that leads or led it vouches for the rest.
	if s.sessions[c.stat.SID] {
		if _, alive := slices.BinarySearch(s.disc.pids, c.stat.SID); !alive || s.byPID[c.stat.SID] != nil {
			return member
		}
	}
	if parent := s.disc.fresh[ppid]; parent != nil {
		switch s.decide(parent) {
		case member:
			return member
		case deciding, pending:
			return pending
		}
		return foreign
	}
	if _, known := slices.BinarySearch(s.disc.pids, ppid); known || ppid == 0 {
		return foreign
	}
	return pending
}

// add takes in a member.
func (s *Sampler) add(c *candidate) {
	p := &process{
		id:    snapshot.ProcID{PID: c.stat.PID, StartTicks: c.stat.StartTicks},
		slot:  int(s.born % maxSlots),
		pidfd: -1,
		seen:  s.disc.listing,
		born:  s.clock.Now(),
	}
	s.born++
	p.info = snapshot.ProcInfo{ID: p.id, PPID: c.stat.PPID, PGID: c.stat.PGID, SID: c.stat.SID, Comm: c.comm}
	s.members = append(s.members, p)
	s.byPID[p.id.PID] = p
	if c.stat.SID == p.id.PID {
		s.sessions[p.id.PID] = true
	}
	if parent := s.byPID[c.stat.PPID]; parent != nil {
		// A rank that makes a DataLoader gets its pipes and threads just then.
		parent.walkAt = min(parent.walkAt, p.born+time.Second)
	}
	p.startStack = c.stat.StartStack
	s.open(p)
	s.read(p)
	s.readFacts(p)
}

// forgetSessions drops the sessions of which no member is left: their numbers may be given out again.
func (s *Sampler) forgetSessions() {
	if s.dead == 0 {
		return
	}
	for sid := range s.sessions {
		if !slices.ContainsFunc(s.members, func(p *process) bool { return p != nil && !p.reaped && p.info.SID == sid }) {
			delete(s.sessions, sid)
		}
	}
}
