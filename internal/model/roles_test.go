package model

import (
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// script makes snapshots by hand: a second apart, from what is set on it.
type script struct {
	now   time.Duration
	procs map[int32]*snapshot.Proc
	infos map[int32]snapshot.ProcInfo
	told  map[int32]bool
	exits []snapshot.Exit
	b     *Builder
	seq   uint64
}

func newScript() *script {
	return &script{
		now: 1000 * time.Second, procs: map[int32]*snapshot.Proc{}, infos: map[int32]snapshot.ProcInfo{}, told: map[int32]bool{},
		b: NewBuilder(BuilderConfig{}),
	}
}

// start adds a process, born now.
func (s *script) start(pid, ppid int32, in snapshot.ProcInfo) *snapshot.Proc {
	id := snapshot.ProcID{PID: pid, StartTicks: uint64(s.now/(10*time.Millisecond)) + uint64(pid)}
	in.ID, in.PPID = id, ppid
	if in.Comm == "" {
		in.Comm = "python3"
	}
	p := &snapshot.Proc{ID: id, PPID: ppid, State: 'S', IO: &snapshot.IO{}}
	s.procs[pid], s.infos[pid] = p, in
	delete(s.told, pid)
	return p
}

// change alters facts of a process.
func (s *script) change(pid int32, f func(*snapshot.ProcInfo)) {
	in := s.infos[pid]
	f(&in)
	s.infos[pid] = in
	delete(s.told, pid)
}

// end takes a process away; final is what its zombie said, nil when nobody looked.
func (s *script) end(pid int32, final *snapshot.IO) {
	p := s.procs[pid]
	s.exits = append(s.exits, snapshot.Exit{ID: p.ID, At: s.now, IO: final, UTime: p.UTime, STime: p.STime})
	delete(s.procs, pid)
}

func (s *script) tick() *Frame {
	s.now += time.Second
	s.seq++
	snap := &snapshot.Snapshot{Seq: s.seq, Mono: s.now, Wall: time.Unix(1e9, 0).Add(s.now), Exits: s.exits}
	s.exits = nil
	for pid := range int32(1000) {
		p, in := s.procs[pid], s.infos[pid]
		if p == nil {
			continue
		}
		if !s.told[pid] {
			s.told[pid] = true
			snap.Infos = append(snap.Infos, in)
		}
		c := *p
		c.At = s.now
		if p.IO != nil {
			io := *p.IO
			c.IO = &io
		}
		snap.Procs = append(snap.Procs, c)
	}
	return s.b.Add(snap)
}

func (s *script) ticks(n int) (f *Frame) {
	for range n {
		f = s.tick()
	}
	return f
}

func procOf(t *testing.T, f *Frame, pid int32) Proc {
	t.Helper()
	for _, p := range f.Procs {
		if p.ID.PID == pid {
			return p
		}
	}
	t.Fatalf("frame %d has no process %d", f.Seq, pid)
	return Proc{}
}

func pyInfo(env map[string]string, args ...string) snapshot.ProcInfo {
	return snapshot.ProcInfo{Exe: "/usr/bin/python3.11", Cmdline: append([]string{"python3"}, args...), Env: env}
}

func rankEnv(n string) map[string]string {
	return map[string]string{"RANK": n, "LOCAL_RANK": n, "WORLD_SIZE": "2"}
}

var workerStatus = &snapshot.Status{SigCgt: 0x1000044c2}

func TestRoles(t *testing.T) {
	spawnArgs := []string{"-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6)", "--multiprocessing-fork"}
	for _, tc := range []struct {
		name string
		play func(*script)
		want map[int32]string // role/rank after three ticks
	}{
		{"plain python", func(s *script) { s.start(1, 0, pyInfo(nil, "train.py")) }, map[int32]string{1: "rank/0"}},
		{"torchrun before its ranks", func(s *script) { s.start(1, 0, pyInfo(nil, "/usr/bin/torchrun", "train.py")) }, map[int32]string{1: "launcher/-1"}},
		{"python -m torch.distributed.run", func(s *script) {
			s.start(1, 0, pyInfo(nil, "-m", "torch.distributed.run", "train.py"))
			s.start(2, 1, pyInfo(rankEnv("1"), "-u", "train.py"))
		}, map[int32]string{1: "launcher/-1", 2: "rank/1"}},
		{"accelerate without RANK", func(s *script) {
			s.start(1, 0, pyInfo(nil, "/usr/bin/accelerate", "launch", "train.py"))
			s.start(2, 1, pyInfo(nil, "train.py"))
		}, map[int32]string{1: "launcher/-1", 2: "rank/0"}},
		{"deepspeed over its launcher and numactl", func(s *script) {
			s.start(1, 0, pyInfo(nil, "/usr/bin/deepspeed", "train.py"))
			s.start(2, 1, pyInfo(nil, "-u", "-m", "deepspeed.launcher.launch", "train.py"))
			s.start(3, 2, snapshot.ProcInfo{Exe: "/usr/bin/numactl", Cmdline: []string{"numactl", "python3", "train.py"}, Env: rankEnv("0")})
			s.start(4, 3, pyInfo(rankEnv("0"), "train.py"))
		}, map[int32]string{1: "launcher/-1", 2: "launcher/-1", 3: "launcher/-1", 4: "rank/0"}},
		{"srun, shell and conda in between", func(s *script) {
			s.start(1, 0, snapshot.ProcInfo{Exe: "/usr/bin/srun", Cmdline: []string{"srun", "x"}, Comm: "srun"})
			s.start(2, 1, snapshot.ProcInfo{Exe: "/bin/bash", Cmdline: []string{"bash", "x"}, Comm: "bash"})
			s.start(3, 2, pyInfo(nil, "/opt/conda/bin/conda", "run", "python", "train.py"))
			s.start(4, 3, pyInfo(nil, "train.py"))
		}, map[int32]string{1: "launcher/-1", 2: "launcher/-1", 3: "launcher/-1", 4: "rank/0"}},
		{"a launcher written in Python", func(s *script) {
			s.start(1, 0, pyInfo(nil, "launch.py"))
			s.tick()
			s.start(2, 1, pyInfo(rankEnv("0"), "train.py"))
			s.start(3, 1, pyInfo(rankEnv("1"), "train.py"))
		}, map[int32]string{1: "launcher/-1", 2: "rank/0", 3: "rank/1"}},
		{"a command that is no Python", func(s *script) {
			s.start(1, 0, snapshot.ProcInfo{Exe: "/usr/bin/sleep", Cmdline: []string{"sleep", "5"}, Comm: "sleep"})
		}, map[int32]string{1: "other/-1"}},
		{"a trainer in C++", func(s *script) {
			s.start(1, 0, snapshot.ProcInfo{Exe: "/opt/trainer", Cmdline: []string{"/opt/trainer"}, Comm: "trainer", Env: rankEnv("3")})
		}, map[int32]string{1: "rank/3"}},
		{"titles hide comm and command line", func(s *script) {
			s.start(1, 0, pyInfo(rankEnv("1"), "train.py"))
			s.tick()
			s.change(1, func(in *snapshot.ProcInfo) {
				in.Comm, in.Cmdline, in.Env = "my job", []string{"my job: epoch 3"}, nil
			})
			s.start(2, 1, snapshot.ProcInfo{Exe: "/usr/bin/python3.11", Comm: "my job", Cmdline: []string{"my job: epoch 3"}}).Status = workerStatus
			s.tick()
			s.change(2, func(in *snapshot.ProcInfo) { in.Comm, in.Cmdline = "loader", []string{"loader 0"} })
		}, map[int32]string{1: "rank/1", 2: "dataloader_worker/1"}},
		{"a worker's command and its own fork", func(s *script) {
			s.start(1, 0, pyInfo(nil, "train.py"))
			w := pyInfo(nil, "train.py")
			w.Comm = "pt_data_worker"
			s.start(2, 1, w)
			s.start(3, 2, snapshot.ProcInfo{Exe: "/bin/cat", Cmdline: []string{"cat", "x"}, Comm: "cat"})
			s.start(4, 2, w)
		}, map[int32]string{2: "dataloader_worker/0", 3: "helper/0", 4: "helper/0"}},
		{"a pool below a rank that catches TERM itself", func(s *script) {
			s.start(1, 0, pyInfo(nil, "train.py")).Status = workerStatus
			s.start(2, 1, pyInfo(nil, "train.py")).Status = workerStatus
		}, map[int32]string{1: "rank/0", 2: "helper/0?"}},
		{"services and programs", func(s *script) {
			s.start(1, 0, pyInfo(nil, "train.py"))
			s.start(2, 1, snapshot.ProcInfo{Exe: "/x/wandb-core", Cmdline: []string{"wandb-core"}, Comm: "wandb-core"})
			s.start(3, 1, pyInfo(nil, "serve.py")).Status = workerStatus
			s.start(4, 1, pyInfo(nil, "/x/torch/_inductor/compile_worker/__main__.py", "--workers=2"))
		}, map[int32]string{2: "helper/0", 3: "helper/0", 4: "helper/0"}},
		{"spawned pool", func(s *script) {
			s.start(1, 0, pyInfo(nil, "train.py"))
			for pid := int32(2); pid < 4; pid++ {
				in := pyInfo(nil, spawnArgs...)
				in.Pipes = []string{"pipe:[1]", "pipe:[2]"}
				s.start(pid, 1, in)
			}
		}, map[int32]string{2: "helper/0?", 3: "helper/0?"}},
		{"spawned workers by their pipes", func(s *script) {
			s.start(1, 0, pyInfo(nil, "train.py"))
			for pid := int32(2); pid < 4; pid++ {
				in := pyInfo(nil, spawnArgs...)
				in.Pipes = []string{"pipe:[1]", "pipe:[1" + string('0'+rune(pid)) + "]"}
				s.start(pid, 1, in)
			}
		}, map[int32]string{2: "dataloader_worker/0", 3: "dataloader_worker/0"}},
		{"a worker after its rank", func(s *script) {
			s.start(1, 0, pyInfo(nil, "/usr/bin/torchrun", "x"))
			s.start(2, 1, pyInfo(rankEnv("1"), "train.py"))
			w := pyInfo(rankEnv("1"), "train.py")
			w.Comm = "pt_data_worker"
			s.start(3, 2, w)
			s.tick()
			s.end(2, nil)
			s.procs[3].PPID = 99
		}, map[int32]string{3: "dataloader_worker/1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript()
			tc.play(s)
			f := s.ticks(3)
			for pid, want := range tc.want {
				p := procOf(t, f, pid)
				got := string(p.Role) + "/" + itoa(p.Rank)
				if p.Undecided {
					got += "?"
				}
				if got != want {
					t.Errorf("process %d is %s (%s), want %s", pid, got, p.Reason, want)
				}
				if p.Reason == "" || p.Confidence == "" {
					t.Errorf("process %d has no reason", pid)
				}
			}
		})
	}
}

func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	return string('0' + rune(n))
}

