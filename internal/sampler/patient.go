package sampler

import (
	"sync/atomic"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
)

// patient runs the few reads of /proc that may hang: those that need the target's mmap lock (its command line, environment
// and memory). A process that is stuck in the kernel can hold that lock for ever, and such processes are what we are here
// for. Each read gets a moment; one that does not come back is left behind in its goroutine, and at most maxStuck of them
// may pile up before everything here is refused.
type patient struct {
	root  string
	limit time.Duration
	jobs  chan func(*procfs.FS)
	stuck atomic.Int32
}

const maxStuck = 4

func newPatient(root string, limit time.Duration) *patient {
	return &patient{root: root, limit: limit}
}

// do runs read in the patient goroutine and reports whether it came back in time. When it did not, whatever read writes to
// must not be looked at any more.
func (w *patient) do(read func(*procfs.FS)) bool {
	if w.stuck.Load() >= maxStuck {
		return false
	}
	if w.jobs == nil {
		w.jobs = make(chan func(*procfs.FS))
		go w.run(w.jobs)
	}
	done := make(chan struct{})
	var decided atomic.Bool // by whoever comes first: the read's end or the timer
	w.jobs <- func(fs *procfs.FS) {
		if fs != nil {
			read(fs)
		}
		close(done)
		if !decided.CompareAndSwap(false, true) {
			w.stuck.Add(-1) // came back after all
		}
	}
	timer := time.NewTimer(w.limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	if !decided.CompareAndSwap(false, true) {
		<-done
		return true
	}
	w.stuck.Add(1)
	w.close() // its goroutine ends when the read comes back; the next read gets a new one
	return false
}

// run owns a file system of its own, since an FS is not for two goroutines.
func (w *patient) run(jobs <-chan func(*procfs.FS)) {
	fs, err := procfs.Open(w.root)
	if err != nil {
		fs = nil // out of descriptors: nothing is read, and what is not read is absent
	}
	for job := range jobs {
		job(fs)
	}
	if fs != nil {
		_ = fs.Close()
	}
}

// close ends the goroutine, which is idle unless its read hangs.
func (w *patient) close() {
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
}
