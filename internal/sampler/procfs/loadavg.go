package procfs

import "bytes"

// ParseLastPID returns the last field of /proc/loadavg: the pid (or thread id) that was given out last in the reader's own
// pid namespace. As long as it stands still, nothing was forked there.
func ParseLastPID(b []byte) (int32, error) {
	b = bytes.TrimRight(b, "\n")
	p := scanner{b: b[bytes.LastIndexByte(b, ' ')+1:]}
	n := p.uint()
	if p.bad || len(p.b) > 0 || n > 1<<31-1 {
		return 0, malformed("loadavg", "last field is no pid")
	}
	return int32(n), nil
}

// ReadLastPID reads a kept /proc/loadavg. See ParseLastPID.
func (fs *FS) ReadLastPID(f File) (int32, error) {
	b, err := fs.pread(f, "loadavg")
	if err != nil {
		return 0, err
	}
	return ParseLastPID(b)
}

// OpenHost opens a file of the machine, not of a process, for repeated reading.
func (fs *FS) OpenHost(file string) (File, error) {
	path := fs.root + "/" + file
	fd, err := openRetry(path)
	if err != nil {
		return File{}, readError(path, err)
	}
	return File{fd: fd + 1}, nil
}
