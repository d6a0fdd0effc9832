package procfs

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// FDs is what one walk over a process's descriptors told.
type FDs struct {
	Count     int  // descriptors open; a lower bound when Truncated
	Truncated bool // there are more than were looked at
	Pipes     []string
	NVidia    []int32
	Files     []snapshot.OpenFile // without ID and At
}

// maxPipes bounds the pipes kept of a process.
const maxPipes = 64

// FDs walks at most max descriptors of a process, the lowest numbers first. Only names are read, and with files the
// kernel's own record of flags and position: no file is ever touched, since the file system below it may hang.
func (fs *FS) FDs(pid int32, max int, files bool) (FDs, error) {
	path := fs.PIDPath(pid, "fd")
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return FDs{}, readError(path, err)
	}
	defer func() { _ = unix.Close(dir) }()
	nums, err := fs.numbers(dir, path, listing{max: max + 1})
	if err != nil {
		return FDs{}, err
	}
	w := fdWalk{fs: fs, pid: pid, dir: dir, files: files, ways: map[string]uint8{}}
	if len(nums) > max {
		nums, w.out.Truncated = nums[:max], true
	}
	w.out.Count = len(nums)
	for _, n := range nums {
		if err := w.look(n); err != nil && !errors.Is(err, ErrGone) {
			return FDs{}, err
		}
	}
	return w.out, nil
}

type fdWalk struct {
	fs    *FS
	pid   int32
	dir   int
	files bool
	ways  map[string]uint8 // of a pipe: reads, writes
	out   FDs
}

func (w *fdWalk) look(fd int32) error {
	var buf [4096]byte
	name := strconv.Itoa(int(fd))
	n, err := unix.Readlinkat(w.dir, name, buf[:])
	if err != nil {
		return readError("fd", err)
	}
	link := buf[:n]
	switch {
	case bytes.HasPrefix(link, []byte("pipe:[")):
		return w.pipe(fd, string(link))
	case bytes.HasPrefix(link, []byte("/dev/nvidia")):
		if minor, err := strconv.ParseUint(string(link[len("/dev/nvidia"):]), 10, 16); err == nil {
			w.addMinor(int32(minor))
		}
	case w.files && mayBeFile(string(link)):
		return w.file(fd, string(link))
	}
	return nil
}

// pipe notes a pipe that is held for both reading and writing: what multiprocessing queues look like. The flags in fdinfo say
// which way a descriptor goes.
func (w *fdWalk) pipe(fd int32, link string) error {
	b, err := w.fs.once(w.pid, "fdinfo/"+strconv.Itoa(int(fd)))
	if err != nil {
		return err
	}
	f, err := ParseFDInfo(b)
	if err != nil {
		return err
	}
	way := uint8(reads | writes)
	switch f.Flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		way = reads
	case unix.O_WRONLY:
		way = writes
	}
	before := w.ways[link]
	w.ways[link] = before | way
	if before != reads|writes && before|way == reads|writes && len(w.out.Pipes) < maxPipes {
		w.out.Pipes = append(w.out.Pipes, link)
	}
	return nil
}

// The ways a pipe is held.
const (
	reads  = 1
	writes = 2
)

func (w *fdWalk) addMinor(minor int32) {
	for _, m := range w.out.NVidia {
		if m == minor {
			return
		}
	}
	w.out.NVidia = append(w.out.NVidia, minor)
}

// mayBeFile tells files and folders from what is never one, by the name.
func mayBeFile(link string) bool {
	if !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "/memfd:") {
		return false
	}
	if strings.HasPrefix(link, "/dev/") {
		return strings.HasPrefix(link, "/dev/shm/")
	}
	return !strings.HasPrefix(link, "/proc/") && !strings.HasPrefix(link, "/sys/")
}

func (w *fdWalk) file(fd int32, path string) error {
	b, err := w.fs.once(w.pid, "fdinfo/"+strconv.Itoa(int(fd)))
	if err != nil {
		return err
	}
	f, err := ParseFDInfo(b)
	if err != nil {
		return err
	}
	if f.Flags&unix.O_DIRECTORY != 0 || f.Flags&unix.O_PATH != 0 {
		return nil
	}
	f.FD, f.Path = fd, path
	w.out.Files = append(w.out.Files, f)
	return nil
}

// ParseFDInfo parses /proc/PID/fdinfo/FD into an OpenFile with position, flags and mount id.
func ParseFDInfo(b []byte) (snapshot.OpenFile, error) {
	var f snapshot.OpenFile
	found := false
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		text := string(bytes.TrimSpace(value))
		switch string(name) {
		case "pos":
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return f, malformed("fdinfo", "pos is no number")
			}
			f.Pos, found = n, true
		case "flags":
			n, err := strconv.ParseUint(text, 8, 32)
			if err != nil {
				return f, malformed("fdinfo", "flags are no octal number")
			}
			f.Flags = uint32(n)
		case "mnt_id":
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return f, malformed("fdinfo", "mnt_id is no number")
			}
			f.MountID = int32(n)
		}
	}
	if !found {
		return f, malformed("fdinfo", "no pos")
	}
	return f, nil
}
