package sampler

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	maxWatches   = 16
	maxEvents    = 1000 // per tick; a folder that makes more is a cache, and not watched any longer
	askDeadline  = 5 * time.Second
	sizeDeadline = time.Second

	// watchMask has the three events that bound the write of a checkpoint. Never OPEN, MODIFY or ACCESS: those put their cost
	// on every operation of the job in that folder.
	watchMask = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO
)

// watchDir is a folder as a process sees it.
type watchDir struct {
	path string
	pid  int32 // in whose mount namespace the path means something; 0: our own
}

// watch holds the inotify watches. Reading events never waits, adding a watch may: it looks the folder up, which hangs on a
// broken file system. So may asking for a size. Each has a goroutine of its own, asked and answered through channels that
// are never waited for.
type watch struct {
	fd    int // inotify, -1: not available
	root  string
	clock Clock

	add   chan watchDir
	added chan watchAdded
	size  chan sizeRequest
	sized chan sizeAnswer

	asked   time.Duration // when the oldest add that was not answered was asked for, 0: none
	waiting int
	dirs    map[int32]string // by watch descriptor
	wanted  map[string]bool  // asked for, answered or not
	order   []string         // of wanted: the oldest first
	pinned  map[string]bool  // by SetWatch: never given up for others
	events  []pendingEvent
	first   uint64 // number of events[0]
	counts  map[int32]int
	lost    bool
	failed  error
	buf     [16 << 10]byte
}

type watchAdded struct {
	path string
	wd   int
	err  error
}

type pendingEvent struct {
	snapshot.FileEvent
	settled bool
}

type sizeRequest struct {
	number uint64
	path   string
}

type sizeAnswer struct {
	number uint64
	size   int64
}

func newWatch(procRoot string, clock Clock) *watch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		fd = -1
	}
	w := &watch{
		fd: fd, root: procRoot, clock: clock, failed: err,
		add: make(chan watchDir, maxWatches), added: make(chan watchAdded, maxWatches),
		size: make(chan sizeRequest, 64), sized: make(chan sizeAnswer, 64),
		dirs: map[int32]string{}, wanted: map[string]bool{}, pinned: map[string]bool{}, counts: map[int32]int{},
	}
	if fd >= 0 {
		go w.runAdds(fd)
		go w.runSizes()
	}
	return w
}

// want asks for a watch, unless there is one.
func (w *watch) want(d watchDir) {
	if w.fd < 0 || w.wanted[d.path] {
		return
	}
	if len(w.wanted) >= maxWatches && !w.giveUpOldest() {
		return
	}
	select {
	case w.add <- d:
		w.wanted[d.path] = true
		w.order = append(w.order, d.path)
		if w.waiting == 0 {
			w.asked = w.clock.Now()
		}
		w.waiting++
	default: // the goroutine hangs on an earlier one: that shows as a gap
	}
}

// pin asks for watches that stay.
func (w *watch) pin(dirs []string) {
	clear(w.pinned)
	for _, d := range dirs {
		w.pinned[d] = true
		w.want(watchDir{path: d})
	}
}

func (w *watch) giveUpOldest() bool {
	for _, path := range w.order {
		if w.pinned[path] {
			continue
		}
		for wd, dir := range w.dirs {
			if dir == path {
				w.remove(wd)
				return true
			}
		}
	}
	return false
}

// remove ends a watch. The kernel does it at once, whatever state the file system is in.
func (w *watch) remove(wd int32) {
	_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // already gone is as good
	w.forget(w.dirs[wd])
	delete(w.dirs, wd)
}

func (w *watch) forget(path string) {
	delete(w.wanted, path)
	w.order = slices.DeleteFunc(w.order, func(p string) bool { return p == path })
}

// runAdds adds watches, one at a time, until w.add is closed. It may hang in the kernel for as long as a file system does.
func (w *watch) runAdds(fd int) {
	for d := range w.add {
		wd, err := unix.InotifyAddWatch(fd, w.reach(d), watchMask|unix.IN_ONLYDIR)
		w.added <- watchAdded{path: d.path, wd: wd, err: err} // has room for as many as can be asked for
	}
	close(w.added)
}

// reach gives the path by which we can reach a folder that a process names: through its root when it lives in another mount
// namespace.
func (w *watch) reach(d watchDir) string {
	if d.pid == 0 {
		return d.path
	}
	proc := w.root + "/" + strconv.Itoa(int(d.pid))
	theirs, err := os.Readlink(proc + "/ns/mnt")
	ours, err2 := os.Readlink(w.root + "/self/ns/mnt")
	if err != nil || err2 != nil || theirs == ours {
		return d.path
	}
	return proc + "/root" + d.path
}

