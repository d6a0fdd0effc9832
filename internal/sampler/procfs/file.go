package procfs

import (
	"golang.org/x/sys/unix"
)

// File is a kept descriptor of a small file of one process. The zero File is closed. Each one costs the kernel about 5 KB,
// charged to our memory cgroup.
type File struct {
	fd int // descriptor + 1, so that the zero value is closed
}

// OpenFile opens a file of a process for repeated reading.
func (fs *FS) OpenFile(pid int32, file string) (File, error) {
	path := fs.PIDPath(pid, file)
	fd, err := openRetry(path)
	if err != nil {
		return File{}, readError(path, err)
	}
	return File{fd: fd + 1}, nil
}

// IsOpen reports whether f holds a descriptor.
func (f File) IsOpen() bool { return f.fd > 0 }

// Close releases the descriptor.
func (f *File) Close() {
	if f.fd > 0 {
		_ = unix.Close(f.fd - 1)
		f.fd = 0
	}
}

// pread reads a kept file from its beginning with one system call. Files of the hot set are generated in one piece and are
// far smaller than the buffer. The result is valid until the next read of fs. name is for the error.
//
// An empty answer is a process that is gone: some files (wchan, children) of a reaped process are empty instead of failing.
func (fs *FS) pread(f File, name string) ([]byte, error) {
	n, err := preadRetry(f.fd-1, fs.buf, 0)
	if err != nil {
		return nil, readError(name, err)
	}
	if n == 0 {
		return nil, readError(name, unix.ESRCH)
	}
	return fs.buf[:n], nil
}
