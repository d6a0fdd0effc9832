package sampler

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// process is a member of the job: its kept descriptors and what was read of it last.
type process struct {
	id   snapshot.ProcID
	slot int // which part of the interval it is read in, 0..maxSlots-1

	stat, io, sched procfs.File // hot set; closed when descriptors are scarce, then opened for each read
	wchan, syscall  procfs.File // kept while in the fast lane
	pidfd           int         // -1: none
	kept            int         // how many descriptors these are

	now  reading
	info snapshot.ProcInfo
	// told is false while info has something that no snapshot has carried yet.
	told bool

	born       time.Duration // when it was seen first, or execed
	walks      int           // walks made since then
	walkAt     time.Duration // of the next one
	startStack uint64
	reaper     bool          // it has had children, or waits to be told of their end: it may have reaped some unseen
	noSyscall  bool          // its system call may not be read
	fast       bool          // in the fast lane
	readings   int           // of the hot set
	burst      bool          // it has written much in this tick
	lookedAt   time.Duration // at its files, in a burst
	polled     struct {
		args   [4]uint64
		at     time.Duration
		target string
	}

	seen   uint64 // number of the listing that showed it last
	zombie bool   // its end was noticed; what the zombie still said is in now
	reaped bool   // its number is free: nothing can be read any more
	ended  time.Duration
	exited *snapshot.ExitStatus
	final  bool // now.io was read from the zombie: its final totals
}

// reading is one reading of the hot set.
type reading struct {
	proc     snapshot.Proc // without the groups
	io       snapshot.IO
	sched    snapshot.Sched
	hasIO    bool
	hasSched bool
}

func (p *process) closeFiles() {
	p.stat.Close()
	p.io.Close()
	p.sched.Close()
	p.wchan.Close()
	p.syscall.Close()
}

// set takes over what stat said.
func (r *reading) set(at time.Duration, s *procfs.Stat) {
	r.proc.At = at
	r.proc.PPID, r.proc.State = s.PPID, s.State
	r.proc.UTime, r.proc.STime = s.UTime, s.STime
	r.proc.MinFlt, r.proc.MajFlt = s.MinFlt, s.MajFlt
	r.proc.NumThreads, r.proc.BlkIODelay = s.NumThreads, s.BlkIODelay
	r.proc.VSize, r.proc.RSS = s.VSize, s.RSS
}
