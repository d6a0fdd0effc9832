package mounts

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/latest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	// deadline is how long statfs may take before its mount is said not to answer.
	deadline = 2 * time.Second
	// remoteBeat is how often a file system is asked that answers over the network or through a daemon.
	remoteBeat = 10 * time.Second
)

// errCovered: another mount lies over this one, and its room cannot be asked for by path.
var errCovered = errors.New("covered by another mount")

// box is the mailbox of one mount's room.
type box struct {
	*latest.Latest[snapshot.Space]
	path  atomic.Pointer[string]
	asked time.Duration // 0: never
}

func newBox(id int32) *box {
	b := &box{}
	b.Latest = latest.New(deadline, func(context.Context) (snapshot.Space, error) { return statfs(*b.path.Load(), id) })
	return b
}

// ask requests a new answer when one is due.
func (b *box) ask(now time.Duration, path string, beat time.Duration) {
	b.path.Store(&path)
	if b.asked != 0 && now-b.asked < beat {
		return
	}
	if b.Ask() {
		b.asked = max(now, 1)
	}
}

// statfs asks for the room of the mount id at path. It may hang for ever.
func statfs(path string, id int32) (snapshot.Space, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return snapshot.Space{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var stx unix.Statx_t
	// Since Linux 5.8. Before, a covered mount cannot be told.
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stx)
	if err == nil && stx.Mask&unix.STATX_MNT_ID != 0 && stx.Mnt_id != uint64(id) {
		return snapshot.Space{}, fmt.Errorf("statfs %s: %w", path, errCovered)
	}
	var st unix.Statfs_t
	for {
		err = unix.Fstatfs(fd, &st)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return snapshot.Space{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	// Blocks are counted in fragments: on NFS and FUSE the two sizes differ.
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return snapshot.Space{Total: st.Blocks * unit, Free: st.Bfree * unit, Available: st.Bavail * unit, Files: st.Files, FilesFree: st.Ffree}, nil
}
