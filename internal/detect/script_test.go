package detect_test

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// act is what a process does for a tenth of a second: where its main thread is, and what its counters move by, per second.
type act struct {
	run, queue  float64 // shares of the time; the rest is blocked
	state       byte    // what a sample shows at its end; 0: R
	channel     string
	call        *snapshot.Syscall
	read, calls float64 // rchar, syscr
	device      float64 // read_bytes
	faults      float64 // major
	wchar, wb   float64
	writes      float64 // syscw
	otherCPU    float64 // of the process's other threads
}

func call(nr int32, args ...uint64) *snapshot.Syscall {
	s := &snapshot.Syscall{Nr: nr}
	copy(s.Args[:], args)
	return s
}

// The places that a recording of real jobs shows (x86-64, Linux 6.18).
var (
	computing  = act{run: 1}
	forData    = act{state: 'S', channel: "poll_schedule_timeout.constprop.0", call: call(7, 0x7ffc, 1, 5000)}
	forIndex   = forData // the worker's end of the loader
	collective = act{state: 'S', channel: "futex_do_wait", call: call(202, 0x55, 0x189, 0, 0)}
	forPin     = act{state: 'S', channel: "futex_do_wait", call: call(202, 0x55, 0x89, 0, 0x7ffc)}
	asleep     = act{state: 'S', channel: "hrtimer_nanosleep", call: call(230, 1, 1)}
	stopped    = act{state: 'T', channel: "do_signal_stop"}
	forStdout  = act{state: 'S', channel: "anon_pipe_write", call: call(1, 1, 0x7f, 100)}
	readDisk   = act{state: 'D', channel: "folio_wait_bit_common", call: call(0, 10, 0x7f, 1<<20), read: 20e6, calls: 40, device: 20e6}
	readSmall  = act{state: 'D', channel: "folio_wait_bit_common", call: call(0, 10, 0x7f, 4096), read: 1e6, calls: 200, device: 1e6}
	openFuse   = act{state: 'S', channel: "request_wait_answer", call: call(257, 0, 0x7f, 0), read: 4e6, calls: 100}
	faulting   = act{state: 'D', channel: "folio_wait_bit_common", call: call(-1), device: 2e6, faults: 400}
	fromSocket = act{state: 'S', channel: "wait_woken", call: call(45, 5, 0x7f, 1<<20)}
	decoding   = act{run: 1, read: 5e6, calls: 50}
	crowded    = act{run: 0.4, queue: 0.6, read: 2e6, calls: 20}
	saving     = act{run: 1, wchar: 200e6, wb: 200e6, writes: 40}
	syncing    = act{state: 'D', channel: "rq_qos_wait", call: call(74, 10)}
	logging    = act{run: 1, wchar: 20e3, wb: 20e3, writes: 50}
	offloading = act{run: 1, wchar: 300e6, wb: 300e6, writes: 300, read: 300e6, calls: 300}
)

// fake is one scripted process.
type fake struct {
	id      snapshot.ProcID
	role    model.Role
	rank    int
	slot    int
	of      snapshot.ProcID
	start   time.Duration
	play    func(tick int) act // tick counts tenths of a second of the job
	io      snapshot.IO
	sched   snapshot.Sched
	cpu     time.Duration
	faults  uint64
	rss     uint64
	last    *snapshot.Proc
	threads []string
	gone    bool
	end     time.Duration
	// inherits is what it will seem to write in the next tick because it reaps a child; inherited is the frame's sum.
	inherits, inherited uint64
}

// always plays one act; pattern plays acts in turn, each for its number of ticks.
func always(a act) func(int) act { return func(int) act { return a } }

type turn struct {
	act   act
	ticks int
}

func pattern(turns ...turn) func(int) act {
	sum := 0
	for _, t := range turns {
		sum += t.ticks
	}
	return func(i int) act {
		i %= sum
		for _, t := range turns {
			if i < t.ticks {
				return t.act
			}
			i -= t.ticks
		}
		return act{}
	}
}

// job is a scripted run: it makes frames, and shows them to a Set.
type job struct {
	set     *detect.Set
	blind   bool // no system calls are readable
	noFast  bool
	now     time.Duration
	tick    int
	seq     uint64
	procs   []*fake
	world   int
	idle    float64 // CPUs idle
	cpus    int32
	change  func(*model.Frame)
	files   func(from, to time.Duration) ([]snapshot.OpenFile, []snapshot.FileEvent)
	dirty   uint64
	died    []*fake
	prev    time.Duration
	verdict verdict
}

func newJob(ranks, workers int) *job {
	j := &job{set: detect.NewSet(detect.Default()), now: 100 * time.Second, world: ranks, idle: 4, cpus: 8}
	j.prev = j.now
	for r := range ranks {
		rank := &fake{id: snapshot.ProcID{PID: int32(100 + r), StartTicks: 10000}, role: model.RoleRank, rank: r, slot: model.None, start: j.now, rss: 1 << 30}
		rank.of = rank.id
		j.procs = append(j.procs, rank)
		for w := range workers {
			j.hire(rank, w)
		}
	}
	return j
}

