package sampler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// maxSlots is into how many parts a tick is divided at most. Readings are spread over them, so that a large job does not
// cost a burst of CPU time once a second; it is also the beat of the fast lane.
const maxSlots = 10

// membersPerSlot is how many members are worth a wake-up of their own.
const membersPerSlot = 64

// mindLimit is how long a read that needs the target's memory map may take.
const mindLimit = 20 * time.Millisecond

// Sampler is the live source of snapshots. See the package's documentation.
type Sampler struct {
	cfg   Config
	fs    *procfs.FS
	clock Clock
	poll  *poller
	own   bool // this /proc shows our own pid namespace

	rootStart uint64
	rootGone  bool
	root      procfs.File // kept stat of a root that is no member
	jobStart  uint64

	members  []*process
	byPID    map[int32]*process
	sessions map[int32]bool // sessions that members lead or led, as long as any member is in them
	disc     discovery
	born     uint64
	dead     int // members that are reaped and wait for their Exit to be told
	kept     int // descriptors kept
	maxKept  int

	seq       uint64
	due       time.Duration // of the next tick
	interval  time.Duration // in force
	missed    uint64
	busy      time.Duration // spent reading since the previous snapshot
	turns     turns
	lastPass  time.Duration
	patient   *patient
	gaps      []snapshot.Gap // of this tick
	gapCounts []int          // how often each of them happened
	stat      procfs.Stat    // scratch

	wantFast    atomic.Pointer[[]snapshot.ProcID]
	wantWatch   atomic.Pointer[[]string]
	fast        []*process // the fast lane, chosen per interval
	fastSamples []snapshot.FastSample
	files       []snapshot.OpenFile
	watch       *watch
	statm       procfs.File // our own
}

// New opens everything a sampler needs. The root process must exist.
func New(cfg Config) (*Sampler, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	fs, err := procfs.Open(cfg.Procfs)
	if err != nil {
		return nil, fmt.Errorf("open the proc file system: %w", err)
	}
	s := &Sampler{
		cfg: cfg, fs: fs, clock: NewClock(), interval: cfg.Interval, own: fs.Own(),
		byPID: map[int32]*process{}, sessions: map[int32]bool{}, maxKept: descriptorBudget(),
	}
	s.disc.fresh = map[int32]*candidate{}
	s.disc.skipped = maxSkipped // the first listing is made
	s.patient = newPatient(cfg.Procfs, mindLimit)
	if err := s.findRoot(); err != nil {
		_ = fs.Close()
		return nil, err
	}
	if s.poll, err = newPoller(); err != nil {
		s.root.Close()
		_ = fs.Close()
		return nil, fmt.Errorf("create the poller: %v", err)
	}
	s.watch = newWatch(cfg.Procfs, s.clock)
	if s.watch.fd >= 0 {
		if err := s.poll.add(s.watch.fd, unix.EPOLLIN, eventInotify); err != nil {
			return nil, errors.Join(fmt.Errorf("poll inotify: %v", err), s.Close())
		}
	}
	if s.own {
		s.statm, _ = fs.OpenFile(int32(unix.Getpid()), "statm") // absent: Self has no RSS
		if s.disc.loadavg, err = fs.OpenHost("loadavg"); err == nil {
			s.disc.gate = true
		}
	}
	return s, nil
}

func (s *Sampler) findRoot() error {
	var st procfs.Stat
	if err := s.fs.Stat(s.cfg.Root, &st); err != nil {
		return fmt.Errorf("find process %d: %w", s.cfg.Root, err)
	}
	s.rootStart = st.StartTicks
	if !s.cfg.RootIsMember {
		s.root, _ = s.fs.OpenFile(s.cfg.Root, "stat")
	}
	if s.cfg.Job > 0 && s.cfg.Job != s.cfg.Root && s.fs.Stat(s.cfg.Job, &st) == nil {
		s.jobStart = st.StartTicks
	}
	return nil
}

// descriptorBudget is how many descriptors may be kept: what the limit allows (Go has raised the soft limit to the hard one
// by itself), less some for everything else.
func descriptorBudget() int {
	const reserve = 128
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 1024 - reserve
	}
	return int(min(lim.Cur, 1<<20)) - reserve
}

