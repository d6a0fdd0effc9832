package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
	"github.com/ptlaunch/ptlaunch/internal/sampler/cgroupfs"
	"github.com/ptlaunch/ptlaunch/internal/sampler/latest"
	"github.com/ptlaunch/ptlaunch/internal/sampler/mounts"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
	"github.com/ptlaunch/ptlaunch/internal/sampler/psi"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func (e *exam) devices() Source {
	s := Source{Name: "block devices", Shows: "bytes, latency and queue of each disk"}
	r := blockdev.New(e.Procfs, mounts.Topology(e.Procfs, e.Sysfs))
	defer func() { _ = r.Close() }() // nothing was written
	var snap snapshot.Snapshot
	r.Read(0, &snap)
	switch {
	case len(snap.Gaps) > 0:
		s.Status, s.Reason = Unavailable, snap.Gaps[0].Detail
		s.Caveat = "block devices were not readable"
		s.Fix = "mount proc of the host, read only, and give it as --procfs: docker run -v /proc:/host/proc:ro"
	case len(snap.Devices) == 0:
		s.Status, s.Reason = Degraded, "no block device has ever moved here: storage is remote, or hidden by the sandbox"
		s.Caveat = "no block device was seen"
	case !exists(filepath.Join(e.Sysfs, "dev/block")):
		s.Status, s.Reason = Degraded, e.Sysfs+"/dev/block cannot be read: a partition and its disk are counted twice"
		s.Fix = "docker run -v /sys:/sys:ro"
		s.Caveat = "stacked block devices could not be told apart"
	default:
		s.Status = Available
	}
	return s
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func (e *exam) mounts() Source {
	s, b := e.try(Source{Name: "mounts", Shows: "which file system and device a file lies on",
		Caveat: "the job's mounts were not readable: files have no file system"},
		"mountinfo", "the kernel shows no mount table", "SYS_PTRACE")
	if s.Status == Available && len(b) == 0 {
		s.Status, s.Reason, s.Caveat = Degraded, "the mount table is empty", "the job's mounts were not readable"
	}
	return s
}

// smallShm is where batches of a loader begin not to fit: Docker gives 64 MiB.
const smallShm = 1 << 30

func (e *exam) shm() Source {
	s := Source{Name: "/dev/shm", Shows: "room for the batches that workers hand over", Status: Unavailable,
		Caveat: "the room of /dev/shm is not known"}
	path := filepath.Join(e.dir, "root/dev/shm")
	st, err := within(e, func() (unix.Statfs_t, error) {
		var st unix.Statfs_t
		return st, unix.Statfs(path, &st)
	})
	if err != nil {
		s.Reason = fmt.Sprintf("statfs %s: %v", path, err)
		return s
	}
	size := st.Blocks * uint64(st.Bsize)
	s.Reason = fmt.Sprintf("%d MiB, %d MiB free", size>>20, st.Bavail*uint64(st.Bsize)>>20)
	s.Status, s.Caveat = Available, ""
	if size < smallShm {
		s.Status = Degraded
		s.Fix = "docker run --shm-size=8g, or --ipc=host; Kubernetes: an emptyDir with medium: Memory mounted at /dev/shm; elsewhere: mount -o remount,size=8g /dev/shm"
		s.Caveat = "/dev/shm is small: workers die of SIGBUS when it is full"
	}
	return s
}

// within runs a call that may hang, for as long as the exam is patient.
func within[T any](e *exam, call func() (T, error)) (T, error) {
	box := latest.New(e.Patience, func(context.Context) (T, error) { return call() })
	box.Ask()
	for deadline := time.Now().Add(e.Patience); ; {
		r := box.Reading()
		if r.OK || r.Err != nil {
			return r.Value, errors.Join(r.Err, box.Close())
		}
		if e.ctx.Err() != nil || time.Now().After(deadline) {
			return r.Value, context.DeadlineExceeded // the call keeps its thread; this process is about to end
		}
		time.Sleep(time.Millisecond)
	}
}

func (e *exam) watches() Source {
	s := Source{Name: "file events", Shows: "first and last moment of a checkpoint, to the millisecond",
		Caveat: "checkpoint folders were not watched: edges are as exact as the sampling"}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		s.Status, s.Reason = Unavailable, fmt.Sprintf("inotify_init: %v", err)
		if errors.Is(err, unix.EMFILE) {
			s.Reason = "this user has used up fs.inotify.max_user_instances (" + text(filepath.Join(e.Procfs, "sys/fs/inotify/max_user_instances")) + ")"
			s.Fix = "sysctl -w fs.inotify.max_user_instances=1024 on the host"
		}
		return s
	}
	_ = unix.Close(fd) // nothing was written
	s.Status = Available
	if n, err := strconv.Atoi(text(filepath.Join(e.Procfs, "sys/fs/inotify/max_user_watches"))); err == nil && n < 1024 {
		s.Status, s.Reason = Degraded, fmt.Sprintf("fs.inotify.max_user_watches is %d, for all programs of this user together", n)
		s.Fix = "sysctl -w fs.inotify.max_user_watches=65536 on the host"
		return s
	}
	s.Caveat = ""
	return s
}

