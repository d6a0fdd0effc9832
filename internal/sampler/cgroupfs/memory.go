package cgroupfs

import (
	"path/filepath"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// unlimited is where v1 stops meaning a limit: it writes "none" as the largest number of pages, 2^63 rounded down.
const unlimited = 1 << 62

// memory reads limit, usage and events. Usage is that of the group whose limit is the tightest: near the limit is near
// *its* limit. Events are the group's own, since only those tell that one of the job's processes was killed.
func (r *Reader) memory() (*snapshot.CgroupMemory, error) {
	f, unified, err := r.controller("memory")
	if err != nil {
		return nil, err
	}
	n := memoryNames{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	if unified {
		n = memoryNames{"memory.max", "memory.current", "inactive_file"}
	}
	m := &snapshot.CgroupMemory{File: filepath.Join(f.Dir, n.usage)}
	holder := f.Dir
	err = f.upward(func(dir string) error {
		limit, set, err := r.number(dir, n.limit)
		if absent(err) {
			return nil // the root group, or one without the controller
		}
		if err != nil {
			return err
		}
		if set && limit < unlimited && (m.Limit == nil || limit < *m.Limit) {
			m.Limit, m.File, holder = &limit, filepath.Join(dir, n.limit), dir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.Usage, _, err = r.number(holder, n.usage); err != nil {
		return nil, err // without the controller there is no figure at all
	}
	if m.Limit != nil {
		// Reading memory.stat makes the kernel sum per-CPU counters: only where there is a limit to compare with.
		if b, err := r.read(holder, "memory.stat"); err == nil {
			m.InactiveFile = statValue(b, n.inactive)
		}
	}
	m.Events, err = r.memoryEvents(f.Dir, unified)
	return m, err
}

type memoryNames struct{ limit, usage, inactive string }

func (r *Reader) memoryEvents(dir string, unified bool) (map[string]uint64, error) {
	if unified {
		b, err := r.read(dir, "memory.events")
		if absent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return ParseEvents(b)
	}
	events := map[string]uint64{}
	// oom_control has oom_kill since Linux 4.13; oom_kill_disable and under_oom beside it are states, not counters.
	b, err := r.read(dir, "memory.oom_control")
	if err != nil && !absent(err) {
		return nil, err
	}
	if n := statValue(b, "oom_kill"); err == nil && n != nil {
		events["oom_kill"] = *n
	}
	n, _, err := r.number(dir, "memory.failcnt")
	if err != nil && !absent(err) {
		return nil, err
	}
	if err == nil {
		events["failcnt"] = n
	}
	return events, nil
}

// ParseEvents reads a flat file of names and counters, such as memory.events.
func ParseEvents(b []byte) (map[string]uint64, error) {
	events := map[string]uint64{}
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		name, rest := kernfile.Field(line)
		if len(name) == 0 {
			continue
		}
		n, _, ok := kernfile.UintField(rest)
		if !ok {
			return nil, kernfile.Malformed("events", string(line))
		}
		events[string(name)] = n
	}
	return events, nil
}

// statValue returns one value of a flat file, nil when it is not there.
func statValue(b []byte, want string) *uint64 {
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		name, rest := kernfile.Field(line)
		if string(name) != want {
			continue
		}
		if n, _, ok := kernfile.UintField(rest); ok {
			return &n
		}
		return nil
	}
	return nil
}