// Next waits for the next tick, reading on the way, and returns its snapshot. The first one comes at once. It returns
// io.EOF when the job is gone: no member is left and none can come, because the root is gone too.
func (s *Sampler) Next(ctx context.Context) (*snapshot.Snapshot, error) {
	stop := context.AfterFunc(ctx, s.poll.interrupt)
	defer stop()
	if s.over() {
		return nil, io.EOF
	}
	if s.seq == 0 {
		s.due = s.clock.Now()
	} else if err := s.passInterval(ctx); err != nil {
		return nil, err
	}
	return s.finish(), nil
}

func (s *Sampler) over() bool {
	if s.seq == 0 || len(s.members) > 0 {
		return false
	}
	return s.cfg.RootIsMember || s.rootGone
}

// passInterval spends the time until the tick is due, reading the members slot by slot.
func (s *Sampler) passInterval(ctx context.Context) error {
	slots := s.slots()
	start := s.due - s.interval
	for k := range slots {
		until := start + s.interval*time.Duration(k+1)/time.Duration(slots)
		if err := s.waitUntil(ctx, until); err != nil {
			return err
		}
		begin := s.clock.Now()
		s.readSlot(k, slots)
		s.busy += s.clock.Now() - begin
	}
	return nil
}

func (s *Sampler) slots() int {
	if len(s.fast) > 0 {
		return max(1, int(s.interval/fastBeat))
	}
	return min(max(1, (len(s.members)+membersPerSlot-1)/membersPerSlot), maxSlots)
}

func (s *Sampler) readSlot(k, slots int) {
	s.readFast()
	for _, p := range s.members {
		if p.slot*slots/maxSlots == k && !p.fast {
			s.read(p)
		}
	}
}

// waitUntil sleeps, handling ends of processes as they come.
func (s *Sampler) waitUntil(ctx context.Context, until time.Duration) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := until - s.clock.Now()
		if left <= 0 {
			return nil
		}
		if err := s.poll.wait(left, s.handle); err != nil {
			return fmt.Errorf("wait for the next tick: %v", err)
		}
	}
}

// handle takes an event of the poller.
func (s *Sampler) handle(about int32, events uint32) {
	if about == eventInotify {
		s.watch.read()
		return
	}
	p := s.byPID[about]
	if p == nil {
		return
	}
	if events&unix.EPOLLHUP != 0 {
		s.markReaped(p, s.clock.Now())
		return
	}
	s.read(p) // a zombie keeps its final totals until it is reaped: a race with its parent that is worth running
}

// finish makes the snapshot of a tick.
func (s *Sampler) finish() *snapshot.Snapshot {
	begin := s.clock.Now()
	s.seq++
	if err := s.discover(); err != nil {
		s.gap(nil, "procfs", err)
	}
	s.checkRoot()
	s.noteParents()
	s.rereadParents()
	s.readBursts()
	s.readSlow()
	s.readFiles()
	s.walk(begin)
	snap := &snapshot.Snapshot{
		Seq: s.seq, Wall: time.Now(), Mono: s.clock.Now(),
		Interval:    snapshot.Milliseconds(s.interval / time.Millisecond),
		MissedTicks: s.missed,
	}
	s.collect(snap)
	snap.Self = s.self()
	for _, part := range s.cfg.Parts {
		part.Read(snap.Mono, snap)
	}
	s.busy += s.clock.Now() - begin
	s.chooseFast()
	s.pinWatches()
	s.schedule()
	return snap
}

// SetWatch names folders to watch from now on, besides those that the sampler finds by itself. It may be called from any
// goroutine.
func (s *Sampler) SetWatch(dirs []string) {
	dirs = slices.Clone(dirs[:min(len(dirs), maxWatches)])
	s.wantWatch.Store(&dirs)
}

func (s *Sampler) pinWatches() {
	if dirs := s.wantWatch.Swap(nil); dirs != nil {
		s.watch.pin(*dirs)
	}
}

// readBursts sums the threads of the processes that have written much, which tells a burst from reaped children.
func (s *Sampler) readBursts() {
	for _, p := range s.members {
		if p.burst {
			p.burst = false
			if !p.reaped && !p.zombie && p.now.proc.OwnIO == nil {
				s.readOwn(p)
			}
		}
	}
}

func (s *Sampler) checkRoot() {
	if s.cfg.RootIsMember || s.rootGone || !s.root.IsOpen() {
		return
	}
	if err := s.fs.ReadStat(s.root, &s.stat); errors.Is(err, procfs.ErrGone) || err == nil && s.stat.State == 'Z' {
		s.rootGone = true
	}
}

