package procfs

import (
	"errors"
	"strconv"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// ErrTooMany is a walk that was not made because the process has more threads or descriptors than it may cost.
var ErrTooMany = errors.New("too many to read")

// tasks lists the threads of a process, and fails with ErrTooMany when there are more than max.
func (fs *FS) tasks(pid int32, max int) ([]int32, error) {
	path := fs.PIDPath(pid, "task")
	ids, err := fs.list(path, listing{max: max + 1})
	if err != nil {
		return nil, err
	}
	if len(ids) > max {
		return nil, &Error{Path: path, Kind: ErrTooMany, Cause: ErrTooMany}
	}
	return ids, nil
}

func taskFile(tid int32, file string) string {
	return "task/" + strconv.Itoa(int(tid)) + "/" + file
}

// OwnIO sums the I/O of a process's living threads. Unlike /proc/PID/io it holds nothing of reaped children, but nothing of
// threads that have ended either. Threads that end during the walk count as ended before it.
func (fs *FS) OwnIO(pid int32, maxThreads int) (snapshot.IO, error) {
	var sum snapshot.IO
	ids, err := fs.tasks(pid, maxThreads)
	if err != nil {
		return sum, err
	}
	n := 0
	for _, tid := range ids {
		var io snapshot.IO
		err := fs.IOOf(pid, tid, &io)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return sum, err
		}
		add(&sum, &io)
		n++
	}
	if n == 0 {
		return sum, &Error{Path: fs.PIDPath(pid, "task"), Kind: ErrGone, Cause: ErrGone}
	}
	return sum, nil
}

// IOOf reads one thread's /proc/PID/task/TID/io.
func (fs *FS) IOOf(pid, tid int32, io *snapshot.IO) error {
	b, err := fs.once(pid, taskFile(tid, "io"))
	if err != nil {
		return err
	}
	return ParseIO(b, io)
}

func add(sum, io *snapshot.IO) {
	sum.RChar += io.RChar
	sum.WChar += io.WChar
	sum.SyscR += io.SyscR
	sum.SyscW += io.SyscW
	sum.ReadBytes += io.ReadBytes
	sum.WriteBytes += io.WriteBytes
	sum.CancelledWrite += io.CancelledWrite
}

// Threads is what one walk over a process's threads told.
type Threads struct {
	Names  []string         // distinct, in the order of thread ids
	States map[string]int32 // "R", "S", "D", … by number of threads
}

// Threads walks the threads of a process.
func (fs *FS) Threads(pid int32, maxThreads int) (Threads, error) {
	t := Threads{States: map[string]int32{}}
	ids, err := fs.tasks(pid, maxThreads)
	if err != nil {
		return t, err
	}
	seen := map[string]bool{}
	var st Stat
	for _, tid := range ids {
		b, err := fs.once(pid, taskFile(tid, "stat"))
		if err == nil {
			err = ParseStat(b, &st)
		}
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return t, err
		}
		t.States[string(rune(st.State))]++
		if !seen[string(st.Comm)] {
			name := string(st.Comm)
			seen[name] = true
			t.Names = append(t.Names, name)
		}
	}
	return t, nil
}
