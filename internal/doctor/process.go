package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
)

// owner is the uid of the process examined, this process's own when it cannot be told.
func (e *exam) owner() int {
	var st unix.Stat_t
	if err := unix.Stat(e.dir, &st); err != nil {
		return e.uid
	}
	return int(st.Uid)
}

// hidden explains why a file of the process was refused, and what would open it.
func (e *exam) hidden(s *Source, caps ...string) {
	if owner := e.owner(); owner != e.uid {
		s.Reason = fmt.Sprintf("the process belongs to uid %d and this is uid %d", owner, e.uid)
		s.Fix = fmt.Sprintf("run ptlaunch as uid %d; or %s", owner, capabilityFix(caps...))
		return
	}
	s.Reason = "the process is not dumpable (setuid, file capabilities, PR_SET_DUMPABLE), or has a capability that ptlaunch lacks"
	s.Fix = "start it without them; or " + capabilityFix(caps...)
}

// try reads a file of the process and fills a source from the outcome. absent is the reason when the kernel has no such file.
func (e *exam) try(s Source, name, absent string, caps ...string) (Source, []byte) {
	b, err := kernfile.Read(filepath.Join(e.dir, name))
	s.Status = Unavailable
	switch {
	case err == nil:
		s.Status, s.Caveat = Available, ""
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.hidden(&s, caps...)
	case errors.Is(err, unix.ENOENT) && e.gone():
		s.Reason = "there is no such process here: another pid namespace, or it has ended"
		s.Fix = "docker run --pid=container:JOB; Kubernetes: spec.shareProcessNamespace: true"
	case errors.Is(err, unix.ENOENT):
		s.Reason = absent
	default:
		s.Reason = err.Error()
	}
	return s, b
}

func (e *exam) gone() bool {
	_, err := os.Stat(filepath.Join(e.dir, "stat"))
	return errors.Is(err, os.ErrNotExist)
}

// processes looks at the process list itself: hidepid hides other users' processes, and with them parts of a job that
// changes its user.
func (e *exam) processes() Source {
	s := Source{Name: "processes", Shows: "the job's process tree, CPU time, memory, states",
		Caveat: "the job's processes could not be read"}
	s, _ = e.try(s, "stat", "proc is not mounted at "+e.Procfs, "SYS_PTRACE")
	option := hidepid(text(filepath.Join(e.Procfs, "self/mountinfo")), e.Procfs)
	if option == "" || e.has(capSysPtrace) {
		return s
	}
	s.Reason = "proc is mounted with " + option + ": only processes of uid " + fmt.Sprint(e.uid) + " can be seen"
	s.Fix = "mount -o remount,hidepid=0 " + e.Procfs + "; or give ptlaunch's group with gid=; or " + capabilityFix("SYS_PTRACE")
	s.Caveat = "processes of other users could not be seen"
	if s.Status == Available {
		s.Status = Degraded
	}
	return s
}

// hidepid finds proc's option that hides processes, "" when there is none.
func hidepid(mountinfo, procfs string) string {
	found := ""
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - proc ")
		fields := strings.Fields(left)
		words := strings.Fields(right)
		if !ok || len(words) == 0 || len(fields) < 5 || fields[4] != procfs && fields[4] != "/proc" {
			continue
		}
		found = "" // a later mount covers an earlier one
		for option := range strings.SplitSeq(words[len(words)-1], ",") {
			if value, ok := strings.CutPrefix(option, "hidepid="); ok && value != "0" && value != "off" {
				found = option
			}
		}
	}
	return found
}

func (e *exam) io() Source {
	s, _ := e.try(Source{Name: "process I/O", Shows: "bytes read and written by each rank and worker",
		Caveat: "bytes per process were not readable; device and cgroup figures stand in"},
		"io", "this kernel was built without CONFIG_TASK_IO_ACCOUNTING", "SYS_PTRACE", "DAC_READ_SEARCH")
	return s
}

func (e *exam) files() Source {
	s := Source{Name: "open files", Shows: "which file a checkpoint goes to, which GPUs a rank holds",
		Caveat: "open files were not readable: checkpoints have no path"}
	d, err := os.Open(filepath.Join(e.dir, "fd"))
	if err == nil {
		defer d.Close()
		_, err = d.Readdirnames(1)
	}
	switch {
	case err == nil:
		s.Status, s.Caveat = Available, ""
	case errors.Is(err, unix.EACCES):
		s.Status = Unavailable
		e.hidden(&s, "SYS_PTRACE", "DAC_READ_SEARCH")
	default:
		s.Status, s.Reason = Unavailable, err.Error()
	}
	return s
}