// rereadParents reads the parents of the members that were reaped in this tick again, so that the end of a child and the
// jump of its parent's counters are in one snapshot.
func (s *Sampler) rereadParents() {
	if s.dead == 0 {
		return
	}
	for _, p := range s.members {
		if p.reaped {
			if parent := s.byPID[p.now.proc.PPID]; parent != nil {
				s.read(parent)
				if parent.now.proc.OwnIO == nil && int(parent.now.proc.NumThreads) <= maxOwn {
					s.readOwn(parent)
				}
			}
		}
	}
}

// collect moves what was read into the snapshot and drops the dead.
func (s *Sampler) collect(snap *snapshot.Snapshot) {
	n := len(s.members)
	snap.Procs = make([]snapshot.Proc, 0, n-s.dead)
	ios, scheds := make([]snapshot.IO, 0, n), make([]snapshot.Sched, 0, n)
	live := s.members[:0]
	for _, p := range s.members {
		if !p.told {
			snap.Infos = append(snap.Infos, p.info)
			p.told = true
		}
		if p.reaped {
			snap.Exits = append(snap.Exits, p.exit())
			s.release(p)
			continue
		}
		live = append(live, p)
		proc := p.now.proc
		proc.ID = p.id
		p.now.proc.OwnIO, p.now.proc.Status, p.now.proc.Wait = nil, nil, nil // belong to the snapshot now
		if p.now.hasIO {
			ios = append(ios, p.now.io)
			proc.IO = &ios[len(ios)-1]
		}
		if p.now.hasSched {
			scheds = append(scheds, p.now.sched)
			proc.Sched = &scheds[len(scheds)-1]
		}
		snap.Procs = append(snap.Procs, proc)
	}
	clear(s.members[len(live):])
	s.members = live
	s.forgetSessions()
	s.dead = 0
	snap.Fast = s.fastSamples
	s.fastSamples = make([]snapshot.FastSample, 0, len(s.fastSamples))
	if len(s.files) > 0 {
		snap.Files = slices.Clone(s.files)
		s.files = s.files[:0]
	}
	snap.FileEvents = s.watch.deliver(snap.Mono)
	if err, truncated := s.watch.gap(snap.Mono); err != nil {
		s.gap(nil, "inotify", err)
	} else if truncated {
		s.gap(nil, "inotify", procfs.ErrTooMany)
	}
	s.tellGaps(snap)
}

func (s *Sampler) tellGaps(snap *snapshot.Snapshot) {
	for i, n := range s.gapCounts {
		if n > 1 {
			s.gaps[i].Detail += fmt.Sprintf(" (%d such)", n)
		}
	}
	snap.Gaps = append(snap.Gaps, s.gaps...)
	s.gaps, s.gapCounts = s.gaps[:0], s.gapCounts[:0]
}

// noteParents marks the members that have children: only a parent can get the counters of reaped children.
func (s *Sampler) noteParents() {
	for _, p := range s.members {
		if parent := s.byPID[p.now.proc.PPID]; parent != nil {
			parent.reaper = true
		}
	}
}

func (p *process) exit() snapshot.Exit {
	e := snapshot.Exit{ID: p.id, At: p.ended, UTime: p.now.proc.UTime, STime: p.now.proc.STime, Status: p.exited}
	if p.final {
		io := p.now.io
		e.IO = &io
	}
	return e
}

// schedule sets the time of the next tick. A pass that took longer than a tenth of the interval stretches it; a tick whose
// time has already gone by is missed, and said so, never made up for by two in a row.
func (s *Sampler) schedule() {
	if s.busy > s.interval/10 {
		s.interval = min(s.interval*2, s.cfg.Interval*8)
	} else if s.interval > s.cfg.Interval && s.busy < s.interval/40 {
		s.interval /= 2
	}
	s.lastPass, s.busy = s.busy, 0
	s.due += s.interval
	if now := s.clock.Now(); now >= s.due {
		late := uint64((now-s.due)/s.interval) + 1
		s.missed += late
		s.due += time.Duration(late) * s.interval
	}
}

// Close releases every descriptor and closes the parts that can be closed.
func (s *Sampler) Close() error {
	var errs []error
	for _, part := range s.cfg.Parts {
		if c, ok := part.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	for _, p := range s.members {
		s.release(p)
	}
	s.members = nil
	s.patient.close()
	s.watch.close()
	s.statm.Close()
	s.root.Close()
	s.disc.loadavg.Close()
	s.poll.close()
	errs = append(errs, s.fs.Close())
	return errors.Join(errs...)
}
