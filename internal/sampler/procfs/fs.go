package procfs

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of any file: the files of a process have no limit of their own (a command line may hold
// megabytes).
const maxFile = 256 << 10

// FS is a mounted proc file system, or a folder that looks like one.
type FS struct {
	root string
	dir  int // kept descriptor of root, for listing it
	buf  []byte
	ents []byte // getdents buffer
	path []byte // scratch for paths
}

// Open opens the proc file system mounted at root.
func Open(root string) (*FS, error) {
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, readError(root, err)
	}
	return &FS{root: root, dir: dir, buf: make([]byte, 8<<10), ents: make([]byte, 32<<10)}, nil
}

// Close releases the descriptor of the root. Files opened from fs stay usable.
func (fs *FS) Close() error {
	if fs.dir < 0 {
		return nil
	}
	err := unix.Close(fs.dir)
	fs.dir = -1
	return err
}

// Root is the folder it was opened at.
func (fs *FS) Root() string { return fs.root }

// Own reports whether the pids seen in this proc file system are those of our own pid namespace: false for a host's /proc
// mounted into a container, and for a fake root. /proc/loadavg and pidfd_open speak of our own namespace only.
func (fs *FS) Own() bool {
	link, err := fs.readlink(fs.root + "/self")
	return err == nil && link == strconv.Itoa(unix.Getpid())
}

// PIDPath is the path of a process's folder, or of a file in it.
func (fs *FS) PIDPath(pid int32, file string) string {
	b := fs.appendPID(fs.path[:0], pid, file)
	fs.path = b
	return string(b)
}

func (fs *FS) appendPID(b []byte, pid int32, file string) []byte {
	b = append(b, fs.root...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(pid), 10)
	if file != "" {
		b = append(b, '/')
		b = append(b, file...)
	}
	return b
}

// read returns a whole file, at most max bytes of it. The result is valid until the next read of this FS.
func (fs *FS) read(path string, max int) ([]byte, error) {
	fd, err := openRetry(path)
	if err != nil {
		return nil, readError(path, err)
	}
	b, err := fs.slurp(fd, max)
	_ = unix.Close(fd) // read only: nothing to lose
	if err != nil {
		return nil, readError(path, err)
	}
	return b, nil
}

func openRetry(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// slurp preads fd from its beginning until it ends or max is reached. A /proc file's size is not known before (stat says
// 0), and a single read returns at most what the kernel's buffer holds, so it reads until nothing comes.
func (fs *FS) slurp(fd, max int) ([]byte, error) {
	n := 0
	for {
		if n == len(fs.buf) {
			if n >= max {
				return fs.buf[:max], nil
			}
			fs.buf = append(fs.buf, make([]byte, min(len(fs.buf), max-n))...)
		}
		m, err := preadRetry(fd, fs.buf[n:], int64(n))
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return fs.buf[:n], nil
		}
		n += m
	}
}

func preadRetry(fd int, b []byte, at int64) (int, error) {
	for {
		n, err := unix.Pread(fd, b, at)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (fs *FS) readlink(path string) (string, error) {
	n, err := unix.Readlink(path, fs.buf)
	if err != nil {
		return "", readError(path, err)
	}
	return string(fs.buf[:n]), nil
}