func (j *job) hire(rank *fake, slot int) *fake {
	w := &fake{
		id:   snapshot.ProcID{PID: int32(200 + 20*rank.rank + slot), StartTicks: uint64(j.now / (10 * time.Millisecond))},
		role: model.RoleWorker, rank: rank.rank, slot: slot, of: rank.id, start: j.now, rss: 1 << 28,
	}
	j.procs = append(j.procs, w)
	return w
}

// rank and worker find a process of the script.
func (j *job) rank(r int) *fake { return j.find(model.RoleRank, r, model.None) }

func (j *job) worker(r, slot int) *fake { return j.find(model.RoleWorker, r, slot) }

func (j *job) find(role model.Role, rank, slot int) *fake {
	for _, p := range j.procs {
		if p.role == role && p.rank == rank && p.slot == slot && !p.gone {
			return p
		}
	}
	return nil
}

// workers gives all workers one script.
func (j *job) workers(play func(int) act) {
	for _, p := range j.procs {
		if p.role == model.RoleWorker {
			p.play = play
		}
	}
}

// warmUp plays the part of a run that nobody judges: imports, and with workers the first batch.
func (j *job) warmUp() {
	saved := map[*fake]func(int) act{}
	for _, p := range j.procs {
		saved[p] = p.play
		p.play = always(computing)
		if p.role == model.RoleWorker {
			p.play = always(forIndex)
		}
	}
	j.run(6)
	for _, p := range j.procs {
		if saved[p] != nil {
			p.play = saved[p]
		}
	}
}

// run plays whole seconds, one frame each.
func (j *job) run(seconds int) {
	for range seconds {
		j.frame(10)
	}
}

// frame plays some ticks and shows them as one frame.
func (j *job) frame(ticks int) {
	var fast []snapshot.FastSample
	for range ticks {
		j.now += 100 * time.Millisecond
		for _, p := range j.procs {
			if !p.gone {
				fast = append(fast, p.advance(j.tick, j.now, j.blind))
			}
		}
		j.tick++
	}
	j.show(fast)
}

const tick = 100 * time.Millisecond

// advance plays one tick and returns the fast lane's reading after it.
func (p *fake) advance(i int, at time.Duration, blind bool) snapshot.FastSample {
	a := p.play(i)
	per := func(rate float64) uint64 { return uint64(rate / 10) }
	run := time.Duration(a.run * float64(tick))
	p.sched.Run += run
	p.sched.Wait += time.Duration(a.queue * float64(tick))
	p.cpu += run + time.Duration(a.otherCPU*float64(tick))
	p.io.RChar += per(a.read)
	p.io.SyscR += per(a.calls)
	p.io.ReadBytes += per(a.device)
	p.io.WChar += per(a.wchar)
	p.io.WriteBytes += per(a.wb)
	p.io.SyscW += per(a.writes)
	p.faults += per(a.faults)
	p.io.WChar += p.inherits
	p.io.WriteBytes += p.inherits
	p.inherited, p.inherits = p.inherited+p.inherits, 0
	io, sched := p.io, p.sched
	w := &snapshot.Wait{WChan: a.channel, Syscall: a.call}
	if a.call == nil {
		w.Syscall = &snapshot.Syscall{Running: true}
	}
	if blind {
		w.Syscall = nil
	}
	state := a.state
	if state == 0 {
		state = 'R'
	}
	return snapshot.FastSample{ID: p.id, At: at, State: state, IO: &io, Sched: &sched, Wait: w, UTime: p.cpu}
}

