package procfs

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// WChan is the kernel function in which a process's main thread sleeps, "" when it runs or when we may not know. Symbol
// suffixes that compilers add (.isra.0, .constprop.0) are cut off.
func (fs *FS) WChan(pid int32) (string, error) {
	b, err := fs.once(pid, "wchan")
	if err != nil {
		return "", err
	}
	return ParseWChan(b), nil
}

// ReadWChan reads a kept wchan file.
func (fs *FS) ReadWChan(f File) (string, error) {
	b, err := fs.pread(f, "wchan")
	if err != nil {
		return "", err
	}
	return ParseWChan(b), nil
}

// ParseWChan parses /proc/PID/wchan.
func ParseWChan(b []byte) string {
	s := string(bytes.TrimSpace(b))
	if s == "0" {
		return ""
	}
	s, _, _ = strings.Cut(s, ".")
	return s
}

// Syscall reads what system call a process's main thread is blocked in. It needs ptrace attach rights.
func (fs *FS) Syscall(pid int32) (snapshot.Syscall, error) {
	b, err := fs.once(pid, "syscall")
	if err != nil {
		return snapshot.Syscall{}, err
	}
	return ParseSyscall(b)
}

// ReadSyscall reads a kept syscall file. Like io, it asks for the rights at each read.
func (fs *FS) ReadSyscall(f File) (snapshot.Syscall, error) {
	b, err := fs.pread(f, "syscall")
	if err != nil {
		return snapshot.Syscall{}, err
	}
	return ParseSyscall(b)
}

// ParseSyscall parses /proc/PID/syscall: "running", "-1 sp pc" or "nr a0 … a5 sp pc".
func ParseSyscall(b []byte) (snapshot.Syscall, error) {
	f := strings.Fields(string(b))
	if len(f) == 1 && f[0] == "running" {
		return snapshot.Syscall{Running: true, Nr: -1}, nil
	}
	if len(f) == 0 {
		return snapshot.Syscall{}, malformed("syscall", "empty")
	}
	nr, err := strconv.ParseInt(f[0], 10, 32)
	if err != nil {
		return snapshot.Syscall{}, malformed("syscall", "number is none")
	}
	s := snapshot.Syscall{Nr: int32(nr)}
	if nr < 0 {
		return s, nil
	}
	if len(f) < 7 {
		return s, malformed("syscall", "arguments are missing")
	}
	for i := range s.Args {
		if s.Args[i], err = strconv.ParseUint(f[i+1], 0, 64); err != nil {
			return s, malformed("syscall", "argument is no number")
		}
	}
	return s, nil
}

// IsPollOfOne reports a poll of a single descriptor, for which PollTarget can say what it is.
func IsPollOfOne(s *snapshot.Syscall) bool {
	if s.Running || s.Args[1] != 1 {
		return false
	}
	switch runtime.GOARCH {
	case "amd64":
		return s.Nr == 7 || s.Nr == 271 // poll, ppoll
	case "arm64":
		return s.Nr == 73 // ppoll: there is no poll
	}
	return false
}

// PollTarget says what the descriptor is that a process polls, as its fd link shows it. s must be a poll of one. It reads the
// target's struct pollfd out of its memory; see Cmdline about waiting.
func (fs *FS) PollTarget(pid int32, s *snapshot.Syscall) (string, error) {
	path := fs.PIDPath(pid, "mem")
	fd, err := openRetry(path)
	if err != nil {
		return "", readError(path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var pollfd [8]byte
	if n, err := preadRetry(fd, pollfd[:], int64(s.Args[0])); err != nil || n < 4 {
		if err == nil {
			err = unix.ESRCH
		}
		return "", readError(path, err)
	}
	target := int32(binary.NativeEndian.Uint32(pollfd[:]))
	return fs.readlink(fs.PIDPath(pid, "fd/"+strconv.Itoa(int(target))))
}