func (e *exam) environ() Source {
	s, _ := e.try(Source{Name: "environment", Shows: "RANK, LOCAL_RANK, CUDA_VISIBLE_DEVICES: who is which rank",
		Caveat: "environments were not readable: ranks are numbered by order of start"},
		"environ", "the kernel shows no environment", "SYS_PTRACE", "DAC_READ_SEARCH")
	return s
}

// syscalls looks at what needs the right to attach. A run's agent is no ancestor of the job, so Yama's scope 1 shuts it out,
// although the same files of doctor's own process are readable.
func (e *exam) syscalls() Source {
	s := Source{Name: "system calls", Shows: "what a blocked thread waits in, with certainty",
		Caveat: "system calls were not readable: waits are told by states and places in the kernel, with less certainty"}
	s, _ = e.try(s, "syscall", "this kernel was built without CONFIG_HAVE_ARCH_TRACEHOOK", "SYS_PTRACE")
	scope := text(filepath.Join(e.Procfs, "sys/kernel/yama/ptrace_scope"))
	fixed := ""
	switch {
	case scope == "" || scope == "0":
		return s
	case scope == "3":
		s.Reason, fixed = "kernel.yama.ptrace_scope is 3: nobody may attach until the next boot", "reboot with kernel.yama.ptrace_scope = 0 in /etc/sysctl.d"
	case e.has(capSysPtrace):
		return s
	case scope == "1":
		s.Reason, fixed = "kernel.yama.ptrace_scope is 1: only ancestors may attach, and ptlaunch's agent is none", "sysctl -w kernel.yama.ptrace_scope=0; or "+capabilityFix("SYS_PTRACE")
	default:
		s.Reason, fixed = "kernel.yama.ptrace_scope is "+scope+": only administrators may attach", "sysctl -w kernel.yama.ptrace_scope=0; or "+capabilityFix("SYS_PTRACE")
	}
	s.Status, s.Fix = Unavailable, fixed
	s.Caveat = "system calls were not readable: waits are told by states and places in the kernel, with less certainty"
	return s
}

func (e *exam) waiting() Source {
	s, b := e.try(Source{Name: "waiting times", Shows: "blocked, running and waiting for a CPU, exactly",
		Caveat: "run-queue wait was not readable: a lack of CPUs cannot be told from waiting"},
		"schedstat", "this kernel was built without CONFIG_SCHED_INFO")
	if s.Status == Available && strings.TrimSpace(string(b)) == "0 0 0" {
		s.Status, s.Reason = Degraded, "the kernel writes zeros only: CONFIG_SCHED_INFO is off"
		s.Caveat = "run-queue wait was not counted by this kernel"
	}
	return s
}

func (e *exam) storageDelay() Source {
	s := Source{Name: "storage delay", Shows: "how long a main thread waited for block I/O", Status: Degraded,
		Caveat: "delay accounting was off: time spent waiting for storage is told by states alone"}
	switch text(filepath.Join(e.Procfs, "sys/kernel/task_delayacct")) {
	case "1":
		s.Status, s.Caveat = Available, ""
	case "0":
		s.Reason = "kernel.task_delayacct is 0"
		s.Fix = "sysctl -w kernel.task_delayacct=1 before the job starts: only processes that start later are counted"
	default:
		s.Reason = "this kernel does not say whether delay accounting is on (kernel.task_delayacct came with Linux 5.14)"
		s.Fix = "boot with the parameter delayacct"
	}
	return s
}

// exits looks at how the end of a process that is not our child can be learned.
func (e *exam) exits() Source {
	s := Source{Name: "exit status", Shows: "how a worker ended: code or signal", Status: Degraded,
		Caveat: "how a process ended is known only where its remains could be seen"}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		s.Status = Unavailable
		s.Reason = fmt.Sprintf("pidfd_open: %v", err)
		s.Fix = "Linux 5.3, and a seccomp profile that allows pidfd_open (docker run --security-opt seccomp=unconfined)"
		return s
	}
	_ = unix.Close(fd) // nothing was written
	if !e.atLeast(6, 15) {
		s.Reason = "Linux " + e.kernel + " does not tell the status of processes that are not our children"
		s.Fix = "Linux 6.15"
		return s
	}
	s.Status, s.Caveat = Available, ""
	return s
}