// runSizes asks for sizes, one at a time, until w.size is closed. It may hang as well.
func (w *watch) runSizes() {
	for r := range w.size {
		a := sizeAnswer{number: r.number, size: -1}
		var st unix.Stat_t
		if err := unix.Lstat(r.path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			a.size = st.Size
		}
		select {
		case w.sized <- a:
		default: // nobody has asked for so long that the answers pile up
		}
	}
}

// read takes the events that have come.
func (w *watch) read() {
	for {
		n, err := unix.Read(w.fd, w.buf[:])
		if err != nil || n <= 0 {
			return // EAGAIN: no more
		}
		at := w.clock.Now()
		parseEvents(w.buf[:n], func(wd int32, mask uint32, name string) { w.take(at, wd, mask, name) })
	}
}

// parseEvents walks a buffer of struct inotify_event: wd i32, mask u32, cookie u32, len u32, name padded with NULs.
func parseEvents(b []byte, each func(wd int32, mask uint32, name string)) {
	const head = unix.SizeofInotifyEvent
	for len(b) >= head {
		length := int(binary.NativeEndian.Uint32(b[12:]))
		if length > len(b)-head {
			return
		}
		name := b[head : head+length]
		if end := slices.Index(name, 0); end >= 0 {
			name = name[:end]
		}
		each(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), string(name))
		b = b[head+length:]
	}
}

func (w *watch) take(at time.Duration, wd int32, mask uint32, name string) {
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.lost = true
		return
	case mask&unix.IN_IGNORED != 0:
		if path, ok := w.dirs[wd]; ok {
			w.forget(path)
			delete(w.dirs, wd)
		}
		return
	}
	w.learnAdded() // the answer to the add may still be in its channel
	dir, ok := w.dirs[wd]
	if !ok || mask&unix.IN_ISDIR != 0 && mask&unix.IN_MOVED_TO == 0 {
		return
	}
	if w.counts[wd]++; w.counts[wd] > maxEvents {
		w.lost = true
		if !w.pinned[dir] {
			w.remove(wd)
		}
		return
	}
	e := pendingEvent{FileEvent: snapshot.FileEvent{At: at, Kind: kindOf(mask), Path: filepath.Join(dir, name), Size: -1}}
	e.settled = e.Kind == snapshot.FileCreated // empty by definition, whatever it holds by now
	if !e.settled {
		select {
		case w.size <- sizeRequest{number: w.first + uint64(len(w.events)), path: e.Path}:
		default:
			e.settled = true
		}
	}
	w.events = append(w.events, e)
}

func kindOf(mask uint32) snapshot.FileEventKind {
	switch {
	case mask&unix.IN_CREATE != 0:
		return snapshot.FileCreated
	case mask&unix.IN_MOVED_TO != 0:
		return snapshot.FileMovedTo
	}
	return snapshot.FileClosedWrite
}

func (w *watch) learnAdded() {
	for {
		select {
		case a, ok := <-w.added:
			if !ok {
				return
			}
			w.waiting--
			w.asked = w.clock.Now()
			if a.err != nil {
				w.forget(a.path)
				if !errors.Is(a.err, unix.ENOENT) {
					w.failed = a.err
				}
				continue
			}
			w.dirs[int32(a.wd)] = a.path
		default:
			return
		}
	}
}

// deliver hands out the events whose size is known or has been waited for long enough, in order.
func (w *watch) deliver(now time.Duration) []snapshot.FileEvent {
	w.learnAdded()
	for more := true; more; {
		select {
		case a := <-w.sized:
			if i := a.number - w.first; a.number >= w.first && i < uint64(len(w.events)) {
				w.events[i].Size, w.events[i].settled = a.size, true
			}
		default:
			more = false
		}
	}
	n := 0
	for n < len(w.events) && (w.events[n].settled || now-w.events[n].At > sizeDeadline) {
		n++
	}
	if n == 0 {
		return nil
	}
	out := make([]snapshot.FileEvent, n)
	for i := range out {
		out[i] = w.events[i].FileEvent
	}
	w.events = slices.Delete(w.events, 0, n)
	w.first += uint64(n)
	clear(w.counts)
	return out
}

// gap says what is wrong with watching, nil when nothing is. A failure is said once.
func (w *watch) gap(now time.Duration) (err error, truncated bool) {
	truncated, w.lost = w.lost, false
	if w.waiting > 0 && now-w.asked > askDeadline {
		return procfs.ErrTimeout, truncated
	}
	err, w.failed = w.failed, nil
	return err, truncated
}

// close ends the goroutines. One that hangs is left behind.
func (w *watch) close() {
	if w.fd < 0 {
		return
	}
	close(w.add)
	close(w.size)
	deadline := time.NewTimer(mindLimit)
	defer deadline.Stop()
	for {
		select {
		case _, ok := <-w.added:
			if !ok {
				_ = unix.Close(w.fd)
				w.fd = -1
				return
			}
		case <-deadline.C:
			return // the descriptor is still in use in there
		}
	}
}