func TestRestartedRank(t *testing.T) {
	s := newScript()
	s.start(1, 0, pyInfo(nil, "/usr/bin/torchrun", "x"))
	s.start(2, 1, pyInfo(rankEnv("0"), "train.py"))
	s.tick()
	s.end(2, nil)
	env := rankEnv("0")
	env["TORCHELASTIC_RESTART_COUNT"] = "1"
	s.start(3, 1, pyInfo(env, "train.py"))
	f := s.tick()
	if len(f.Ranks) != 2 || f.Ranks[0].End == 0 || f.Ranks[1].Generation != 1 || f.Ranks[1].End != 0 || f.Ranks[1].WorldSize != 2 {
		t.Errorf("ranks: %+v", f.Ranks)
	}
}

// Loaders whose pools take turns keep their numbers, and slots theirs.
func TestLoadersTakeTurns(t *testing.T) {
	s := newScript()
	s.start(1, 0, pyInfo(nil, "train.py"))
	s.tick()
	w := pyInfo(nil, "train.py")
	w.Comm = "pt_data_worker"
	pid := int32(10)
	for epoch := range 4 {
		for loader, count := range []int{4, 2} {
			first := pid
			for range count {
				s.start(pid, 1, w)
				pid++
			}
			f := s.ticks(5)
			for i := range count {
				p := procOf(t, f, first+int32(i))
				if p.Loader != loader || p.Slot != i || p.Generation != epoch {
					t.Fatalf("epoch %d: worker %d is loader %d, slot %d, generation %d; want %d, %d, %d",
						epoch, first+int32(i), p.Loader, p.Slot, p.Generation, loader, i, epoch)
				}
				s.end(p.ID.PID, nil)
			}
		}
	}
	workers := 0
	for _, x := range s.tick().Totals {
		if x.Role == RoleWorker {
			workers++
			if x.WorkerStarts != 4 {
				t.Errorf("series %+v: %d starts, want 4", x.Series, x.WorkerStarts)
			}
		}
	}
	if workers != 6 {
		t.Errorf("%d worker series, want 6", workers)
	}
}

