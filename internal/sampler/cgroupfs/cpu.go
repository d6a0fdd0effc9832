package cgroupfs

import (
	"bytes"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// cpu reads bandwidth and use. Where an ancestor is the tightest, its cpu.stat is read: the kernel counts throttling in the
// group that has the quota, and a group below it shows zeros although it stands still.
func (r *Reader) cpu() (*snapshot.CgroupCPU, error) {
	f, unified, err := r.controller("cpu")
	if err != nil {
		return nil, err
	}
	c := &snapshot.CgroupCPU{File: filepath.Join(f.Dir, "cpu.stat")}
	holder := f.Dir
	err = f.upward(func(dir string) error {
		limit, file, err := r.quota(dir, unified)
		if err != nil || limit == nil {
			return err
		}
		if c.Limit == nil || *limit < *c.Limit {
			c.Limit, c.File, holder = limit, filepath.Join(dir, file), dir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := r.read(holder, "cpu.stat")
	if err != nil {
		return nil, err
	}
	if err := ParseCPUStat(b, c); err != nil {
		return nil, err
	}
	return c, r.cpuUsage(f, holder, c)
}

// cpuUsage reads the CPU time of the group itself.
func (r *Reader) cpuUsage(f Folder, holder string, c *snapshot.CgroupCPU) error {
	if acct, ok := r.groups.Controllers["cpuacct"]; ok {
		ns, _, err := r.number(acct.Dir, "cpuacct.usage")
		if err != nil {
			return nil // the use is optional: limits and throttling are what is asked for
		}
		u := time.Duration(min(ns, 1<<63-1))
		c.Usage = &u
		return nil
	}
	if holder == f.Dir {
		return nil
	}
	c.Usage = nil
	b, err := r.read(f.Dir, "cpu.stat")
	if err != nil {
		return err
	}
	var own snapshot.CgroupCPU
	if err := ParseCPUStat(b, &own); err != nil {
		return err
	}
	c.Usage = own.Usage
	return nil
}

// quota reads the limit of one group in CPUs, nil for none. The root group has no such file.
func (r *Reader) quota(dir string, unified bool) (limit *float64, file string, err error) {
	if unified {
		b, err := r.read(dir, "cpu.max")
		if absent(err) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		limit, err := ParseCPUMax(b)
		return limit, "cpu.max", err
	}
	quota, set, err := r.number(dir, "cpu.cfs_quota_us")
	if absent(err) || err == nil && !set {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	period, _, err := r.number(dir, "cpu.cfs_period_us")
	if err != nil {
		return nil, "", err
	}
	if period == 0 {
		return nil, "", kernfile.Malformed("cpu.cfs_period_us", "0")
	}
	cpus := float64(quota) / float64(period)
	return &cpus, "cpu.cfs_quota_us", nil
}

// ParseCPUMax reads "200000 100000" or "max 100000": quota and period in microseconds. It returns CPUs, nil for no limit.
func ParseCPUMax(b []byte) (*float64, error) {
	line, _ := kernfile.Line(b)
	q, rest := kernfile.Field(line)
	if string(q) == "max" {
		return nil, nil
	}
	quota, ok1 := kernfile.Uint(q)
	period, _, ok2 := kernfile.UintField(rest)
	if !ok1 || !ok2 || period == 0 {
		return nil, kernfile.Malformed("cpu.max", string(line))
	}
	cpus := float64(quota) / float64(period)
	return &cpus, nil
}

// ParseCPUStat reads cpu.stat of v2 (microseconds) and of v1 (throttled_time, nanoseconds). The v2 file of a group without
// the controller has usage alone.
func ParseCPUStat(b []byte, c *snapshot.CgroupCPU) error {
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		name, rest := kernfile.Field(line)
		if len(name) == 0 {
			continue
		}
		n, _, ok := kernfile.UintField(rest)
		if !ok {
			return kernfile.Malformed("cpu.stat", string(line))
		}
		switch string(name) {
		case "nr_periods":
			c.Periods = n
		case "nr_throttled":
			c.Throttled = n
		case "throttled_usec":
			c.ThrottledTime = microseconds(n)
		case "throttled_time":
			c.ThrottledTime = time.Duration(min(n, 1<<63-1))
		case "usage_usec":
			u := microseconds(n)
			c.Usage = &u
		}
	}
	return nil
}

func microseconds(n uint64) time.Duration {
	return time.Duration(min(n, (1<<63-1)/1000)) * time.Microsecond
}

// cpuset reads the CPUs that the group may use: its own, or those of the nearest group above that has the controller.
func (r *Reader) cpuset() (*snapshot.CgroupCpuset, error) {
	f, unified, err := r.controller("cpuset")
	if err != nil {
		return nil, err
	}
	names := []string{"cpuset.effective_cpus", "cpuset.cpus"} // v1; the first since 3.17, and with every mount
	if unified {
		names = []string{"cpuset.cpus.effective"}
	}
	var set *snapshot.CgroupCpuset
	err = f.upward(func(dir string) error {
		for _, name := range names {
			if set != nil {
				return nil
			}
			b, err := r.read(dir, name)
			if absent(err) {
				continue
			}
			if err != nil {
				return err
			}
			list := bytes.TrimSpace(b)
			n, err := CountList(list)
			if err != nil {
				return err
			}
			if n > 0 {
				set = &snapshot.CgroupCpuset{File: filepath.Join(dir, name), CPUs: n, List: string(list)}
			}
		}
		return nil
	})
	if err == nil && set == nil {
		err = ErrNoController
	}
	return set, err
}

// CountList counts the CPUs of a list such as "0-3,8,10-11".
func CountList(b []byte) (int32, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return 0, nil
	}
	var total uint64
	for part := range bytes.SplitSeq(b, []byte(",")) {
		lo, hi, isRange := bytes.Cut(part, []byte("-"))
		first, ok := kernfile.Uint(lo)
		last := first
		if isRange && ok {
			last, ok = kernfile.Uint(hi)
		}
		const most = 1 << 20
		if !ok || last < first || last >= most {
			return 0, kernfile.Malformed("CPU list", string(b))
		}
		if total += last - first + 1; total > most {
			return 0, kernfile.Malformed("CPU list", string(b))
		}
	}
	return int32(total), nil
}
