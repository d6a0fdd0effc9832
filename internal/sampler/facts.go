package sampler

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// What a process is, is read at first sight, because it may not live long; again when it execs or renames itself; and what
// changes as a program sets itself up (threads, pipes, GPUs, its title) again at a few ages and when it gets a child.
const (
	maxWalk    = 512 // threads, or descriptors, looked at of one process in one walk
	walkBudget = 512 // of both, looked at in one tick; a walk that has begun is finished
)

// walkAges are the ages, counted from first sight, at which a process is walked. Afterwards every walkEvery.
var walkAges = [...]time.Duration{0, 2 * time.Second, 10 * time.Second, 30 * time.Second}

const walkEvery = 5 * time.Minute

// readFacts reads what tells the role of a process: everything that does not need a walk.
func (s *Sampler) readFacts(p *process) {
	pid := p.id.PID
	info := p.info
	info.Exe = s.fact(p, "procfs.exe", s.fs.Exe)
	info.Cgroup = s.fact(p, "procfs.cgroup", s.fs.Cgroup)
	info.NetNS = s.fact(p, "procfs.ns", s.fs.NetNS)
	if st, err := s.fs.Status(pid); err == nil {
		info.UID, info.CPUs = st.UID, st.CPUsAllowed
		p.status(&st)
	} else {
		s.gap(p, "procfs.status", err)
	}
	s.readMind(p, &info)
	p.learn(info)
}

func (s *Sampler) fact(p *process, source string, read func(int32) (string, error)) string {
	v, err := read(p.id.PID)
	if err != nil {
		s.gap(p, source, err)
	}
	return v
}

// readMind reads what lies in the process's own memory: command line and environment.
func (s *Sampler) readMind(p *process, info *snapshot.ProcInfo) {
	var m struct {
		cmdline       []string
		env           map[string]string
		cmdErr, enErr error
	}
	pid := p.id.PID
	answer := &m
	inTime := s.patient.do(func(fs *procfs.FS) {
		answer.cmdline, answer.cmdErr = fs.Cmdline(pid)
		answer.env, answer.enErr = fs.Environ(pid)
	})
	if !inTime {
		s.gap(p, "procfs.cmdline", procfs.ErrTimeout)
		return
	}
	if m.cmdErr == nil && m.cmdline != nil {
		info.Cmdline = m.cmdline
	}
	if m.enErr == nil {
		info.Env = m.env
	}
	s.gap(p, "procfs.cmdline", m.cmdErr)
	s.gap(p, "procfs.environ", m.enErr)
}

// learn takes over facts and has them told when they are new.
func (p *process) learn(info snapshot.ProcInfo) {
	if sameInfo(&p.info, &info) {
		return
	}
	p.info, p.told = info, false
}

func sameInfo(a, b *snapshot.ProcInfo) bool {
	return a.Comm == b.Comm && a.Exe == b.Exe && a.Cgroup == b.Cgroup && a.NetNS == b.NetNS && a.CPUs == b.CPUs &&
		a.UID == b.UID && a.PGID == b.PGID && a.SID == b.SID && slices.Equal(a.Cmdline, b.Cmdline) &&
		maps.Equal(a.Env, b.Env) && slices.Equal(a.Threads, b.Threads) && slices.Equal(a.Pipes, b.Pipes) &&
		slices.Equal(a.NVidia, b.NVidia)
}

// walk looks at the threads and descriptors of the members that are due, as far as the tick's budget goes.
func (s *Sampler) walk(now time.Duration) {
	left := walkBudget
	for _, p := range s.members {
		if left <= 0 {
			return
		}
		if p.reaped || p.zombie || p.walkAt > now {
			continue
		}
		if p.walks > 0 {
			s.readFacts(p) // a title may have changed, and CPUs been taken away
		}
		left -= s.walkOne(p)
		p.walks++
		p.walkAt = now + walkEvery
		if p.walks < len(walkAges) {
			p.walkAt = p.born + walkAges[p.walks]
		}
	}
}

// walkOne returns how many threads and descriptors it looked at.
func (s *Sampler) walkOne(p *process) int {
	info := p.info
	cost := 0
	th, err := s.fs.Threads(p.id.PID, maxWalk)
	if err == nil {
		info.Threads = th.Names
		cost += int(p.now.proc.NumThreads)
	}
	s.gap(p, "procfs.task", err)
	fds, err := s.fs.FDs(p.id.PID, maxWalk, false)
	if err == nil {
		info.Pipes, info.NVidia = fds.Pipes, fds.NVidia
		cost += fds.Count
		p.setFDs(&fds)
	}
	s.gap(p, "procfs.fd", err)
	p.learn(info)
	return cost
}

func (p *process) setFDs(fds *procfs.FDs) {
	if fds.Truncated {
		p.now.proc.FDs = nil
		return
	}
	n := int32(fds.Count)
	p.now.proc.FDs = &n
}

// status keeps a reading of /proc/PID/status for the snapshot being made.
func (p *process) status(st *procfs.Status) {
	if st.HasMemory {
		group := st.Status
		p.now.proc.Status = &group
	}
}

// noticeChange has the facts of a process read again when stat shows another name, or another stack: an exec gives a program
// a new random one, even when the name stays the same (python3 starting python3).
func (s *Sampler) noticeChange(p *process, st *procfs.Stat) {
	if p.zombie || st.State == 'Z' {
		return // a zombie has lost its memory map
	}
	execed := st.StartStack != p.startStack && st.StartStack > 1 && p.startStack > 1
	p.startStack = st.StartStack
	renamed := string(st.Comm) != p.info.Comm
	if !execed && !renamed && st.PGID == p.info.PGID && st.SID == p.info.SID {
		return
	}
	info := p.info
	info.Comm, info.PGID, info.SID = string(st.Comm), st.PGID, st.SID
	if st.SID == p.id.PID {
		s.sessions[st.SID] = true
	}
	p.learn(info)
	if execed || renamed {
		s.readFacts(p)
		p.walks, p.born, p.walkAt = 0, s.clock.Now(), 0
	}
}

// gap notes that something could not be read: one entry per source and reason and tick, with the first process it happened
// to as the example. A process that is gone is no gap: it was just not there any more.
func (s *Sampler) gap(p *process, source string, err error) {
	if err == nil || errors.Is(err, procfs.ErrGone) {
		return
	}
	reason := procfs.GapReason(err)
	for i := range s.gaps {
		if g := &s.gaps[i]; g.Source == source && g.Reason == reason {
			s.gapCounts[i]++
			return
		}
	}
	g := snapshot.Gap{Source: source, Reason: reason, Detail: err.Error()}
	if p != nil {
		id := p.id
		g.ID = &id
	}
	s.gaps = append(s.gaps, g)
	s.gapCounts = append(s.gapCounts, 1)
}