// A pool is named for good: no key of a pool is ever used for two, nor left open.
func TestPoolsAreNamedOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		counts []int // workers of the pools that take turns
		ticks  int   // that a pool lives
	}{
		{"two loaders", []int{4, 2}, 5},
		{"one loader", []int{2}, 5},
		{"one loader, replaced before it is settled", []int{2}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) { namedOnce(t, tc.counts, tc.ticks) })
	}
}

func namedOnce(t *testing.T, counts []int, ticks int) {
	s := newScript()
	s.start(1, 0, pyInfo(nil, "train.py"))
	s.tick()
	type key struct{ loader, generation int }
	first := map[key]snapshot.ProcID{}
	ended := map[key]bool{}
	see := func(f *Frame) {
		for _, p := range f.Pools {
			k := key{p.Loader, p.Generation}
			if was, ok := first[k]; ok && was != p.Members[0] {
				t.Errorf("frame %d: pool %+v is another one now", f.Seq, k)
			}
			first[k] = p.Members[0]
			ended[k] = ended[k] || p.End != 0
		}
	}
	pid := int32(10)
	const turns = 4
	for range turns {
		for _, count := range counts {
			from := pid
			for range count {
				s.start(pid, 1, workerInfo())
				pid++
			}
			for range ticks {
				see(s.tick())
			}
			for p := from; p < pid; p++ {
				s.end(p, nil) // the next pool starts in the same step
			}
		}
	}
	see(s.tick())
	if want := turns * len(counts); len(first) != want || len(ended) != want {
		t.Errorf("%d pools, want %d", len(first), want)
	}
	for k, over := range ended {
		if !over {
			t.Errorf("pool %+v never ended", k)
		}
	}
}

