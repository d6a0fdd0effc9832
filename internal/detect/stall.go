package detect

import (
	"sort"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// stalls opens and closes the intervals in which ranks lose time, one for each ongoing condition. It reads the slices that
// the accounts have booked, so a stall and the phases can never disagree.
type stalls struct {
	t        *Thresholds
	accounts *accounts
	saves    *checkpoints
	nextID   func() uint64
	watches  map[*timeline]*rankWatch
	order    []*rankWatch
	memory   memoryWatch
	blind    bool // no system call of any rank or worker was readable so far
	seen     bool
}

// rankWatch is what one rank loses now.
type rankWatch struct {
	tl     *timeline
	frames []timed // the last seconds, for stalls that begin before they are opened
	phases [numPhases]lossWatch
}

// lossWatch is one phase of one rank.
type lossWatch struct {
	bits         []lossBit // the slices of the window
	lost         time.Duration
	stretch      time.Duration
	stretchBegan time.Duration
	open         *ongoing
}

type lossBit struct{ from, to, lost time.Duration }

// ongoing is an open stall with all that its cause is judged from.
type ongoing struct {
	stall       Stall
	crew        *crew
	amb         ambient
	startupLost time.Duration // before the first batch of new workers
	peers       map[int]time.Duration
	kinds       [numWaits]time.Duration // of the main thread, while it lost time
	running     time.Duration
	gpu         gpuSums
}

// gpuSums are a GPU's figures over a stall.
type gpuSums struct {
	n, busy, power float64
	throttled      int
	lost           bool
	known          bool
}

func newStalls(t *Thresholds, a *accounts, c *checkpoints, nextID func() uint64) *stalls {
	return &stalls{t: t, accounts: a, saves: c, nextID: nextID, watches: map[*timeline]*rankWatch{}, blind: true}
}

// observe reads a frame and the slices that were booked in it.
func (d *stalls) observe(f *model.Frame, crews map[snapshot.ProcID]*crew, fresh map[*timeline][]slice) []Event {
	amb := d.memory.surroundings(f)
	var events []Event
	for _, tl := range d.accounts.ranks {
		w := d.watch(tl)
		c := crews[tl.id]
		if c != nil {
			d.notice(c)
			w.remember(timed{at: f.Mono, crew: c, amb: amb}, 2*seconds(d.t.StallWindowSeconds)+f.Elapsed)
		}
		opened := map[int]bool{}
		for i := range fresh[tl] {
			events = append(events, d.feed(w, &fresh[tl][i], f.Mono, opened)...)
		}
		events = append(events, d.update(w, c, amb, f.Mono, opened)...)
		if tl.ended && tl.open == len(tl.slices) {
			events = append(events, d.closeAll(w, f.Mono)...)
		}
	}
	return events
}

func (d *stalls) watch(tl *timeline) *rankWatch {
	w := d.watches[tl]
	if w == nil {
		w = &rankWatch{tl: tl}
		d.watches[tl] = w
		d.order = append(d.order, w)
	}
	return w
}

// notice learns whether system calls are readable here.
func (d *stalls) notice(c *crew) {
	if c.rank.samples > 0 {
		d.seen = true
	}
	if c.rank.named > 0 || c.workers().named > 0 {
		d.blind = false
	}
}

func (w *rankWatch) remember(t timed, keep time.Duration) {
	w.frames = append(w.frames, t)
	n := 0
	for n < len(w.frames)-1 && w.frames[n].at < t.at-keep {
		n++
	}
	w.frames = append(w.frames[:0], w.frames[n:]...)
}

// feed adds a booked slice to all losses of a rank.
func (d *stalls) feed(w *rankWatch, s *slice, now time.Duration, opened map[int]bool) []Event {
	var events []Event
	for _, phase := range lossPhases {
		lost := s.lost(phase)
		l := &w.phases[phase]
		l.push(lossBit{s.from, s.to, lost}, seconds(d.t.StallWindowSeconds))
		if l.open == nil {
			if d.shouldOpen(l) {
				l.open = d.begin(w, phase, l)
				opened[phase] = true
				d.gather(w, l.open, phase, s, 0)
				events = append(events, d.event(Opened, w, l.open, now))
			}
			continue
		}
		d.gather(w, l.open, phase, s, lost)
		if lost > 0 {
			l.open.stall.End = s.to
		}
		if float64(l.lost) < d.t.StallCloseShare*float64(seconds(d.t.StallWindowSeconds)) {
			events = append(events, d.event(Closed, w, l.open, now))
			l.open = nil
		}
	}
	return events
}

// push moves the window forward.
func (l *lossWatch) push(b lossBit, window time.Duration) {
	l.bits = append(l.bits, b)
	l.lost += b.lost
	n := 0
	for n < len(l.bits)-1 && l.bits[n].to <= b.to-window {
		l.lost -= l.bits[n].lost
		n++
	}
	l.bits = append(l.bits[:0], l.bits[n:]...)
	if length := b.to - b.from; b.lost >= length*4/5 {
		if l.stretch == 0 {
			l.stretchBegan = b.from
		}
		l.stretch += b.lost
	} else if b.lost < length/2 {
		l.stretch = 0
	}
}

func (d *stalls) shouldOpen(l *lossWatch) bool {
	return l.stretch >= seconds(d.t.StallStretchSeconds) ||
		float64(l.lost) >= d.t.StallOpenShare*float64(seconds(d.t.StallWindowSeconds))
}

// begin makes a stall that starts with the first lost moment in the window.
func (d *stalls) begin(w *rankWatch, phase int, l *lossWatch) *ongoing {
	o := &ongoing{crew: newCrew(), amb: ambient{shmUsed: -1}, peers: map[int]time.Duration{}}
	st := &o.stall
	st.ID, st.Rank, st.OfRank, st.Phase = d.nextID(), w.tl.rank, w.tl.id, Phases[phase]
	first := true
	for _, b := range l.bits {
		if b.lost == 0 {
			continue
		}
		if first {
			st.Start, first = b.from, false
		}
		st.Lost += b.lost
		st.End = b.to
	}
	for i := range w.tl.slices[:w.tl.open] {
		if s := &w.tl.slices[i]; s.from >= st.Start && s.to < st.End {
			d.gather(w, o, phase, s, 0)
		}
	}
	for _, t := range w.frames {
		if t.at > st.Start {
			o.crew.add(t.crew)
			o.amb.add(t.amb)
		}
	}
	return o
}

// gather adds what a slice says about the loss. lost is what counts towards the stall's total beyond what it has.
func (d *stalls) gather(w *rankWatch, o *ongoing, phase int, s *slice, lost time.Duration) {
	o.stall.Lost += lost
	share := s.lost(phase)
	if share == 0 {
		return
	}
	if s.newPool || s.loading {
		o.startupLost += share
	}
	if phase == inPeer {
		o.peers[s.peer] += share
	}
	blocked := min(share, s.blocked)
	o.kinds[s.kind] += blocked
	o.running += share - blocked
	if cp := d.saves.blockingAt(w.tl.id, s.from, s.to); cp != nil && phase == inCheckpoint {
		o.stall.Checkpoint = cp.ID
	}
}

// update judges the open stalls of a rank anew.
func (d *stalls) update(w *rankWatch, c *crew, amb *ambient, now time.Duration, opened map[int]bool) []Event {
	var events []Event
	for _, phase := range lossPhases {
		o := w.phases[phase].open
		if o == nil || opened[phase] {
			continue
		}
		if c != nil {
			o.crew.add(c)
			o.amb.add(amb)
		}
		o.gpu.add(d.accounts.gpus.of(w.tl))
		events = append(events, d.event(Updated, w, o, now))
	}
	return events
}

func (g *gpuSums) add(s *gpuState) {
	if s == nil {
		return
	}
	g.known = true
	g.lost = g.lost || s.lost
	if s.utilization < 0 {
		return
	}
	g.n++
	g.busy += s.utilization
	g.power += max(0, s.power)
	if s.throttle&gpuSlowdown != 0 {
		g.throttled++
	}
}

func (d *stalls) event(k EventKind, w *rankWatch, o *ongoing, now time.Duration) Event {
	d.judge(w, o)
	st := o.stall
	return Event{Kind: k, At: now, Stall: &st}
}

func (d *stalls) closeAll(w *rankWatch, now time.Duration) []Event {
	var events []Event
	for _, phase := range lossPhases {
		if o := w.phases[phase].open; o != nil {
			events = append(events, d.event(Closed, w, o, now))
			w.phases[phase].open = nil
		}
	}
	return events
}

// finish closes everything, after the last slices have been fed.
func (d *stalls) finish(fresh map[*timeline][]slice, now time.Duration) []Event {
	var events []Event
	for _, tl := range d.accounts.ranks {
		w := d.watch(tl)
		for i := range fresh[tl] {
			events = append(events, d.feed(w, &fresh[tl][i], now, map[int]bool{})...)
		}
		events = append(events, d.closeAll(w, now)...)
	}
	return events
}

// peerMost is the rank that was waited for most.
func (o *ongoing) peerMost() (rank int, share float64) {
	ranks := make([]int, 0, len(o.peers))
	var sum time.Duration
	for r, d := range o.peers {
		ranks = append(ranks, r)
		sum += d
	}
	sort.Ints(ranks)
	rank = model.None
	var most time.Duration = -1
	for _, r := range ranks {
		if o.peers[r] > most {
			rank, most = r, o.peers[r]
		}
	}
	return rank, ratio(most, sum)
}
