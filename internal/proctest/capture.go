package proctest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
)

// Bounds of a capture: it is read by people.
const (
	maxCaptureFile = 64 << 10
	maxCaptureDir  = 256 // threads, or descriptors, of one process
)

// capturedFiles are taken as they are: none of them holds text of the user's but names.
var capturedFiles = []string{"stat", "io", "schedstat", "statm", "status", "cgroup", "wchan", "syscall"}

// Capture takes a process and its descendants out of the proc file system mounted at root. Command lines and environments are
// redacted. What cannot be read is left out, as it is for ptlaunch.
func Capture(root string, pid int32) (*Archive, error) {
	fs, err := procfs.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = fs.Close() }()
	parents := map[int32]int32{}
	pids, err := fs.PIDs(nil)
	if err != nil {
		return nil, err
	}
	for _, p := range pids {
		var st procfs.Stat
		if fs.Stat(p, &st) == nil {
			parents[p] = st.PPID
		}
	}
	if _, ok := parents[pid]; !ok {
		return nil, fmt.Errorf("capture process %d: %w", pid, procfs.ErrGone)
	}
	a := NewArchive()
	for _, p := range pids {
		if descends(parents, p, pid) {
			if err := a.capture(fs, p); err != nil && !errors.Is(err, procfs.ErrGone) {
				return nil, err
			}
		}
	}
	a.copyFile(root, "loadavg")
	return a, nil
}

func descends(parents map[int32]int32, pid, from int32) bool {
	for range len(parents) { // a bound: what was read one after the other may hold a cycle
		if pid == from {
			return true
		}
		next, ok := parents[pid]
		if !ok {
			return false
		}
		pid = next
	}
	return false
}

func (a *Archive) capture(fs *procfs.FS, pid int32) error {
	dir := strconv.Itoa(int(pid))
	for _, name := range capturedFiles {
		a.copyFile(fs.Root(), dir+"/"+name)
	}
	args, err := fs.Cmdline(pid)
	if err != nil {
		return err
	}
	a.Files[dir+"/cmdline"] = joinNUL(args)
	if env, err := fs.Environ(pid); err == nil {
		var pairs []string
		for _, name := range sorted(env) {
			pairs = append(pairs, name+"="+env[name])
		}
		a.Files[dir+"/environ"] = joinNUL(pairs)
	}
	a.copyLink(fs.Root(), dir+"/exe")
	a.copyLink(fs.Root(), dir+"/ns/net")
	for _, tid := range names(fs.Root(), dir+"/task") {
		for _, name := range [...]string{"stat", "io", "comm"} {
			a.copyFile(fs.Root(), dir+"/task/"+tid+"/"+name)
		}
	}
	for _, fd := range names(fs.Root(), dir+"/fd") {
		a.copyLink(fs.Root(), dir+"/fd/"+fd)
		a.copyFile(fs.Root(), dir+"/fdinfo/"+fd)
	}
	return nil
}

// names lists a folder, up to the bound of a capture; one that cannot be read is empty.
func names(root, dir string) []string {
	f, err := os.Open(filepath.Join(root, dir))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	found, _ := f.Readdirnames(maxCaptureDir) // what came before an error is good
	return found
}

func (a *Archive) copyFile(root, path string) {
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return
	}
	a.Files[path] = string(b[:min(len(b), maxCaptureFile)])
}

func (a *Archive) copyLink(root, path string) {
	target, err := os.Readlink(filepath.Join(root, path))
	if err != nil {
		return
	}
	a.Links[path] = strings.ToValidUTF8(target, "\uFFFD")
}
