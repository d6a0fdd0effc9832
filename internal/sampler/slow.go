package sampler

import (
	"errors"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Quotas of the slow files per tick. They bound what these cost however large the job is; the members take turns.
const (
	waitQuota   = 32  // members whose wait is looked at
	statusQuota = 8   // members whose status is read
	threadQuota = 16  // threads whose state is looked at
	maxStates   = 64  // a process with more threads than this has no thread states
	ownQuota    = 64  // threads whose I/O is summed, outside reaps and bursts
	maxOwn      = 512 // threads of a process whose OwnIO is summed at a reap
)

// sigchldBit is SIGCHLD in the signal masks of /proc/PID/status. A rank catches it once it has made a DataLoader with
// workers: a set of them that lives and dies between two ticks leaves no other trace than the parent's jump.
const sigchldBit = 1 << (17 - 1)

// turns remembers, for each kind of slow file, where the next tick goes on.
type turns struct{ wait, status, threads, own, files turn }

// turn is where one kind goes on, and what is left of its quota: a member that cost more than a tick's quota is paid off in
// the following ones.
type turn struct{ at, credit int }

// readSlow reads the slow files of the members whose turn it is.
func (s *Sampler) readSlow() {
	s.inTurn(&s.turns.wait, waitQuota, func(p *process) int { s.readWait(p); return 1 })
	s.inTurn(&s.turns.status, statusQuota, func(p *process) int {
		st, err := s.fs.Status(p.id.PID)
		if err == nil {
			p.reaper = p.reaper || st.SigCgt&sigchldBit != 0
			p.status(&st)
		}
		s.gap(p, "procfs.status", err)
		return 1
	})
	s.inTurn(&s.turns.threads, threadQuota, func(p *process) int {
		n := int(p.now.proc.NumThreads)
		if n > maxStates {
			return 0
		}
		if th, err := s.fs.Threads(p.id.PID, maxStates); err == nil {
			p.waiting().Threads = th.States
		}
		return n
	})
	s.inTurn(&s.turns.own, ownQuota, func(p *process) int {
		if !p.reaper || int(p.now.proc.NumThreads) > maxOwn {
			return 0
		}
		s.readOwn(p)
		return int(p.now.proc.NumThreads)
	})
}

// inTurn calls visit for one member after the other, from where the last tick stopped, until the costs it returns use up the
// quota or each had its turn once.
func (s *Sampler) inTurn(t *turn, quota int, visit func(*process) int) {
	t.credit = min(t.credit+quota, quota)
	n := len(s.members)
	for range n {
		if t.credit <= 0 {
			return
		}
		if t.at >= n {
			t.at = 0
		}
		if p := s.members[t.at]; !p.reaped && !p.zombie {
			t.credit -= visit(p)
		}
		t.at++
	}
}

// waiting returns the Wait group being filled in this tick.
func (p *process) waiting() *snapshot.Wait {
	if p.now.proc.Wait == nil {
		p.now.proc.Wait = &snapshot.Wait{}
	}
	return p.now.proc.Wait
}

// readWait looks at what the main thread waits in.
func (s *Sampler) readWait(p *process) {
	if w := s.waitOf(p); w != nil {
		to := p.waiting()
		to.WChan, to.Syscall = w.WChan, w.Syscall
	}
}

// waitOf is nil for a thread that does not wait.
func (s *Sampler) waitOf(p *process) *snapshot.Wait {
	if st := p.now.proc.State; st != 'S' && st != 'D' {
		return nil
	}
	w := &snapshot.Wait{}
	var err error
	if w.WChan, err = s.wchanOf(p); err != nil {
		s.gap(p, "procfs.wchan", err)
	}
	if p.noSyscall {
		s.gap(p, "procfs.syscall", procfs.ErrDenied)
		return w
	}
	call, err := s.syscallOf(p)
	if err != nil {
		s.gap(p, "procfs.syscall", err)
		// Attach rights do not come back: Yama and credentials are as they are until the next exec.
		p.noSyscall = errors.Is(err, procfs.ErrDenied)
		return w
	}
	if procfs.IsPollOfOne(&call) {
		call.Poll = s.pollTarget(p, call)
	}
	w.Syscall = &call
	return w
}

func (s *Sampler) wchanOf(p *process) (string, error) {
	if p.wchan.IsOpen() {
		return s.fs.ReadWChan(p.wchan)
	}
	return s.fs.WChan(p.id.PID)
}

func (s *Sampler) syscallOf(p *process) (snapshot.Syscall, error) {
	if p.syscall.IsOpen() {
		return s.fs.ReadSyscall(p.syscall)
	}
	return s.fs.Syscall(p.id.PID)
}

// pollTarget remembers the answer for as long as the process polls the same place in its memory: that is a stack slot of one
// call site, and what a DataLoader polls there does not change while its pool lives.
func (s *Sampler) pollTarget(p *process, call snapshot.Syscall) string {
	if now := s.clock.Now(); p.polled.args == call.Args && now-p.polled.at < 2*time.Second {
		return p.polled.target
	}
	var target string
	var err error
	answer := &struct {
		target string
		err    error
	}{}
	if !s.patient.do(func(fs *procfs.FS) { answer.target, answer.err = fs.PollTarget(p.id.PID, &call) }) {
		s.gap(p, "procfs.mem", procfs.ErrTimeout)
		return ""
	}
	if target, err = answer.target, answer.err; err != nil {
		s.gap(p, "procfs.mem", err)
	}
	p.polled.args, p.polled.at, p.polled.target = call.Args, s.clock.Now(), target
	return target
}

// readOwn sums a process's threads.
func (s *Sampler) readOwn(p *process) {
	io, err := s.fs.OwnIO(p.id.PID, maxOwn)
	if err != nil {
		s.gap(p, "procfs.task.io", err)
		return
	}
	p.now.proc.OwnIO = &io
}
