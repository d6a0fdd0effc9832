package sampler

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The fast lane reads the few processes that can write a checkpoint ten times a second. Its price is the wake-ups more than
// the reads, so its beat is also the one in which the other members are read.
const (
	fastBeat = 100 * time.Millisecond
	maxFast  = 64
	pickFast = 16 // processes that the sampler itself takes into the lane

	// edgeBytes written within one beat are the beginning, or the middle, of a burst that is worth a look at who writes what.
	edgeBytes = 1 << 20
	lookEvery = 500 * time.Millisecond // while a burst lasts

	fdQuota = 64  // descriptors whose file is looked at per tick, outside bursts
	maxLook = 512 // descriptors of a process that is looked at
)

// SetFast says which processes belong to the fast lane. It may be called from any goroutine and holds until the next call;
// before the first one the sampler takes those that look like ranks.
func (s *Sampler) SetFast(ids []snapshot.ProcID) {
	ids = slices.Clone(ids[:min(len(ids), maxFast)])
	s.wantFast.Store(&ids)
}

// chooseFast makes the lane for the next interval.
func (s *Sampler) chooseFast() {
	for _, p := range s.members {
		p.fast = false
	}
	s.fast = s.fast[:0]
	s.pickFast()
	for _, p := range s.members {
		if !p.fast {
			s.closeWait(p)
		}
	}
}

func (s *Sampler) pickFast() {
	if ids := s.wantFast.Load(); ids != nil {
		for _, id := range *ids {
			if p := s.byPID[id.PID]; p != nil && p.id == id {
				s.enterFast(p)
			}
		}
		return
	}
	ranked := slices.ContainsFunc(s.members, hasRank)
	for _, p := range s.members {
		if len(s.fast) < pickFast && s.mayTrain(p, ranked) {
			s.enterFast(p)
		}
	}
}

func (s *Sampler) enterFast(p *process) {
	if !p.zombie && !p.fast {
		p.fast = true
		s.fast = append(s.fast, p)
		s.openWait(p)
	}
}

// waitFiles is how many descriptors a member of the lane keeps besides its hot set: wchan and syscall.
const waitFiles = 2

// openWait keeps what is read of a member of the lane at each beat. An error shows again at the read.
func (s *Sampler) openWait(p *process) {
	if p.wchan.IsOpen() || p.kept == 0 || s.kept+waitFiles > s.maxKept {
		return
	}
	p.wchan, _ = s.fs.OpenFile(p.id.PID, "wchan")
	p.syscall, _ = s.fs.OpenFile(p.id.PID, "syscall")
	p.kept += waitFiles
	s.kept += waitFiles
}

func (s *Sampler) closeWait(p *process) {
	if p.kept > filesPerProcess {
		p.wchan.Close()
		p.syscall.Close()
		p.kept -= waitFiles
		s.kept -= waitFiles
	}
}

func hasRank(p *process) bool { return p.info.Env["RANK"] != "" }

// mayTrain guesses from the facts at hand: the topmost Python process of its rank where launchers set RANK, the topmost one
// of all where none does. Package model judges better, later; see SetFast.
func (s *Sampler) mayTrain(p *process, ranked bool) bool {
	if !isPython(p) || ranked != hasRank(p) {
		return false
	}
	parent := s.byPID[p.now.proc.PPID]
	if parent == nil || !isPython(parent) {
		return true
	}
	return ranked && parent.info.Env["RANK"] != p.info.Env["RANK"]
}

func isPython(p *process) bool { return strings.HasPrefix(filepath.Base(p.info.Exe), "python") }

// readFast takes one reading of the lane.
func (s *Sampler) readFast() {
	for _, p := range s.fast {
		before := p.now.io
		s.read(p)
		if p.reaped || p.zombie {
			continue
		}
		s.fastSamples = append(s.fastSamples, s.fastSample(p))
		s.lookAtBurst(p, &before)
	}
}

func (s *Sampler) fastSample(p *process) snapshot.FastSample {
	sample := snapshot.FastSample{
		ID: p.id, At: p.now.proc.At, State: p.now.proc.State, UTime: p.now.proc.UTime, STime: p.now.proc.STime,
		Wait: s.waitOf(p),
	}
	groups := &struct {
		io    snapshot.IO
		sched snapshot.Sched
	}{p.now.io, p.now.sched}
	if p.now.hasIO {
		sample.IO = &groups.io
	}
	if p.now.hasSched {
		sample.Sched = &groups.sched
	}
	return sample
}

// lookAtBurst looks at the files of a process that has just written much. wchar moves when a write returns, write_bytes when a
// page turns dirty: either may be blind (memory maps, tmpfs), so the greater one counts.
func (s *Sampler) lookAtBurst(p *process, before *snapshot.IO) {
	if !p.now.hasIO || p.readings < 2 {
		return
	}
	written := max(rise(before.WChar, p.now.io.WChar), rise(before.WriteBytes, p.now.io.WriteBytes))
	if written < edgeBytes {
		return
	}
	p.burst = true
	if at := p.now.proc.At; at-p.lookedAt >= lookEvery || p.lookedAt == 0 {
		p.lookedAt = at
		s.lookAtFiles(p, true)
	}
}

// rise is how far a counter went up; a counter that went down was read from another life.
func rise(from, to uint64) uint64 {
	if to < from {
		return 0
	}
	return to - from
}

// lookAtFiles notes a process's open files, in a burst those open for writing only, and has the folder of a file that is
// being written watched. It returns how many descriptors that took.
func (s *Sampler) lookAtFiles(p *process, burst bool) int {
	fds, err := s.fs.FDs(p.id.PID, maxLook, true)
	if err != nil {
		s.gap(p, "procfs.fd", err)
		return 1
	}
	p.setFDs(&fds)
	at := s.clock.Now()
	for _, f := range fds.Files {
		writes := f.Flags&unix.O_ACCMODE != unix.O_RDONLY
		if burst && !writes {
			continue
		}
		f.ID, f.At = p.id, at
		s.files = append(s.files, f)
		// What is appended to is a log, and its folder is full of them.
		if burst && f.Flags&unix.O_APPEND == 0 && !strings.HasSuffix(f.Path, " (deleted)") {
			s.watch.want(watchDir{path: filepath.Dir(f.Path), pid: p.id.PID})
		}
	}
	return max(1, fds.Count)
}

// readFiles samples the open files of Python processes in turn.
func (s *Sampler) readFiles() {
	s.inTurn(&s.turns.files, fdQuota, func(p *process) int {
		if !isPython(p) {
			return 0
		}
		return s.lookAtFiles(p, false)
	})
}