// show makes a frame of the latest readings.
func (j *job) show(fast []snapshot.FastSample) {
	raw := &snapshot.Snapshot{Seq: j.seq, Mono: j.now, Wall: time.Unix(1700000000, 0).Add(j.now)}
	f := &model.Frame{Seq: j.seq, Mono: j.now, Wall: raw.Wall, Raw: raw}
	if j.seq > 0 {
		f.Elapsed = j.now - j.prev
	}
	latest := map[snapshot.ProcID]*snapshot.FastSample{}
	for i := range fast {
		latest[fast[i].ID] = &fast[i]
	}
	pools := map[snapshot.ProcID]*model.Pool{}
	for _, p := range j.procs {
		if p.gone {
			continue
		}
		f.Procs = append(f.Procs, p.proc(latest[p.id], f.Elapsed))
		if p.role == model.RoleWorker {
			j.pool(pools, p)
		}
		p.inherited = 0
	}
	for _, s := range fast {
		if p := j.byID(s.ID); !j.noFast && p.role != model.RoleWorker {
			raw.Fast = append(raw.Fast, s)
		}
	}
	for _, p := range j.procs {
		if p.role != model.RoleRank {
			continue
		}
		r := model.Rank{ID: p.id, Rank: p.rank, LocalRank: p.rank, WorldSize: j.world, Start: p.start}
		if p.gone {
			r.End = p.end
		}
		f.Ranks = append(f.Ranks, r)
		if pool := pools[p.id]; pool != nil {
			f.Pools = append(f.Pools, *pool)
		}
	}
	for _, p := range j.died {
		f.Ended = append(f.Ended, model.Ended{
			ID: p.id, Identity: model.Identity{Role: p.role, Rank: p.rank, OfRank: p.of}, At: j.now, Status: &snapshot.ExitStatus{Signal: 9},
		})
	}
	j.died = nil
	host := &snapshot.Host{At: j.now, CPUs: j.cpus, Dirty: j.dirty}
	f.Host = &model.HostRate{Host: host, IdleShare: j.idle / float64(j.cpus), UserShare: 1 - j.idle/float64(j.cpus)}
	raw.Mounts = []snapshot.Mount{
		{ID: 1, Mountpoint: "/", FSType: "ext4", Device: "sda"},
		{ID: 2, Mountpoint: "/mnt/data", FSType: "fuse.gcsfuse", Remote: true},
	}
	if j.files != nil {
		raw.Files, raw.FileEvents = j.files(j.prev, j.now)
	}
	if j.change != nil {
		j.change(f)
	}
	j.prev = j.now
	j.seq++
	j.verdict.ranks = f.Ranks
	j.verdict.take(j.set.Observe(f))
}

// kill ends a process by SIGKILL before the next tick.
func (j *job) kill(p *fake) {
	p.gone, p.end = true, j.now
	j.died = append(j.died, p)
}

func (j *job) byID(id snapshot.ProcID) *fake {
	for _, p := range j.procs {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (j *job) pool(pools map[snapshot.ProcID]*model.Pool, p *fake) {
	pool := pools[p.of]
	if pool == nil {
		pool = &model.Pool{Rank: p.rank, OfRank: p.of, StartMethod: "fork", Start: p.start}
		pools[p.of] = pool
	}
	pool.Start = min(pool.Start, p.start)
	pool.Members = append(pool.Members, p.id)
	pool.Workers = len(pool.Members)
}

// proc makes the frame's view of a process.
func (p *fake) proc(s *snapshot.FastSample, elapsed time.Duration) model.Proc {
	raw := &snapshot.Proc{
		ID: p.id, At: s.At, State: s.State, UTime: s.UTime, MajFlt: p.faults, RSS: p.rss, IO: s.IO, Sched: s.Sched, Wait: s.Wait,
		Status: &snapshot.Status{CPUsAllowed: 8},
	}
	out := model.Proc{
		ID: p.id, Raw: raw, Start: p.start, Info: &snapshot.ProcInfo{ID: p.id, Comm: "python3", Threads: p.threads},
		Identity: model.Identity{Role: p.role, Rank: p.rank, LocalRank: p.rank, Slot: p.slot, OfRank: p.of},
	}
	if p.last != nil {
		a, b := p.last, raw
		d := b.At - a.At
		out.Delta = &model.Delta{
			Elapsed: d, User: b.UTime - a.UTime, MajFlt: b.MajFlt - a.MajFlt,
			IO: &model.IODelta{
				RChar: b.IO.RChar - a.IO.RChar, WChar: b.IO.WChar - a.IO.WChar - p.inherited, SyscR: b.IO.SyscR - a.IO.SyscR, SyscW: b.IO.SyscW - a.IO.SyscW,
				ReadBytes: b.IO.ReadBytes - a.IO.ReadBytes, WriteBytes: b.IO.WriteBytes - a.IO.WriteBytes - p.inherited, Reaped: p.inherited > 0,
			},
			Main: &model.MainThread{Run: b.Sched.Run - a.Sched.Run, RunQueue: b.Sched.Wait - a.Sched.Wait},
		}
		out.Delta.Main.Blocked = d - out.Delta.Main.Run - out.Delta.Main.RunQueue
	}
	p.last = raw
	return out
}

// finish ends the run.
func (j *job) finish() verdict {
	j.verdict.take(j.set.Finish(j.now, model.Outcome{}))
	return j.verdict
}

// stall is the costliest closed stall of a rank in a phase, nil when there is none.
func (v *verdict) stall(rank int, phase detect.Phase) (best *detect.Stall) {
	for _, s := range v.stalls {
		if s.Rank == rank && s.Phase == phase && (best == nil || s.Lost > best.Lost) {
			best = s
		}
	}
	return best
}

// share is a phase's share of a rank's time.
func (v *verdict) share(rank int, phase detect.Phase) float64 {
	for _, b := range v.budgets {
		if b.Rank != rank {
			continue
		}
		var sum time.Duration
		for _, d := range b.Time {
			sum += d
		}
		return float64(b.Time[phase]) / float64(sum)
	}
	return 0
}
