package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	// maxMounts bounds the mounts that are shown, and so the mailboxes and the threads that a hanging one can hold.
	maxMounts = 32
	// maxNamespaces bounds the tables that are kept.
	maxNamespaces = 16
	// reread is how old a table may get; rereadUnknown is the same when a file lies on a mount that is not in it.
	reread        = 30 * time.Second
	rereadUnknown = 5 * time.Second
)

// Reader knows the mounts that the job uses.
type Reader struct {
	procfs     string
	topology   blockdev.Topology
	own        table // this process's
	ownAt      time.Duration
	namespaces map[string]*namespace
	of         map[snapshot.ProcID]string // the key of a process's namespace
	used       map[int32]*use
	boxes      map[int32]*box
}

type namespace struct {
	table table
	at    time.Duration
	pid   int32 // a live member, 0 when there is none
}

// use is a mount in use.
type use struct {
	namespace string
	mount     mount
	device    string
	last      time.Duration
}

// New returns a reader of the mount tables below procfs.
func New(procfs string, topology blockdev.Topology) *Reader {
	return &Reader{
		procfs: procfs, topology: topology,
		namespaces: map[string]*namespace{}, of: map[snapshot.ProcID]string{}, used: map[int32]*use{}, boxes: map[int32]*box{},
	}
}

// Read fills s.Mounts with the mounts that s.Files lie on, or once lay on, and those that hold /dev/shm. Gaps: "mounts" for a
// table that cannot be read, "mounts.space" for a mount that does not tell its room.
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	r.refreshOwn(now, s)
	r.members(s)
	if len(s.Procs) > 0 {
		r.shm(now, s.Procs[0].ID, s)
	}
	seen := map[snapshot.ProcID]bool{}
	for i := range s.Files {
		f := &s.Files[i]
		r.file(now, f, s)
		if !seen[f.ID] {
			seen[f.ID] = true
			r.shm(now, f.ID, s)
		}
	}
	r.prune()
	r.publish(now, s)
}

