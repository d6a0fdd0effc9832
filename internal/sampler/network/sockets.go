package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/sampler/latest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	// socketBeat is how often sockets are counted at most. It stretches so that counting takes no more than a part in
	// socketShare of the time: the kernel walks its whole hash table for the list, some 5 ms on a machine with 24 GB of
	// memory however few sockets there are.
	socketBeat  = 10 * time.Second
	socketShare = 2000
	// socketDeadline is when a count is given up for the tick.
	socketDeadline = 5 * time.Second
	// maxSockets is how many sockets a namespace may have for its list to be read.
	maxSockets = 4096
	// maxOwners and maxDescriptors bound the walk over descriptors, at some 4 µs each.
	maxOwners      = 64
	maxDescriptors = 1024
)

// errTooMany: the namespace has more sockets than are read.
var errTooMany = errors.New("too many sockets to count")

// counter counts the TCP sockets of ranks and workers, beside the tick.
type counter struct {
	procfs  string
	box     *latest.Latest[map[string]counted]
	request atomic.Pointer[[]question]
	took    atomic.Int64 // nanoseconds of the last count
	asked   time.Duration
	shown   time.Duration // time of the last answer that went into a snapshot
	owners  []snapshot.ProcID
}

// question is one namespace: a process through which it is read, and the processes whose sockets count.
type question struct {
	key    string
	pid    int32
	owners []int32
}

// counted is the answer for one namespace.
type counted struct {
	states     map[string]int32
	send, recv uint64
	err        error
}

func newCounter(procfs string) *counter {
	c := &counter{procfs: procfs}
	c.box = latest.New(socketDeadline, func(context.Context) (map[string]counted, error) {
		start := time.Now()
		out := map[string]counted{}
		for _, q := range *c.request.Load() {
			out[q.key] = c.count(q)
		}
		c.took.Store(int64(time.Since(start)))
		return out, nil
	})
	return c
}

// fresh returns an answer that no snapshot has had yet, nil when there is none.
func (c *counter) fresh() map[string]counted {
	r := c.box.Reading()
	if !r.OK || r.At == c.shown {
		return nil
	}
	c.shown = r.At
	return r.Value
}

// ask requests a count when one is due. The owners are the processes whose files are looked at (ranks and workers), where a
// snapshot has told; until then the members, as far as the bound goes.
func (c *counter) ask(now time.Duration, s *snapshot.Snapshot, of map[snapshot.ProcID]string, namespaces map[string]*namespace) {
	if s.Files != nil {
		c.owners = c.owners[:0]
		seen := map[snapshot.ProcID]bool{}
		for i := range s.Files {
			if id := s.Files[i].ID; !seen[id] {
				seen[id] = true
				c.owners = append(c.owners, id)
			}
		}
	}
	beat := max(socketBeat, socketShare*time.Duration(c.took.Load()))
	if c.asked != 0 && now-c.asked < beat {
		return
	}
	owners := c.owners
	if len(owners) == 0 {
		for i := range s.Procs {
			owners = append(owners, s.Procs[i].ID)
		}
	}
	var questions []question
	for key, ns := range namespaces {
		q := question{key: key, pid: ns.pid}
		for _, id := range owners[:min(len(owners), maxOwners)] {
			if of[id] == key {
				q.owners = append(q.owners, id.PID)
			}
		}
		questions = append(questions, q)
	}
	if len(questions) == 0 {
		return
	}
	c.request.Store(&questions)
	if c.box.Ask() {
		c.asked = max(now, 1)
	}
}

// count reads the sockets of one namespace.
func (c *counter) count(q question) (out counted) {
	dir := filepath.Join(c.procfs, strconv.Itoa(int(q.pid)), "net")
	inodes := c.inodes(q.owners)
	if inodes == nil {
		return out
	}
	states := map[string]int32{}
	see := func(s socket) {
		if inodes[s.inode] {
			states[s.state]++
			out.send += s.send
			out.recv += s.recv
		}
	}
	for _, list := range []struct{ name, stat string }{{"tcp", "sockstat"}, {"tcp6", "sockstat6"}} {
		n, err := inUse(filepath.Join(dir, list.stat))
		if err == nil && n > maxSockets {
			err = fmt.Errorf("%w: %d in %s", errTooMany, n, dir)
		}
		if err != nil {
			return counted{err: err}
		}
		if n == 0 && list.name == "tcp6" {
			continue // reading the empty list would take as long as a full one
		}
		b, err := kernfile.Read(filepath.Join(dir, list.name))
		if err == nil {
			err = parseTCP(b, see)
		}
		if err != nil {
			return counted{err: err}
		}
	}
	out.states = states
	return out
}

// inUse is the number of TCP sockets in a sockstat file; none in a kernel without IPv6, which has no sockstat6.
func inUse(path string) (uint64, error) {
	b, err := kernfile.Read(path)
	if errors.Is(err, unix.ENOENT) && strings.HasSuffix(path, "6") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return parseInUse(b)
}

// inodes collects the sockets that processes hold, nil when none of their descriptors could be listed. A socket that several
// share (a worker inherits its rank's) is one socket.
func (c *counter) inodes(pids []int32) map[uint64]bool {
	var inodes map[uint64]bool
	left := maxDescriptors
	for _, pid := range pids {
		if left <= 0 {
			break
		}
		dir := filepath.Join(c.procfs, strconv.Itoa(int(pid)), "fd")
		names, err := readNames(dir, left)
		if err != nil {
			continue
		}
		if inodes == nil {
			inodes = map[uint64]bool{}
		}
		left -= len(names)
		for _, name := range names {
			link, err := os.Readlink(filepath.Join(dir, name))
			if err != nil {
				continue // closed since
			}
			if text, ok := strings.CutPrefix(link, "socket:["); ok {
				if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
					inodes[inode] = true
				}
			}
		}
	}
	return inodes
}

func readNames(dir string, most int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(most)
	if err != nil && len(names) == 0 {
		return nil, err
	}
	return names, nil
}
