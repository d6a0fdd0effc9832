package procfs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// PIDs appends the pid of every process in the file system to pids, in the kernel's order, which is ascending. It opens
// nothing: the listing is one getdents per some 1000 entries on the kept descriptor.
func (fs *FS) PIDs(pids []int32) ([]int32, error) {
	if _, err := unix.Seek(fs.dir, 0, 0); err != nil {
		return pids, readError(fs.root, err)
	}
	return fs.numbers(fs.dir, fs.root, listing{into: pids})
}

// listing is what numbers appends to and when it stops.
type listing struct {
	into []int32
	max  int // 0: no limit
}

// numbers appends the entries of an open folder whose names are numbers.
func (fs *FS) numbers(fd int, path string, l listing) ([]int32, error) {
	for {
		n, err := unix.Getdents(fd, fs.ents)
		if err != nil {
			return l.into, readError(path, err)
		}
		if n == 0 {
			return l.into, nil
		}
		l.into = parseDirents(fs.ents[:n], l.into)
		if l.max > 0 && len(l.into) >= l.max {
			return l.into[:l.max], nil
		}
	}
}

// list appends the numeric entries of a folder, at most max (0: no limit).
func (fs *FS) list(path string, l listing) ([]int32, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return l.into, readError(path, err)
	}
	into, err := fs.numbers(fd, path, l)
	_ = unix.Close(fd)
	return into, err
}

// parseDirents picks the numbers out of a buffer of struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name.
func parseDirents(b []byte, into []int32) []int32 {
	const header = 19
	for len(b) > header {
		reclen := int(binary.NativeEndian.Uint16(b[16:]))
		if reclen <= header || reclen > len(b) {
			return into // not what a kernel writes
		}
		if n, ok := parsePIDName(b[header:reclen]); ok {
			into = append(into, n)
		}
		b = b[reclen:]
	}
	return into
}

// parsePIDName parses a NUL-terminated decimal number.
func parsePIDName(b []byte) (int32, bool) {
	n := int64(0)
	for i, c := range b {
		if c == 0 {
			return int32(n), i > 0
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > 1<<31-1 {
			return 0, false
		}
	}
	return 0, false
}