// Close ends the mailboxes. It waits for those that hang until their deadline, all at the same time.
func (r *Reader) Close() error {
	errs := make([]error, len(r.boxes))
	var wait sync.WaitGroup
	i := 0
	for _, b := range r.boxes {
		slot := &errs[i]
		i++
		wait.Go(func() { *slot = b.Close() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (r *Reader) refreshOwn(now time.Duration, s *snapshot.Snapshot) {
	if r.own != nil && now-r.ownAt < reread {
		return
	}
	own, err := readTable(r.procfs, 0)
	if err != nil {
		s.Gaps = append(s.Gaps, kernfile.Gap("mounts", err))
		return
	}
	r.own, r.ownAt = own, now
}

// members forgets processes that ended, and gives each namespace a living one.
func (r *Reader) members(s *snapshot.Snapshot) {
	live := make(map[snapshot.ProcID]bool, len(s.Procs))
	for i := range s.Procs {
		live[s.Procs[i].ID] = true
	}
	for _, ns := range r.namespaces {
		ns.pid = 0
	}
	for id, key := range r.of {
		if !live[id] {
			delete(r.of, id)
		} else if ns := r.namespaces[key]; ns != nil {
			ns.pid = id.PID
		}
	}
}

// namespaceOf returns the namespace of a process, nil when there are too many.
func (r *Reader) namespaceOf(id snapshot.ProcID) (string, *namespace) {
	key, ok := r.of[id]
	if !ok {
		pid := strconv.Itoa(int(id.PID))
		link, err := os.Readlink(filepath.Join(r.procfs, pid, "ns/mnt"))
		if err != nil {
			// Another user's process: the link is hidden, the table is not.
			link = "pid:" + pid
		}
		key = link
		r.of[id] = key
	}
	ns := r.namespaces[key]
	if ns == nil {
		if len(r.namespaces) >= maxNamespaces {
			return key, nil
		}
		ns = &namespace{}
		r.namespaces[key] = ns
	}
	if ns.pid == 0 {
		ns.pid = id.PID
	}
	return key, ns
}

// load reads a namespace's table when it is older than age.
func (r *Reader) load(now, age time.Duration, ns *namespace, s *snapshot.Snapshot) {
	if ns.at != 0 && now-ns.at < age {
		return
	}
	ns.at = max(now, 1)
	t, err := readTable(r.procfs, ns.pid)
	if err != nil {
		s.Gaps = append(s.Gaps, kernfile.Gap("mounts", err))
		return
	}
	ns.table = t
}

func (r *Reader) file(now time.Duration, f *snapshot.OpenFile, s *snapshot.Snapshot) {
	if f.MountID <= 0 {
		return
	}
	key, ns := r.namespaceOf(f.ID)
	if ns == nil {
		return
	}
	r.load(now, reread, ns, s)
	m, ok := ns.table.byID(f.MountID)
	if !ok {
		// Mounted since, or a descriptor that came from another namespace.
		r.load(now, rereadUnknown, ns, s)
		if m, ok = ns.table.byID(f.MountID); !ok {
			m, ok = r.own.byID(f.MountID)
		}
	}
	if ok {
		r.use(now, key, m)
	}
}

func (r *Reader) shm(now time.Duration, id snapshot.ProcID, s *snapshot.Snapshot) {
	key, ns := r.namespaceOf(id)
	if ns == nil {
		return
	}
	r.load(now, reread, ns, s)
	if m, ok := ns.table.holding("/dev/shm"); ok {
		r.use(now, key, m)
	}
}

func (r *Reader) use(now time.Duration, key string, m mount) {
	u := r.used[m.id]
	if u == nil || u.mount != m {
		u = &use{mount: m, device: resolver{r.topology, r.own}.device(m, 0)}
		r.used[m.id] = u
	}
	u.namespace, u.last = key, now
}

// prune drops mounts whose namespace is gone, then the ones not used for longest. A mailbox that hangs is kept: its thread
// cannot be had back, and must not be doubled.
func (r *Reader) prune() {
	for key, ns := range r.namespaces {
		if ns.pid == 0 {
			delete(r.namespaces, key)
		}
	}
	for id, u := range r.used {
		if _, ok := r.own.byID(id); !ok && r.namespaces[u.namespace] == nil {
			r.drop(id)
		}
	}
	for len(r.used) > maxMounts {
		var oldest int32
		for id, u := range r.used {
			if o := r.used[oldest]; o == nil || u.last < o.last || u.last == o.last && id < oldest {
				oldest = id
			}
		}
		r.drop(oldest)
	}
}

func (r *Reader) drop(id int32) {
	delete(r.used, id)
	if b := r.boxes[id]; b != nil && b.Reading().Waiting == 0 {
		delete(r.boxes, id)
		_ = b.Close() // idle: returns at once
	}
}

func (r *Reader) publish(now time.Duration, s *snapshot.Snapshot) {
	mounts := make([]snapshot.Mount, 0, len(r.used))
	for id, u := range r.used {
		m := snapshot.Mount{
			ID: id, Mountpoint: u.mount.mountpoint, FSType: u.mount.fstype, Source: u.mount.source,
			Device: u.device, Remote: remote(u.mount.fstype), At: now,
		}
		m.Space = r.space(now, u, s)
		mounts = append(mounts, m)
	}
	slices.SortFunc(mounts, func(a, b snapshot.Mount) int { return cmp.Compare(a.ID, b.ID) })
	s.Mounts = mounts
}

// space asks for a mount's room and returns what is known.
func (r *Reader) space(now time.Duration, u *use, s *snapshot.Snapshot) *snapshot.Space {
	id := u.mount.id
	path := u.mount.mountpoint
	if _, ok := r.own.byID(id); !ok {
		ns := r.namespaces[u.namespace]
		if ns == nil {
			return nil
		}
		path = filepath.Join(r.procfs, strconv.Itoa(int(ns.pid)), "root", path)
	}
	b := r.boxes[id]
	if b == nil {
		if len(r.boxes) >= 2*maxMounts {
			return nil // as many as that hang already
		}
		b = newBox(id)
		r.boxes[id] = b
	}
	beat := time.Duration(0)
	if remote(u.mount.fstype) {
		beat = remoteBeat
	}
	reading := b.Reading() // of the last call, before the next one is asked for
	b.ask(now, path, beat)
	switch {
	case reading.Stale:
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "mounts.space", Reason: snapshot.GapTimeout,
			Detail: fmt.Sprintf("%s (%s) has not answered statfs for %.0f s", u.mount.mountpoint, u.mount.fstype, reading.Waiting.Seconds())})
		return nil
	case reading.Err != nil:
		s.Gaps = append(s.Gaps, kernfile.Gap("mounts.space", reading.Err))
		return nil
	case !reading.OK:
		return nil
	}
	space := reading.Value
	return &space
}