// The next workers are born in the tick of the clock in which the last ones ended, so that they seem older than that end; or
// nobody saw the end.
func TestPoolReplacedAtOnce(t *testing.T) {
	for _, exact := range []bool{true, false} {
		s := newScript()
		s.start(1, 0, pyInfo(nil, "train.py"))
		s.tick()
		ends := 0
		for pool := range 5 {
			pid := int32(10 + 2*pool)
			s.start(pid, 1, workerInfo())
			s.start(pid+1, 1, workerInfo())
			f := s.ticks(2)
			for _, p := range f.Pools {
				if p.Generation != pool || p.Workers != 2 || p.End != 0 {
					t.Fatalf("exact %v: pool %d is generation %d of %d workers, end %v", exact, pool, p.Generation, p.Workers, p.End)
				}
			}
			s.end(pid, nil)
			s.end(pid+1, nil)
			for i := range s.exits {
				s.exits[i].At += time.Duration(pid+2)*startTick + 4*time.Millisecond // the next one's start and a little
			}
			if !exact {
				s.exits = nil
			}
			ends += len(f.Pools)
		}
		if f := s.tick(); len(f.Pools) != 1 || f.Pools[0].End == 0 || ends != 5 {
			t.Errorf("exact %v: %d pools lived, at the end there are %+v", exact, ends, f.Pools)
		}
	}
}