func (e *exam) pressure() Source {
	s := Source{Name: "pressure", Shows: "how long the machine's tasks waited for CPU, memory, I/O", Status: Available}
	r := psi.System(e.Procfs)
	defer func() { _ = r.Close() }() // nothing was written
	var snap snapshot.Snapshot
	r.Read(0, &snap)
	if len(snap.Gaps) == 0 {
		return s
	}
	s.Status, s.Reason = Unavailable, snap.Gaps[0].Detail
	s.Caveat = "pressure was not readable"
	if len(snap.Pressure) > 0 {
		s.Status = Degraded
	}
	s.Fix = "a kernel with CONFIG_PSI (Linux 4.20)"
	if exists(filepath.Join(e.Procfs, "pressure")) {
		s.Reason, s.Fix = "the kernel has pressure figures and they are switched off: "+snap.Gaps[0].Detail, "boot with the parameter psi=1"
	}
	return s
}

// group reads the control group of the process once.
func (e *exam) group() snapshot.Snapshot {
	pid := e.PID
	if pid == 0 {
		pid = int32(os.Getpid())
		if link, err := os.Readlink(filepath.Join(e.Procfs, "self")); err == nil {
			if n, err := strconv.ParseInt(link, 10, 32); err == nil {
				pid = int32(n)
			}
		}
	}
	r := cgroupfs.New(e.Procfs, e.Sysfs, pid)
	defer func() { _ = r.Close() }() // nothing was written
	var s snapshot.Snapshot
	r.Read(0, &s)
	return s
}

func (e *exam) cgroup() Source {
	s := Source{Name: "cgroup", Shows: "CPU quota and throttling, memory limit and kills, I/O limits", Status: Available}
	snap := e.group()
	c := snap.Cgroup
	if c == nil {
		s.Status, s.Caveat, s.Fix = Unavailable, "the job's control group was not readable", "mount the cgroup file system: docker run -v /sys/fs/cgroup:/sys/fs/cgroup:ro"
		if len(snap.Gaps) > 0 {
			s.Reason = snap.Gaps[0].Detail
		}
		return s
	}
	var have, lack []string
	for _, part := range []struct {
		name string
		ok   bool
	}{{"cpu", c.CPU != nil}, {"cpuset", c.Cpuset != nil}, {"memory", c.Memory != nil}, {"io", c.IO != nil}} {
		if part.ok {
			have = append(have, part.name)
		} else {
			lack = append(lack, part.name)
		}
	}
	s.Reason = c.Version + ", group " + c.Path
	if len(lack) == 0 {
		return s
	}
	s.Status = Degraded
	if len(have) == 0 {
		s.Status = Unavailable
	}
	s.Caveat = "control group figures of " + strings.Join(lack, ", ") + " were not readable"
	for _, g := range snap.Gaps {
		if name, ok := strings.CutPrefix(g.Source, "cgroup."); ok && slices.Contains(lack, name) {
			s.Reason += "; " + name + ": " + g.Detail
		}
	}
	s.Fix = controllerFix(c, lack, snap.Gaps)
	return s
}

func controllerFix(c *snapshot.Cgroup, lack []string, gaps []snapshot.Gap) string {
	for _, g := range gaps {
		if strings.Contains(g.Detail, cgroupfs.ErrOutside.Error()) {
			return "docker run --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:ro"
		}
	}
	if c.Version == "v2" {
		return "echo '+" + strings.Join(lack, " +") + "' into cgroup.subtree_control of the groups above; with systemd: systemd-run -p Delegate=yes --scope"
	}
	return "mount the v1 hierarchies of " + strings.Join(lack, ", ") + ", or boot with systemd.unified_cgroup_hierarchy=1"
}

