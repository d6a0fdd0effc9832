package model

import (
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const mb = 1 << 20

func reads(n uint64) *snapshot.IO { return &snapshot.IO{RChar: n, SyscR: n / 4096, ReadBytes: n / 2} }

func workerInfo() snapshot.ProcInfo {
	in := pyInfo(nil, "train.py")
	in.Comm = "pt_data_worker"
	return in
}

func readOf(f *Frame, role Role) uint64 { return sumOf(f, role)[ioRChar] }

// rankAndWorker is a rank with one worker that has read 40 MB, in a settled pool.
func rankAndWorker() *script {
	s := newScript()
	s.start(1, 0, pyInfo(nil, "train.py"))
	s.start(2, 1, workerInfo()).IO = reads(20 * mb)
	s.ticks(3)
	s.procs[2].IO = reads(40 * mb)
	s.tick()
	return s
}

func TestAccounting(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		play                 func(*script) *Frame
		rank, worker, helper uint64 // MB read
	}{
		{"reap, all readable", func(s *script) *Frame {
			s.end(2, reads(44*mb))
			s.procs[1].IO, s.procs[1].OwnIO = reads(45*mb), reads(1*mb)
			return s.tick()
		}, 1, 44, 0},
		{"reap, no zombie: what the worker did last goes to its slot", func(s *script) *Frame {
			s.end(2, nil)
			s.procs[1].IO, s.procs[1].OwnIO = reads(45*mb), reads(1*mb)
			return s.tick()
		}, 1, 44, 0},
		{"reap, no threads: what cannot be told is the rank's", func(s *script) *Frame {
			s.end(2, nil)
			s.procs[1].IO = reads(45 * mb)
			return s.tick()
		}, 5, 40, 0},
		{"a grandchild that the worker reaped", func(s *script) *Frame {
			s.start(3, 2, snapshot.ProcInfo{Exe: "/bin/cat", Cmdline: []string{"cat"}, Comm: "cat"}).IO = reads(5 * mb)
			s.tick()
			s.end(3, nil)
			s.procs[2].IO, s.procs[2].OwnIO = reads(46*mb), reads(40*mb)
			s.tick()
			s.end(2, reads(46*mb))
			s.procs[1].IO, s.procs[1].OwnIO = reads(46*mb), reads(0)
			return s.tick()
		}, 0, 40, 6},
		{"the jump comes one reading late", func(s *script) *Frame {
			s.end(2, reads(40*mb))
			s.tick()
			s.procs[1].IO = reads(42 * mb)
			return s.tick()
		}, 2, 40, 0},
		{"a child that was never seen", func(s *script) *Frame {
			s.procs[1].IO, s.procs[1].OwnIO = reads(600*mb), reads(1*mb)
			return s.ticks(4)
		}, 1, 40, 599},
		{"a thread that came and went", func(s *script) *Frame {
			s.procs[1].IO, s.procs[1].OwnIO = reads(600*mb), reads(1*mb)
			s.procs[1].STime = 400 * time.Millisecond
			return s.ticks(4)
		}, 600, 40, 0},
		{"a rank that ignores SIGCHLD gets nothing", func(s *script) *Frame {
			s.procs[1].Status = &snapshot.Status{SigIgn: childSignal}
			s.tick()
			s.end(2, nil)
			s.procs[1].IO = reads(50 * mb)
			return s.tick()
		}, 50, 40, 0},
		{"the pid of a worker used again", func(s *script) *Frame {
			s.end(2, reads(40*mb))
			s.procs[1].IO = reads(40 * mb)
			s.start(2, 1, workerInfo()).IO = reads(3 * mb)
			s.tick()
			s.procs[2].IO = reads(4 * mb)
			return s.ticks(3)
		}, 0, 44, 0},
		{"a counter that goes down", func(s *script) *Frame {
			s.procs[2].IO = reads(10 * mb)
			s.tick()
			s.procs[2].IO = reads(15 * mb)
			return s.tick()
		}, 0, 45, 0},
		{"not readable for a while", func(s *script) *Frame {
			s.procs[2].IO = nil
			s.ticks(2)
			s.procs[2].IO = reads(70 * mb)
			return s.tick()
		}, 0, 70, 0},
		{"an orphan", func(s *script) *Frame {
			s.end(1, reads(2*mb))
			s.tick()
			s.procs[2].PPID = 99
			s.procs[2].IO = reads(50 * mb)
			s.tick()
			s.end(2, reads(55*mb))
			return s.tick()
		}, 2, 55, 0},
		{"a fork that turns out to be no worker", func(s *script) *Frame {
			s.start(3, 1, pyInfo(nil, "train.py")).IO = reads(7 * mb)
			f := s.ticks(2)
			if readOf(f, RoleHelper) != 0 {
				return f
			}
			return s.ticks(9)
		}, 0, 40, 7},
		{"workers that nobody saw but as zombies", func(s *script) *Frame {
			s.end(2, reads(40*mb))
			s.procs[1].IO = reads(40 * mb)
			s.tick()
			s.start(3, 1, snapshot.ProcInfo{Comm: "python3"}).IO = reads(30 * mb)
			s.tick()
			s.end(3, reads(30*mb))
			s.procs[1].IO = reads(70 * mb)
			return s.tick()
		}, 0, 70, 0},
		{"a fork that turns out to be one, in its last moment", func(s *script) *Frame {
			s.start(3, 1, pyInfo(nil, "train.py")).IO = reads(7 * mb)
			s.tick()
			s.procs[3].Status = workerStatus
			s.tick()
			s.end(3, reads(9*mb))
			s.procs[1].IO = reads(9 * mb)
			return s.tick()
		}, 0, 49, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.play(rankAndWorker())
			for role, want := range map[Role]uint64{RoleRank: tc.rank, RoleWorker: tc.worker, RoleHelper: tc.helper} {
				if got := readOf(f, role); got != want*mb {
					t.Errorf("%s read %.1f MB, want %d", role, float64(got)/mb, want)
				}
			}
		})
	}
}

