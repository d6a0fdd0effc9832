package sampler

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// open keeps the descriptors of a new member: its hot set and a pidfd that tells its end. What cannot be kept is opened for
// each read instead.
func (s *Sampler) open(p *process) {
	pid := p.id.PID
	if s.kept+filesPerProcess <= s.maxKept {
		p.stat, _ = s.fs.OpenFile(pid, "stat") // an error shows again at the read
		p.io, _ = s.fs.OpenFile(pid, "io")
		p.sched, _ = s.fs.OpenFile(pid, "schedstat")
		p.kept = filesPerProcess
		s.kept += p.kept
	}
	if !s.own {
		return // pidfd_open takes pids of our own namespace
	}
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return
	}
	p.pidfd = fd
	// Edge-triggered: one event at the exit, and on Linux 6.9 and later another one, with EPOLLHUP, when it is reaped.
	if err := s.poll.add(fd, unix.EPOLLIN|unix.EPOLLET, pid); err != nil {
		s.cfg.Log.Debug("cannot watch a process's end", "pid", pid, "error", err)
	}
}

// filesPerProcess is how many descriptors a member keeps: stat, io, schedstat and a pidfd.
const filesPerProcess = 4

// release closes everything kept of a member.
func (s *Sampler) release(p *process) {
	s.kept -= p.kept
	p.kept = 0
	p.closeFiles()
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd) // leaves the epoll set by itself
		p.pidfd = -1
	}
}

// read reads the hot set of a member.
func (s *Sampler) read(p *process) {
	if p.reaped {
		return
	}
	err := s.readStat(p)
	if errors.Is(err, procfs.ErrGone) {
		s.markReaped(p, s.clock.Now())
		return
	}
	if err != nil {
		s.gap(p, "procfs.stat", err)
		return
	}
	before := p.now.io
	s.readIO(p)
	p.readings++
	if !p.fast {
		s.lookAtBurst(p, &before)
	}
	p.now.hasSched = s.readSched(p) == nil
}

// readStat reads stat, by a kept descriptor or, when there is none, by name: then the start time tells another process with
// the same number.
func (s *Sampler) readStat(p *process) error {
	var err error
	if p.stat.IsOpen() {
		err = s.fs.ReadStat(p.stat, &s.stat)
	} else {
		err = s.fs.Stat(p.id.PID, &s.stat)
		if err == nil && s.stat.StartTicks != p.id.StartTicks {
			return procfs.ErrGone
		}
	}
	if err != nil {
		return err
	}
	p.now.set(s.clock.Now(), &s.stat)
	s.noticeChange(p, &s.stat)
	if s.stat.State == 'Z' || s.stat.State == 'X' {
		s.markZombie(p)
	}
	return nil
}

func (s *Sampler) readIO(p *process) {
	var io snapshot.IO
	var err error
	if p.io.IsOpen() {
		err = s.fs.ReadIO(p.io, &io)
	} else {
		err = s.fs.IO(p.id.PID, &io)
	}
	switch {
	case err == nil:
		p.now.io, p.now.hasIO = io, true
		p.final = p.zombie
	case errors.Is(err, procfs.ErrGone):
		// Between stat and io: the totals of the previous reading stay its last known ones.
	default:
		p.now.hasIO = false
		s.gap(p, "procfs.io", err)
	}
}

func (s *Sampler) readSched(p *process) error {
	if p.sched.IsOpen() {
		return s.fs.ReadSchedstat(p.sched, &p.now.sched)
	}
	return s.fs.Schedstat(p.id.PID, &p.now.sched)
}

// markZombie notes an end whose remains can still be read.
func (s *Sampler) markZombie(p *process) {
	if p.zombie {
		return
	}
	p.zombie = true
	p.ended = s.clock.Now()
	// The kernel shows 0 to those who may not know it; whoever may read io may.
	if s.stat.ExitCode != 0 || p.now.hasIO {
		p.exited = exitStatus(s.stat.ExitCode)
	}
}

// markReaped notes that nothing of a process can be read any more. Its Exit goes into the snapshot being made.
func (s *Sampler) markReaped(p *process, at time.Duration) {
	if p.reaped {
		return
	}
	p.reaped = true
	if !p.zombie {
		p.ended = at
	}
	if st, ok := pidfdStatus(p.pidfd); ok {
		p.exited = st
	}
	if s.byPID[p.id.PID] == p {
		delete(s.byPID, p.id.PID)
	}
	s.dead++
}

// pidfdStatus asks the kernel for the exit status of a reaped process (Linux 6.15 and later).
func pidfdStatus(pidfd int) (*snapshot.ExitStatus, bool) {
	if pidfd < 0 {
		return nil, false
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return nil, false
	}
	return exitStatus(info.Exit_code), true
}

// exitStatus takes a wait status apart.
func exitStatus(code int32) *snapshot.ExitStatus {
	w := unix.WaitStatus(code)
	if w.Signaled() {
		return &snapshot.ExitStatus{Signal: int32(w.Signal()), Core: w.CoreDump()}
	}
	return &snapshot.ExitStatus{Code: int32(w.ExitStatus())}
}
