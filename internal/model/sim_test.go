package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// simKernel follows the rules by which Linux counts I/O: a thread's counters go to its process when it ends, a child's to its
// parent when it is reaped, and nowhere when the parent ignores SIGCHLD.
type simKernel struct {
	rng   *rand.Rand
	now   time.Duration
	pid   int32
	procs []*simProc          // in order of creation
	done  map[string]ioFields // what was really done, by truth
}

type simProc struct {
	id       snapshot.ProcID
	parent   *simProc
	info     snapshot.ProcInfo
	kind     string
	own      ioFields // by its living threads
	gone     ioFields // by its threads that ended
	reaped   ioFields
	user     time.Duration
	system   time.Duration
	zombie   bool
	over     bool // reaped
	ignores  bool // SIGCHLD
	reapedAt time.Duration
}

func (p *simProc) total() ioFields { return p.own.plus(p.gone).plus(p.reaped) }

func (k *simKernel) fork(parent *simProc, kind, comm string, cmd []string, env map[string]string) *simProc {
	k.pid++
	p := &simProc{parent: parent, kind: kind, id: snapshot.ProcID{PID: k.pid, StartTicks: uint64(k.now / (10 * time.Millisecond))}}
	exe := "/usr/bin/python3.11"
	if cmd[0] != "python3" {
		exe = "/usr/bin/" + cmd[0]
	}
	p.info = snapshot.ProcInfo{ID: p.id, Comm: comm, Cmdline: cmd, Exe: exe, Env: env}
	if parent != nil {
		p.info.PPID = parent.id.PID
	}
	k.procs = append(k.procs, p)
	return p
}

// do is I/O of a process; thread says that a thread does it which ends at once.
func (k *simKernel) do(p *simProc, read, write uint64, thread bool) {
	f := ioFields{read, write, read/4096 + 1, write / 4096, read / 2, write}
	if thread {
		p.gone = p.gone.plus(f)
	} else {
		p.own = p.own.plus(f)
	}
	p.system += time.Duration(float64(read+write) / threadRate * 4 * float64(time.Second))
	k.done[p.kind] = k.done[p.kind].plus(f)
}

func (k *simKernel) exit(p *simProc) {
	p.zombie = true
	for _, c := range k.procs {
		if c.parent == p && !c.over {
			c.parent = nil
			if c.zombie {
				k.reap(c)
			}
		}
	}
	if p.parent == nil || p.parent.ignores {
		k.reap(p)
	}
}

func (k *simKernel) reap(p *simProc) {
	if p.over {
		return
	}
	p.over, p.reapedAt = true, k.now
	if p.parent != nil && !p.parent.ignores {
		p.parent.reaped = p.parent.reaped.plus(p.total())
	}
}

func toIO(f ioFields) *snapshot.IO {
	return &snapshot.IO{RChar: f[0], WChar: f[1], SyscR: f[2], SyscW: f[3], ReadBytes: f[4], WriteBytes: f[5]}
}

// simObserver samples as the sampler does. Its switches are the ways in which it can know less.
type simObserver struct {
	k       *simKernel
	known   map[snapshot.ProcID]*simProc
	parents bool // reads the threads of the parents of dead children
	zombies float64
	jitter  func() // what happens between two reads of one pass
	deny    float64
	seq     uint64
}

func (o *simObserver) look(s *snapshot.Snapshot, p *simProc) snapshot.Proc {
	state := byte('S')
	if p.zombie {
		state = 'Z'
	}
	var ppid int32 = 1
	if p.parent != nil {
		ppid = p.parent.id.PID
	}
	out := snapshot.Proc{ID: p.id, At: o.k.now, PPID: ppid, State: state, UTime: p.user, STime: p.system, IO: toIO(p.total())}
	if o.k.rng.Float64() < o.deny {
		out.IO = nil
	}
	if p.ignores {
		out.Status = &snapshot.Status{SigIgn: childSignal}
	}
	return out
}

