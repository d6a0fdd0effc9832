package cgroupfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/sampler/psi"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Reader reads the control group of one process.
type Reader struct {
	procfs, sysfs string
	membership    *kernfile.File
	text          []byte // of the membership, when the folders were located
	groups        *Groups
	err           error
	files         map[string]*kernfile.File
	pressure      *psi.Reader
}

// New returns a reader of the group of process pid. The group is looked up at every Read: a job may be moved after its
// start. When the process is gone the last group stays, for the members that outlive it.
func New(procfs, sysfs string, pid int32) *Reader {
	return &Reader{
		procfs: procfs, sysfs: sysfs,
		membership: kernfile.New(filepath.Join(procfs, strconv.Itoa(int(pid)), "cgroup")),
		files:      map[string]*kernfile.File{},
	}
}

// Read fills s.Cgroup and appends the group's pressure. What is not there is nil, with a gap "cgroup", "cgroup.cpu",
// "cgroup.cpuset", "cgroup.memory" or "cgroup.io".
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	r.locate()
	if r.groups == nil {
		if r.err != nil {
			s.Gaps = append(s.Gaps, kernfile.Gap("cgroup", r.err))
		}
		return
	}
	g := r.groups
	c := &snapshot.Cgroup{Version: g.Version, Path: g.Path, At: now}
	gap := func(source string, err error) {
		if err != nil {
			s.Gaps = append(s.Gaps, kernfile.Gap(source, err))
		}
	}
	var err error
	c.CPU, err = r.cpu()
	gap("cgroup.cpu", err)
	c.Cpuset, err = r.cpuset()
	gap("cgroup.cpuset", err)
	c.Memory, err = r.memory()
	gap("cgroup.memory", err)
	c.IO, err = r.io()
	gap("cgroup.io", err)
	s.Cgroup = c
	if r.pressure != nil {
		r.pressure.Read(now, s)
	}
}

// Groups returns where the group is, nil before the first Read and when it could not be found.
func (r *Reader) Groups() *Groups { return r.groups }

// Close releases the files.
func (r *Reader) Close() error {
	_ = r.membership.Close()
	r.forget()
	return nil
}

// locate looks up the group, and its folders when it changed.
func (r *Reader) locate() {
	text, err := r.membership.Read()
	if err != nil {
		r.err = err
		return
	}
	if bytes.Equal(text, r.text) && r.groups != nil {
		return
	}
	mountinfo, err := kernfile.Read(filepath.Join(r.procfs, "self/mountinfo"))
	if err != nil {
		r.err = err
		return
	}
	groups, err := Locate(text, mountinfo, r.sysfs)
	if err != nil {
		r.err = err
		return
	}
	r.forget()
	r.text, r.groups, r.err = bytes.Clone(text), groups, nil
	// The real root of the tree has no cgroup.events. Its pressure is the machine's, which is no statement about the job.
	if u := groups.Unified; u != nil {
		if _, err := kernfile.Read(filepath.Join(u.Dir, "cgroup.events")); err == nil {
			r.pressure = psi.Cgroup(u.Dir)
		}
	}
}

func (r *Reader) forget() {
	for _, f := range r.files {
		_ = f.Close() // nothing was written
	}
	clear(r.files)
	if r.pressure != nil {
		_ = r.pressure.Close()
		r.pressure = nil
	}
}

// read reads a file of a group's folder. The descriptor is kept.
func (r *Reader) read(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	f := r.files[path]
	if f == nil {
		f = kernfile.New(path)
		r.files[path] = f
	}
	return f.Read()
}

// number reads a file that holds one number. set is false for "max" and for a negative number: no limit.
func (r *Reader) number(dir, name string) (n uint64, set bool, err error) {
	b, err := r.read(dir, name)
	if err != nil {
		return 0, false, err
	}
	text := bytes.TrimSpace(b)
	if string(text) == "max" || len(text) > 0 && text[0] == '-' {
		return 0, false, nil
	}
	n, ok := kernfile.Uint(text)
	if !ok {
		return 0, false, kernfile.Malformed(name, string(text))
	}
	return n, true, nil
}

// upward calls see for the group and each group above it, up to the top that can be seen.
func (f Folder) upward(see func(dir string) error) error {
	for dir := f.Dir; ; dir = filepath.Dir(dir) {
		if err := see(dir); err != nil {
			return err
		}
		if dir == f.Top || len(dir) <= len(f.Top) {
			return nil
		}
	}
}

// controller returns the folder that has a v1 controller, or the v2 folder where the controller is not a v1 one.
func (r *Reader) controller(v1 string) (folder Folder, unified bool, err error) {
	if f, ok := r.groups.Controllers[v1]; ok {
		return f, false, nil
	}
	if err := r.groups.Hidden[v1]; err != nil {
		return Folder{}, false, err
	}
	if r.groups.Unified != nil {
		return *r.groups.Unified, true, nil
	}
	if err := r.groups.Hidden["unified"]; err != nil {
		return Folder{}, false, err
	}
	return Folder{}, false, ErrNotMounted
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