// A reap is not a burst: the step's own share is what the threads did.
func TestReapedDelta(t *testing.T) {
	s := rankAndWorker()
	s.end(2, reads(40*mb))
	s.procs[1].IO, s.procs[1].OwnIO = reads(41*mb), reads(1*mb)
	p := procOf(t, s.tick(), 1)
	if p.Delta == nil || p.Delta.IO == nil || p.Delta.IO.RChar != 1*mb || !p.Delta.IO.Reaped {
		t.Errorf("delta of the reaping step: %+v", p.Delta)
	}
	s.procs[1].OwnIO = nil
	p = procOf(t, s.tick(), 1)
	if p.Delta == nil || p.Delta.IO == nil || p.Delta.IO.RChar != 0 || p.Delta.IO.Reaped {
		t.Errorf("delta of the next step: %+v", p.Delta)
	}
}

// Four epochs of two workers that read 40 MB each epoch together are 160 MB, whenever we look.
func TestEpochsAddUp(t *testing.T) {
	for phase := range 10 {
		s := newScript()
		rank := s.start(1, 0, pyInfo(nil, "train.py"))
		s.now += time.Duration(phase) * 100 * time.Millisecond
		var f *Frame
		reaped := uint64(0)
		series := 0
		for epoch := range int32(4) {
			a, b := 10+2*epoch, 11+2*epoch
			s.start(a, 1, workerInfo())
			s.start(b, 1, workerInfo())
			for step := range uint64(4) {
				s.procs[a].IO, s.procs[b].IO = reads((step*5+uint64(phase)/2)*mb), reads((step*5+uint64(phase)/3)*mb)
				s.tick()
			}
			s.end(a, nil)
			s.end(b, nil)
			reaped += 40 * mb
			rank.IO, rank.OwnIO = reads(reaped), reads(0)
			f = s.tick()
			rank.OwnIO = nil
			if epoch == 0 {
				series = len(f.Totals)
			}
		}
		if got := readOf(f, RoleWorker); got < 158*mb || got > 162*mb {
			t.Errorf("phase %d: workers read %d MB", phase, got/mb)
		}
		if len(f.Totals) != series {
			t.Errorf("phase %d: %d series after 4 epochs, %d after one", phase, len(f.Totals), series)
		}
	}
}

func TestNoRates(t *testing.T) {
	s := newScript()
	s.start(1, 0, pyInfo(nil, "train.py"))
	if f := s.tick(); f.Elapsed != 0 || f.Procs[0].Delta != nil {
		t.Errorf("the first frame has rates: %v %+v", f.Elapsed, f.Procs[0].Delta)
	}
	s.now += time.Minute
	if f := s.tick(); f.Procs[0].Delta != nil {
		t.Errorf("a minute's gap gives a rate: %+v", f.Procs[0].Delta)
	}
	s.now -= time.Hour // the clock of another boot
	if f := s.tick(); f.Elapsed != 0 || f.Procs[0].Delta != nil {
		t.Errorf("a clock that went back gives a rate: %v %+v", f.Elapsed, f.Procs[0].Delta)
	}
	if f := s.tick(); f.Elapsed != time.Second || f.Procs[0].Delta == nil {
		t.Errorf("no rate after the gap: %v %+v", f.Elapsed, f.Procs[0].Delta)
	}
}

// A run that starts and ends processes for weeks must not remember them all.
func TestForgetsTheDead(t *testing.T) {
	s := newScript()
	s.start(1, 0, snapshot.ProcInfo{Exe: "/bin/bash", Cmdline: []string{"bash"}, Comm: "bash"})
	for range 1500 {
		s.start(2, 1, pyInfo(nil, "train.py"))
		s.start(3, 2, workerInfo())
		s.tick()
		s.end(2, nil)
		s.end(3, nil)
	}
	f := s.tick()
	if len(s.b.members) != 1 || len(s.b.byPID) != 1 || len(s.b.infos) > 80 {
		t.Errorf("remembers %d members, %d pids, %d facts", len(s.b.members), len(s.b.byPID), len(s.b.infos))
	}
	if len(f.Ranks) > maxEnded || len(f.Totals) > 5 || len(f.Pools) > 2 {
		t.Errorf("%d ranks, %d totals, %d pools", len(f.Ranks), len(f.Totals), len(f.Pools))
	}
	if root := s.b.byPID[1]; len(root.children) != 0 || len(root.acct.credits) > 100 {
		t.Errorf("the shell keeps %d children, %d credits", len(root.children), len(root.acct.credits))
	}
}