func (e *exam) cgroupPressure() Source {
	s := Source{Name: "cgroup pressure", Shows: "the same for the job alone", Status: Unavailable,
		Caveat: "pressure of the job alone was not readable; the machine's includes others"}
	snap := e.group()
	switch {
	case len(snap.Pressure) > 0:
		s.Status, s.Caveat = Available, ""
	case snap.Cgroup == nil || snap.Cgroup.Version == "v1":
		s.Reason = "cgroup v1 has no pressure figures"
		s.Fix = "boot with systemd.unified_cgroup_hierarchy=1"
	default:
		s.Reason = "the job is in the root of the v2 tree, whose pressure is the machine's"
		s.Fix = "give the job a group of its own: systemd-run --scope ptlaunch …"
		for _, g := range snap.Gaps {
			if strings.HasPrefix(g.Source, "psi.cgroup.") {
				s.Reason, s.Fix = g.Detail, "a kernel with CONFIG_PSI, booted with psi=1, and cgroup.pressure = 1"
			}
		}
	}
	return s
}

func (e *exam) gpus() Source {
	s := Source{Name: "GPUs", Shows: "utilisation, memory, power, clocks, errors", Status: Unavailable}
	here := exists(filepath.Join(e.Procfs, "driver/nvidia/version")) || exists(filepath.Join(e.dir, "root/dev/nvidiactl"))
	list, err := within(e, e.GPUs.Open)
	if err == nil {
		defer func() { _, _ = within(e, func() (struct{}, error) { return struct{}{}, e.GPUs.Close() }) }()
	}
	if here || err == nil && len(list) > 0 {
		s.Caveat = "GPUs were not readable: compute is told by what the processes do"
	}
	switch {
	case errors.Is(err, nvml.ErrNoCgo):
		s.Reason, s.Fix = err.Error(), "use the build with cgo"
	case errors.Is(err, nvml.CodeLibraryNotFound) && here:
		s.Reason = err.Error() + ", although the driver is there"
		s.Fix = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case errors.Is(err, nvml.CodeLibraryNotFound), errors.Is(err, nvml.CodeDriverNotLoaded):
		s.Reason = "no NVIDIA driver here"
	case errors.Is(err, nvml.CodeVersionMismatch):
		s.Reason, s.Fix = err.Error(), "reboot, or unload and load the nvidia modules; in a container: start it again, so that it gets the new driver's library"
	case errors.Is(err, context.DeadlineExceeded):
		s.Reason, s.Fix = "the driver does not answer", "nvidia-smi and the kernel's log (dmesg | grep -i -e nvrm -e xid) tell more"
	case err != nil:
		s.Reason = err.Error()
	case len(list) == 0:
		s.Reason = "the driver sees no GPU"
	default:
		describe(&s, list)
	}
	return s
}

// describe fills the row of GPUs that are there.
func describe(s *Source, list []nvml.Device) {
	s.Status = Available
	var names, broken []string
	for _, d := range list {
		if d.Err != nil {
			broken = append(broken, d.Err.Error())
			continue
		}
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	s.Reason = fmt.Sprintf("%d: %s", len(list)-len(broken), strings.Join(names, ", "))
	if len(broken) == 0 {
		s.Caveat = ""
		return
	}
	s.Status, s.Caveat = Degraded, "some GPUs were not readable"
	s.Reason += "; " + strings.Join(broken, "; ")
}

// otlp looks at where findings would be sent. It does not knock there: a run does not either before it has something.
func (e *exam) otlp() Source {
	s := Source{Name: "OTLP endpoint", Shows: "a collector to send metrics and spans to", Status: Unavailable}
	var set []string
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		value := e.Env(name)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			s.Status, s.Reason, s.Fix = Degraded, name+" is not a URL with http or https", name+"=http://127.0.0.1:4317"
			return s
		}
		set = append(set, name+"="+u.Scheme+"://"+u.Host) // without a user name, password or query
	}
	if len(set) == 0 {
		s.Reason = "no OTEL_EXPORTER_OTLP_ENDPOINT: findings go to the run folder only"
		s.Fix = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317"
		return s
	}
	s.Status, s.Reason = Available, strings.Join(set, ", ")
	return s
}
