package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	// socketBeat is how often sockets are counted: it means looking at every descriptor of the processes asked for.
	socketBeat = 10 * time.Second
	// maxSockets is how many sockets a namespace may have for its list to be read: about a millisecond per thousand.
	maxSockets = 4096
	// maxOwners and maxDescriptors bound the walk over descriptors, at some 4 µs each.
	maxOwners      = 64
	maxDescriptors = 1024
)

// errTooMany: the namespace has more sockets than are read.
var errTooMany = errors.New("too many sockets to count")

// sockets counts the TCP sockets of ranks and workers.
type sockets struct {
	last   time.Duration // 0: never
	owners []snapshot.ProcID
}

// due says whether to count now. The owners are the processes whose files are looked at (ranks and workers), where a
// snapshot has told; until then the members, as far as the bound goes.
func (k *sockets) due(now time.Duration, s *snapshot.Snapshot) bool {
	if s.Files != nil {
		k.owners = k.owners[:0]
		seen := map[snapshot.ProcID]bool{}
		for i := range s.Files {
			if id := s.Files[i].ID; !seen[id] {
				seen[id] = true
				k.owners = append(k.owners, id)
			}
		}
	}
	if k.last != 0 && now-k.last < socketBeat {
		return false
	}
	if len(k.owners) == 0 {
		for i := range s.Procs {
			k.owners = append(k.owners, s.Procs[i].ID)
		}
	}
	k.last = max(now, 1)
	return true
}

// count fills the sockets of n from the namespace of process pid.
func (k *sockets) count(procfs string, pid int32, of map[snapshot.ProcID]string, n *snapshot.NetIO) error {
	dir := filepath.Join(procfs, strconv.Itoa(int(pid)), "net")
	if err := few(dir); err != nil {
		return err
	}
	inodes := k.inodes(procfs, n.NS, of)
	if inodes == nil {
		return nil
	}
	states := map[string]int32{}
	var send, recv uint64
	see := func(s socket) {
		if inodes[s.inode] {
			states[s.state]++
			send += s.send
			recv += s.recv
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		b, err := kernfile.Read(filepath.Join(dir, name))
		if errors.Is(err, unix.ENOENT) {
			continue // a kernel without IPv6
		}
		if err == nil {
			err = parseTCP(b, see)
		}
		if err != nil {
			return err
		}
	}
	n.Sockets, n.SendQueue, n.RecvQueue = states, send, recv
	return nil
}

// few fails when the namespace has more sockets than are worth reading.
func few(dir string) error {
	var total uint64
	for _, name := range []string{"sockstat", "sockstat6"} {
		b, err := kernfile.Read(filepath.Join(dir, name))
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		n, err := parseInUse(b)
		if err != nil {
			return err
		}
		total += n
	}
	if total > maxSockets {
		return fmt.Errorf("%w: %d in %s", errTooMany, total, dir)
	}
	return nil
}

// inodes collects the sockets that the owners in a namespace hold, nil when none of their descriptors could be listed.
// A socket that several processes share (a worker inherits its rank's) is one socket.
func (k *sockets) inodes(procfs, key string, of map[snapshot.ProcID]string) map[uint64]bool {
	var inodes map[uint64]bool
	left := maxDescriptors
	for i, id := range k.owners {
		if of[id] != key {
			continue
		}
		if i >= maxOwners || left <= 0 {
			break
		}
		dir := filepath.Join(procfs, strconv.Itoa(int(id.PID)), "fd")
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