func (o *simObserver) tick() *snapshot.Snapshot {
	o.seq++
	s := &snapshot.Snapshot{Seq: o.seq, Wall: time.Unix(1e9, 0).Add(o.k.now), Mono: o.k.now}
	at := map[*simProc]int{}
	for _, p := range o.k.procs {
		if p.over {
			continue
		}
		if o.known[p.id] == nil {
			o.known[p.id] = p
			s.Infos = append(s.Infos, p.info)
		}
		at[p] = len(s.Procs)
		s.Procs = append(s.Procs, o.look(s, p))
		if o.jitter != nil {
			o.jitter()
		}
	}
	s.Mono = o.k.now
	// What ended during the pass is known to have ended at its end.
	s.Procs = slices.DeleteFunc(s.Procs, func(x snapshot.Proc) bool { return o.known[x.ID].over })
	clear(at)
	for i := range s.Procs {
		at[o.known[s.Procs[i].ID]] = i
	}
	gone := map[snapshot.ProcID]bool{}
	var ids []snapshot.ProcID
	for id, p := range o.known {
		if _, still := at[p]; !still {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, cmpID)
	for _, id := range ids {
		p := o.known[id]
		e := snapshot.Exit{ID: id, At: p.reapedAt, UTime: p.user, STime: p.system}
		if o.k.rng.Float64() < o.zombies {
			e.IO = toIO(p.total())
		}
		s.Exits = append(s.Exits, e)
		delete(o.known, id)
		gone[id] = true
		if i, ok := at[p.parent]; ok && o.parents && p.parent != nil {
			again := o.look(s, p.parent)
			again.OwnIO = toIO(p.parent.own)
			s.Procs[i] = again
		}
	}
	return s
}

// simJob is a training job: a launcher, ranks, pools of workers that come and go, subprocesses of both.
type simJob struct {
	k     *simKernel
	ranks []*simRank
	root  *simProc
}

type simRank struct {
	p       *simProc
	workers []*simProc
	others  []*simProc
	until   time.Duration
}

var simTrain = []string{"python3", "-u", "train.py"}

func newSimJob(k *simKernel, ranks int) *simJob {
	j := &simJob{k: k, root: k.fork(nil, "launcher", "torchrun", []string{"python3", "/usr/bin/torchrun", "train.py"}, nil)}
	for i := range ranks {
		env := map[string]string{"RANK": fmt.Sprint(i), "LOCAL_RANK": fmt.Sprint(i)}
		j.ranks = append(j.ranks, &simRank{p: k.fork(j.root, "rank", "python3", simTrain, env)})
	}
	return j
}

// step lets 50 ms pass.
func (j *simJob) step(training bool) {
	k := j.k
	k.now += 50 * time.Millisecond
	for _, r := range j.ranks {
		k.do(r.p, uint64(k.rng.IntN(2000)), uint64(k.rng.IntN(500)), false)
		r.step(k, training)
	}
}

func (r *simRank) step(k *simKernel, training bool) {
	if len(r.workers) == 0 && training {
		for range 1 + k.rng.IntN(3) {
			r.workers = append(r.workers, k.fork(r.p, "worker", "pt_data_worker", simTrain, r.p.info.Env))
		}
		r.until = k.now + time.Duration(k.rng.IntN(9000))*time.Millisecond
	}
	for _, w := range r.workers {
		if w.zombie {
			continue
		}
		k.do(w, uint64(k.rng.IntN(1<<20)), 100, false)
		if k.rng.IntN(40) == 0 { // a command per item now and then
			c := k.fork(w, "worker", "cat", []string{"cat", "item"}, r.p.info.Env)
			k.do(c, 1<<19, 1<<19, false)
			k.exit(c)
			k.reap(c)
		}
	}
	if len(r.workers) > 0 && k.now >= r.until {
		r.end(k)
	}
	if k.rng.IntN(60) == 0 && training {
		r.others = append(r.others, k.fork(r.p, "helper", "rsync", []string{"rsync", "ckpt"}, r.p.info.Env))
	}
	r.others = slices.DeleteFunc(r.others, func(c *simProc) bool {
		k.do(c, 1<<16, 1<<16, false)
		if k.rng.IntN(30) > 0 && training {
			return false
		}
		k.exit(c)
		k.reap(c)
		return true
	})
}

// end lets the workers end one by one, and reaps them when all have ended.
func (r *simRank) end(k *simKernel) {
	for _, w := range r.workers {
		if !w.zombie && k.rng.IntN(2) == 0 {
			k.exit(w)
			return
		}
	}
	for _, w := range r.workers {
		if !w.zombie {
			return
		}
	}
	for _, w := range r.workers {
		k.reap(w)
	}
	r.workers = nil
}

// run plays a job of a minute and gives each frame to see. The job is quiet in its last ten seconds.
func simulate(seed uint64, setup func(*simJob, *simObserver), see func(*Frame)) *simKernel {
	k := &simKernel{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Hour, pid: 100, done: map[string]ioFields{}}
	j := newSimJob(k, 1+int(seed%3))
	o := &simObserver{k: k, known: map[snapshot.ProcID]*simProc{}}
	setup(j, o)
	b := NewBuilder(BuilderConfig{})
	phase := k.rng.IntN(20)
	for i := range 20 * 70 {
		if (i+phase)%20 == 0 {
			see(b.Add(o.tick()))
		}
		j.step(i < 20*60)
	}
	see(b.Add(o.tick()))
	return k
}

func sumOf(f *Frame, role Role) (sum ioFields) {
	for _, t := range f.Totals {
		if role == "" || t.Role == role {
			sum = sum.plus(ioFields{t.RChar, t.WChar, t.SyscR, t.SyscW, t.ReadBytes, t.WriteBytes})
		}
	}
	return sum
}

func doneOf(k *simKernel) (sum ioFields) {
	for _, f := range k.done {
		sum = sum.plus(f)
	}
	return sum
}

// checkMonotonic returns a function that fails the test when a total goes down or a series vanishes.
func checkMonotonic(t *testing.T) func(*Frame) {
	last := map[Series]Total{}
	return func(f *Frame) {
		t.Helper()
		seen := map[Series]bool{}
		for _, n := range f.Totals {
			o := last[n.Series]
			if n.RChar < o.RChar || n.WChar < o.WChar || n.SyscR < o.SyscR || n.SyscW < o.SyscW || n.ReadBytes < o.ReadBytes ||
				n.WriteBytes < o.WriteBytes || n.User < o.User || n.System < o.System || n.MinFlt < o.MinFlt || n.MajFlt < o.MajFlt ||
				n.Blocked < o.Blocked || n.RunQueue < o.RunQueue || n.WorkerStarts < o.WorkerStarts || o.HasIO && !n.HasIO || seen[n.Series] {
				t.Fatalf("frame %d: total went down:\n was %+v\n now %+v", f.Seq, o, n)
			}
			if o.Start != 0 && o.Start != n.Start {
				t.Fatalf("frame %d: start of %+v moved", f.Seq, n.Series)
			}
			last[n.Series], seen[n.Series] = n, true
		}
		if len(seen) != len(last) {
			t.Fatalf("frame %d: a series vanished: %d of %d", f.Seq, len(seen), len(last))
		}
		if !slices.IsSortedFunc(f.Totals, func(x, y Total) int { return cmpSeries(x.Series, y.Series) }) {
			t.Fatalf("frame %d: totals are not sorted", f.Seq)
		}
	}
}

func off(a, b uint64) float64 {
	return (float64(a) - float64(b)) / float64(max(b, 1))
}

// Every byte is counted once, whatever the observer sees, and none of the sums ever goes down.
func TestEveryByteOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		setup  func(*simJob, *simObserver)
		within float64 // of all
		worker float64 // of the workers' part, 0: not looked at
	}{
		{"all seen", func(_ *simJob, o *simObserver) { o.parents, o.zombies = true, 1 }, 0, 0.01},
		{"no zombies", func(_ *simJob, o *simObserver) { o.parents = true }, 0, 0.1},
		{"no threads", func(_ *simJob, o *simObserver) { o.zombies = 1 }, 0, 0.02},
		{"neither", func(_ *simJob, o *simObserver) {}, 0, 0},
		{"denied at times", func(_ *simJob, o *simObserver) { o.parents, o.zombies, o.deny = true, 0.5, 0.2 }, 0.01, 0},
		{"a job that goes on during the pass", func(j *simJob, o *simObserver) {
			o.parents, o.zombies = true, 0.5
			o.jitter = func() { j.step(o.k.now < time.Hour+55*time.Second) }
		}, 0.02, 0},
		{"the same without threads", func(j *simJob, o *simObserver) {
			o.zombies = 0.5
			o.jitter = func() { j.step(o.k.now < time.Hour+55*time.Second) }
		}, 0.05, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(20) {
				var last *Frame
				check := checkMonotonic(t)
				k := simulate(seed, tc.setup, func(f *Frame) { check(f); last = f })
				got, want := sumOf(last, ""), doneOf(k)
				for i := range got {
					if x := off(got[i], want[i]); x > tc.within || x < -tc.within {
						t.Errorf("seed %d: field %d: counted %d of %d (%+.3f)", seed, i, got[i], want[i], x)
					}
				}
				if tc.worker > 0 {
					got, want := sumOf(last, RoleWorker), k.done["worker"]
					if x := off(got[ioRChar], want[ioRChar]); x > tc.worker || x < -tc.worker {
						t.Errorf("seed %d: workers read %d of %d (%+.3f)", seed, got[ioRChar], want[ioRChar], x)
					}
				}
			}
		})
	}
}

func TestSameSnapshotsSameFrames(t *testing.T) {
	setup := func(_ *simJob, o *simObserver) { o.parents, o.zombies, o.deny = true, 0.5, 0.1 }
	play := func() (all []*Frame) {
		simulate(7, setup, func(f *Frame) { all = append(all, f) })
		return all
	}
	a, b := play(), play()
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("two builders differ:\n%s", d)
	}
}
