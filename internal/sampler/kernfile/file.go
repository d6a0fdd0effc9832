package kernfile

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// MaxSize is how much of a file is read at most. The kernel files that are read here are far below it on the largest
// machines; what is above it is cut, at a line's end.
const MaxSize = 4 << 20

// File is a kernel file that is read again and again. It is opened at the first Read and kept: opening costs twice what
// reading does. The zero value is not usable.
type File struct {
	path string
	fd   int
	buf  []byte
}

// New returns the file at path. Nothing is opened yet.
func New(path string) *File { return &File{path: path, fd: -1} }

// Path returns the path as given to New.
func (f *File) Path() string { return f.path }

// Read returns the file's content now. It is valid until the next Read. A file that was removed and made again since the
// last time (a cgroup of the same name, a device that came back) is opened again.
func (f *File) Read() ([]byte, error) {
	kept := f.fd >= 0
	b, err := f.read()
	if err != nil && kept {
		// ENODEV: the cgroup or device behind the descriptor is gone. There may be a new one under the same name.
		b, err = f.read()
	}
	return b, err
}

// Close releases the descriptor. The file may be read again afterwards.
func (f *File) Close() error {
	if f.fd < 0 {
		return nil
	}
	fd := f.fd
	f.fd = -1
	return unix.Close(fd)
}

func (f *File) read() ([]byte, error) {
	if f.fd < 0 {
		fd, err := openRetry(f.path)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
		}
		f.fd = fd
	}
	if f.buf == nil {
		f.buf = make([]byte, 4096)
	}
	n := 0
	for {
		m, err := unix.Pread(f.fd, f.buf[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			_ = f.Close() // the error of the read is the one that matters
			return nil, &fs.PathError{Op: "read", Path: f.path, Err: err}
		}
		n += m
		switch {
		case m == 0:
			return f.buf[:n], nil
		case n < len(f.buf):
			// A short read is not the end: seq_file hands out whole records.
		case n >= MaxSize:
			return cutAtLine(f.buf[:n]), nil
		default:
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
	}
}

// Read reads a file once: for what is looked at rarely.
func Read(path string) ([]byte, error) {
	f := New(path)
	b, err := f.Read()
	if cerr := f.Close(); err == nil && cerr != nil {
		return nil, fmt.Errorf("close %s: %w", path, cerr)
	}
	return b, err
}

func openRetry(path string) (int, error) {
	for {
		// O_NONBLOCK: a fifo or a device in the place of the expected file must not hold the caller.
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func cutAtLine(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			return b[:i+1]
		}
	}
	return b
}
