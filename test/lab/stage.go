package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/nvmltest"
)

// stage is the environment of one scenario, and how to take it down again.
type stage struct {
	python string
	jobs   string // folder of the jobs' sources
	dir    string // scratch folder, removed at the end
	slow   string // mount point of the slow file system, "" without one
	groups []string
	shm    int64
	env    []string
	undo   []func() error
}

// setUp builds the environment below a fresh scratch folder. The error of a half-built one comes after it was taken down.
func setUp(s Scenario, python, jobs string) (*stage, error) {
	dir, err := os.MkdirTemp("", "ptlab-")
	if err != nil {
		return nil, err
	}
	st := &stage{python: python, jobs: jobs, dir: dir, shm: s.Env.ShmBytes}
	st.onClose(func() error { return os.RemoveAll(dir) })
	if err := st.build(s.Env); err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %v", s.Name, err), st.close())
	}
	return st, nil
}

func (st *stage) onClose(f func() error) { st.undo = append(st.undo, f) }

// close undoes everything, last first, and goes on past failures.
func (st *stage) close() error {
	var errs []error
	for i := len(st.undo) - 1; i >= 0; i-- {
		errs = append(errs, st.undo[i]())
	}
	st.undo = nil
	return errors.Join(errs...)
}

func (st *stage) path(name string) string { return filepath.Join(st.dir, name) }

func (st *stage) build(e Env) error {
	for _, name := range []string{"truth", "scratch", "lower", "runs"} {
		if err := os.Mkdir(st.path(name), 0o755); err != nil {
			return err
		}
	}
	st.env = append(os.Environ(), "LAB_TRUTH="+st.path("truth"), "LAB_DIR="+st.path("scratch"), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	switch e.Slow {
	case SlowFUSE:
		if err := st.fuse(); err != nil {
			return err
		}
	case SlowDisk:
		if err := st.loopDisk(e.DiskBPS); err != nil {
			return err
		}
	}
	st.env = append(st.env, "LAB_SLOW="+st.slow)
	if e.CPUQuota > 0 {
		const period = 100_000
		err := st.cgroup("cpu", [][2]string{
			{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(int(e.CPUQuota * period))},
		})
		if err != nil {
			return err
		}
	}
	if e.MemoryLimit > 0 {
		if err := st.cgroup("memory", [][2]string{{"memory.limit_in_bytes", strconv.FormatInt(e.MemoryLimit, 10)}}); err != nil {
			return err
		}
	}
	if e.GPUs != "" {
		if err := st.gpus(e.GPUs); err != nil {
			return err
		}
	}
	if e.FeedBPS > 0 {
		return st.feed(e.FeedBPS)
	}
	return nil
}

// cgroup makes a cgroup v1 group that the job will run in.
func (st *stage) cgroup(controller string, settings [][2]string) error {
	group := filepath.Join("/sys/fs/cgroup", controller, filepath.Base(st.dir))
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %v", err)
	}
	st.onClose(func() error {
		// A group can be removed once the last of its processes is reaped, which for orphans takes init a moment.
		var err error
		for range 100 {
			if err = os.Remove(group); err == nil {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
		}
		return err
	})
	for _, kv := range settings {
		if err := os.WriteFile(filepath.Join(group, kv[0]), []byte(kv[1]), 0o644); err != nil {
			return fmt.Errorf("set %s: %v", kv[0], err)
		}
	}
	st.groups = append(st.groups, group)
	return nil
}

// loopDisk mounts an ext4 of its own on a loop device. Reads, direct writes and syncs of the job are limited to bps; what
// the kernel's flusher writes back later is not.
func (st *stage) loopDisk(bps int64) error {
	image, mount := st.path("disk.img"), st.path("slow")
	if err := os.Mkdir(mount, 0o755); err != nil {
		return err
	}
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(1<<30), f.Close())
	if err != nil {
		return err
	}
	device, err := output("losetup", "--direct-io=on", "--find", "--show", image)
	if err != nil {
		return err
	}
	st.onClose(func() error { return run("losetup", "--detach", device) })
	if err := run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device); err != nil {
		return err
	}
	if err := run("mount", device, mount); err != nil {
		return err
	}
	st.onClose(func() error { return unmount(mount) })
	st.slow = mount
	numbers, err := os.ReadFile(filepath.Join("/sys/class/block", filepath.Base(device), "dev"))
	if err != nil {
		return err
	}
	limit := fmt.Sprintf("%s %d", strings.TrimSpace(string(numbers)), bps)
	return st.cgroup("blkio", [][2]string{{"blkio.throttle.read_bps_device", limit}, {"blkio.throttle.write_bps_device", limit}})
}

// fuse mounts the pass-through file system with slow opens. Its daemon runs outside the job.
func (st *stage) fuse() error {
	mount := st.path("slow")
	if err := os.Mkdir(mount, 0o755); err != nil {
		return err
	}
	daemon := exec.Command(st.python, filepath.Join(st.jobs, "slowfs.py"), st.path("lower"), mount)
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		return err
	}
	st.onClose(func() error {
		err := unmount(mount)
		daemon.Process.Signal(syscall.SIGTERM) // already gone after a good unmount
		daemon.Wait()
		return err
	})
	st.slow = mount
	for range 300 {
		if mounted(mount) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("mount %s: the FUSE daemon did not come up (Debian: python3-fusepy, libfuse2)", mount)
}

// gpus puts a fake NVML library where the loader finds it first. The job's PyTorch does not look for one.
func (st *stage) gpus(lines string) error {
	if _, err := nvmltest.Build(st.dir); err != nil {
		return err
	}
	file := st.path("gpus")
	st.env = append(st.env, "LD_LIBRARY_PATH="+st.dir, nvmltest.EnvScenario+"="+file)
	return os.WriteFile(file, []byte(lines), 0o644)
}

// feed starts the slow server.
func (st *stage) feed(bps int64) error {
	server := exec.Command(st.python, filepath.Join(st.jobs, "feed.py"), strconv.FormatInt(bps, 10))
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	st.onClose(func() error {
		server.Process.Kill()
		server.Wait()
		return nil
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	st.env = append(st.env, "LAB_PORT="+strings.TrimSpace(port))
	return err
}

// inside wraps a command so that it runs in the stage's cgroups and /dev/shm. exec keeps the pid and the status.
func (st *stage) inside(argv []string) []string {
	var script strings.Builder
	for _, g := range st.groups {
		fmt.Fprintf(&script, "echo $$ > %s/cgroup.procs || exit 99; ", g)
	}
	if st.shm > 0 {
		fmt.Fprintf(&script, "mount -t tmpfs -o size=%d lab /dev/shm || exit 99; ", st.shm)
	}
	if script.Len() == 0 {
		return argv
	}
	wrapped := append([]string{"/bin/sh", "-c", script.String() + `exec "$@"`, "sh"}, argv...)
	if st.shm > 0 {
		wrapped = append([]string{"unshare", "--mount"}, wrapped...)
	}
	return wrapped
}

func mounted(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(mounts), " "+path+" ")
}

// unmount waits for the last user to go, and detaches a mount that is held for good.
func unmount(path string) error {
	for range 50 {
		if !mounted(path) || syscall.Unmount(path, 0) == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return syscall.Unmount(path, syscall.MNT_DETACH)
}

func run(name string, args ...string) error {
	_, err := output(name, args...)
	return err
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %v: %s", name, err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
