package detect

import (
	"path"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// episode is a burst of writing under suspicion, and once it fits, a checkpoint.
type episode struct {
	writer      *writer
	first       step
	start       time.Duration // of the first step
	lastBusy    time.Duration // end of the last step that wrote, or waited for a write
	lastStep    step
	written     uint64
	wchar       uint64
	dirtied     uint64
	calls       uint64
	read        uint64
	busy        time.Duration // length of the steps that wrote
	cpu         time.Duration
	mainRun     time.Duration
	elsewhere   time.Duration // while the main thread was blocked in something else
	measured    time.Duration // length of the steps whose main thread was measured
	waited      time.Duration // main thread blocked in writes
	synced      time.Duration // main thread blocked in a sync
	files       []*fileRecord
	dirtyBefore uint64
	end         *model.Ended // the writer's end, nil while it lives
	fits        bool
	opened      bool
	closed      bool
	full        bool // the file system has no room left
	cp          Checkpoint
}

// absorb adds a step that wrote.
func (e *episode) absorb(s step) {
	e.written += s.written
	e.wchar += s.wchar
	e.dirtied += s.dirtied
	e.calls += s.calls
	e.read += s.read
	e.busy += s.length()
	e.lastBusy, e.lastStep = s.to, s
	e.cpu += s.cpu
	e.account(s)
}

// tail adds a step without progress in which the main thread waited for the file.
func (e *episode) tail(s step) {
	e.lastBusy = s.to
	e.account(s)
}

func (e *episode) account(s step) {
	if s.hasMain {
		e.measured += s.length()
		e.mainRun += min(s.mainRun, s.length())
	}
	switch {
	case s.kind == waitFileSync:
		e.synced += s.length()
		e.waited += s.length()
	case s.kind == waitFileWrite:
		e.waited += s.length()
	case elsewhere(s.before) && elsewhere(s.kind):
		e.elsewhere += s.length()
	}
}

// elsewhere says whether a main thread that is blocked in k is certainly not the one that writes.
func elsewhere(k waitKind) bool {
	return k != waitNone && k != waitOther && !k.isRead() && !k.isWrite()
}

// named says whether a file of the episode is named like a model state.
func (e *episode) named() bool {
	for _, r := range e.files {
		if r.kind == fileModel {
			return true
		}
	}
	return false
}

// complete says whether all files of the episode were seen to be completed.
func (e *episode) complete() bool {
	for _, r := range e.files {
		if r.end() == 0 {
			return false
		}
	}
	return len(e.files) > 0
}

// filesEnd is the latest moment at which a file of the episode was completed, 0 when none was seen.
func (e *episode) filesEnd() (end time.Duration) {
	for _, r := range e.files {
		end = max(end, r.end())
	}
	return end
}

// fits says whether the episode is a checkpoint and not a cache, a log, a download or an offloaded optimizer.
func (c *checkpoints) fits(e *episode, f *model.Frame) bool {
	named := e.named()
	if len(e.files) > 0 && !named && !e.created() {
		return false // in place into a file that was there: offload, a database
	}
	smallest := c.t.CheckpointUnnamedBytes
	if named {
		smallest = c.t.CheckpointMinBytes
	}
	if float64(e.size()) < smallest {
		return false
	}
	if named {
		return true
	}
	switch {
	case e.writer.role == model.RoleOther && e.writer.owner == (snapshot.ProcID{}):
		return false
	case float64(e.read) > c.t.ReadBackShare*float64(e.written):
		return false
	case e.calls > 0 && e.wchar > 0 && float64(e.wchar)/float64(e.calls) < c.t.MeanWriteBytes:
		return false
	case c.received(f, e) > c.t.DownloadShare*float64(e.written):
		return false
	case e.end != nil && e.end.Status != nil && e.end.Status.Core:
		return false // the kernel wrote its core
	case len(e.files) == 0 && e.dirtied < e.written/2:
		return false // a socket, a pipe or a file system in memory: collectives over TCP write like that
	case len(e.files) == 0 && c.explained(e):
		return false
	case len(e.files) == 0 && e.busy <= 2*time.Second && c.inherited(e) >= e.written/2:
		return false // the history of reaped children
	}
	return e.writer.owner == (snapshot.ProcID{}) || c.accounts == nil || c.accounts.hasStarted(e.writer.owner, e.start)
}

// explained says whether the writer has a log, a cache or the like open that takes what it writes.
func (c *checkpoints) explained(e *episode) bool {
	for _, r := range c.book.open {
		if (r.kind == fileOther || r.append) && r.writer == e.writer.id && r.seen >= e.start-time.Second && uint64(max(0, r.pos)) >= e.written/2 {
			return true
		}
	}
	return false
}

// hasStarted says whether a rank had begun to train at a moment.
func (a *accounts) hasStarted(id snapshot.ProcID, at time.Duration) bool {
	tl := a.byID[id]
	return tl == nil || tl.start.done && tl.start.at <= at
}

// received is the bytes that came over the network during the episode, from the rate of this frame.
func (c *checkpoints) received(f *model.Frame, e *episode) float64 {
	var bps float64
	for _, n := range f.Network {
		bps += n.RxBPS
	}
	return bps * (e.lastBusy - e.start).Seconds()
}

// created says whether one of the files was created or replaced, not written in place.
func (e *episode) created() bool {
	for _, r := range e.files {
		if r.created || r.exact || r.moved > 0 || r.closed > 0 {
			return true
		}
	}
	return false
}

// size is the logical size: of the files where they are known, else what was written.
func (e *episode) size() int64 {
	counted := int64(e.wchar)
	if e.wchar < e.written/2 { // mapped or asynchronous writes
		counted = int64(e.dirtied)
	}
	var sum int64
	for _, r := range e.files {
		if r.kind == fileModel || r.kind == fileUnknown {
			sum += r.bytes()
		}
	}
	exact := len(e.files) > 0
	for _, r := range e.files {
		exact = exact && r.size >= 0 && r.end() > 0
	}
	if exact && sum > 0 {
		return sum
	}
	return max(sum, counted)
}

// describe brings the finding up to date.
func (c *checkpoints) describe(e *episode, f *model.Frame, over bool) {
	cp := &e.cp
	cp.Start, cp.End = e.bounds()
	cp.Size = e.size()
	cp.Files = len(e.files)
	cp.Path = e.mainPath()
	cp.Background = c.inBackground(e)
	cp.Blocked = 0
	if !cp.Background {
		cp.Blocked = cp.End - cp.Start
	}
	c.place(e, f)
	cp.Durable = c.durable(e)
	if over {
		cp.CutShort = c.cutShort(e)
		if cp.CutShort == "" {
			c.prevSize[c.key(e)] = cp.Size
		}
	}
	c.evidence(e)
}

// bounds are the first and the last moment. File events are exact; without them the burst's edges are interpolated with
// the rate inside it: a reading only says that a step began or ended somewhere within.
func (e *episode) bounds() (start, end time.Duration) {
	start, end = e.start, e.lastBusy
	if e.busy > e.first.length() && e.written > e.first.written {
		inner := float64(e.written-e.first.written) / (e.busy - e.first.length()).Seconds()
		need := time.Duration(float64(e.first.written) / inner * float64(time.Second))
		start = max(e.first.from, e.first.to-need)
	}
	opened := time.Duration(0)
	for _, r := range e.files {
		if r.exact && (opened == 0 || r.opened < opened) {
			opened = r.opened
		}
	}
	if opened > 0 {
		start = opened // the create event is the open itself; a burst before it would be another file's
	} else {
		for _, r := range e.files {
			if r.end() != r.opened && r.opened > start-time.Second {
				start = min(start, r.opened)
			}
		}
	}
	if closed := e.filesEnd(); closed > 0 && closed >= e.lastStep.from-100*time.Millisecond {
		end = closed
	}
	return start, max(start, end)
}

// mainPath is the one file, or the one that holds nearly everything, else the directory.
func (e *episode) mainPath() string {
	if len(e.files) == 0 {
		return ""
	}
	var sum int64
	big := e.files[0]
	for _, r := range e.files {
		sum += r.bytes()
		if r.bytes() > big.bytes() {
			big = r
		}
	}
	if len(e.files) == 1 || big.bytes()*5 >= sum*4 {
		return big.name()
	}
	return path.Dir(big.name())
}

// inBackground says whether the rank went on meanwhile. Another thread writes when the counters move while the main thread
// is blocked elsewhere, or when the process burns more CPU than its main thread. A child writes in the background unless the
// rank does nothing but wait for it.
func (c *checkpoints) inBackground(e *episode) bool {
	length := e.lastBusy - e.start
	if length <= 0 {
		return false
	}
	if e.writer.role == model.RoleRank {
		if ratio(e.elsewhere, length) >= c.t.BackgroundShare {
			return true
		}
		const ticks = 40 * time.Millisecond // CPU times of a process are counted in ticks of 10 ms
		others := e.cpu - e.mainRun
		return e.measured > 0 && others > ticks && ratio(others, e.cpu) >= c.t.BackgroundShare
	}
	tl := c.accounts.timeline(e.writer.owner)
	if tl == nil {
		return true
	}
	return tl.waitingShare(e.start, e.lastBusy) < 0.7
}

func (a *accounts) timeline(id snapshot.ProcID) *timeline {
	if a == nil {
		return nil
	}
	return a.byID[id]
}

// waitingShare is the share of an interval in which the rank's main thread was blocked in something that can be a wait for
// its own saver: a child, a lock, a pipe, a join.
func (tl *timeline) waitingShare(from, to time.Duration) float64 {
	var waited, all time.Duration
	for i := len(tl.slices) - 1; i >= 0 && tl.slices[i].to > from; i-- {
		s := &tl.slices[i]
		part := window{s.from, s.to}.overlap(from, to)
		all += part
		switch s.kind {
		case waitChild, waitUntimedFutex, waitFutex, waitPipeRead, waitTimedFutex, waitPoll:
			waited += scale(s.blocked, part, s.length())
		}
	}
	return ratio(waited, all)
}
