package launcher

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

// startJob starts the command as whoever started ptlaunch meant it: the same arguments, environment, descriptors, working
// directory, limits, signal mask and ignored signals, in the same process group. It returns the job's pid.
//
// syscall.ForkExec leaves every inherited descriptor in place and restores the soft limit on open files that the Go runtime
// raised; what it does not keep is put right here.
func startJob(c *Config, was inherited.State) (int, error) {
	// The child gets SIG_DFL for every signal that Go handles, and SIG_IGN for those that os/signal ignores: so ignore, for
	// the moment of the fork, what was ignored. A signal that comes in between is dropped, as the job itself would drop it.
	for _, sig := range ignorable(was.Ignored) {
		signal.Ignore(sig)
	}
	attr := &syscall.ProcAttr{Env: c.JobEnv, Files: standardFiles(was)}

	// The child inherits the mask of the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := setMask(uint64(was.Blocked))
	defer setMask(old)
	return execvp(c.Command, c.JobEnv, func(file string, argv []string) (int, error) {
		return syscall.ForkExec(file, argv, attr)
	})
}

// standardFiles lists descriptors 0 to 2 as the job gets them. One that was closed when ptlaunch started has been opened to
// /dev/null by the Go runtime, and is closed in the job again.
func standardFiles(was inherited.State) []uintptr {
	files := []uintptr{0, 1, 2}
	for fd, closed := range was.Closed {
		if closed {
			files[fd] = ^uintptr(0)
		}
	}
	return files
}

// ignorable lists the signals of set that are to be ignored in the job and that the Go runtime would reset. CHLD is left at its
// default: a job that starts with CHLD ignored could not wait for its own children, and neither could we while it is set.
// URG is the runtime's own, PROF cannot be changed through os/signal; nobody ignores the synchronous ones. What Go never
// handles (job control) is inherited without help.
func ignorable(set inherited.Set) []syscall.Signal {
	var sigs []syscall.Signal
	for n := 1; n <= lastSignal; n++ {
		sig := syscall.Signal(n)
		if !set.Has(sig) || sig == syscall.SIGCHLD || sig == syscall.SIGURG {
			continue
		}
		sigs = append(sigs, sig)
	}
	return sigs
}

// letGo drops everything that was inherited, once the job has it: a pipe that the supervisor kept open would keep the other
// side from seeing EOF or EPIPE, a descriptor or working directory would keep a file system from being unmounted. Standard
// error alone stays, for the farewell, unless quiet.
func letGo(quiet bool) {
	_ = syscall.Chdir("/")
	closeInherited()
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return // no /dev: keeping the descriptors is the lesser evil than running without any
	}
	defer syscall.Close(null)
	last := 2
	if quiet {
		last = 3
	}
	for fd := range last {
		_ = syscall.Dup3(null, fd, syscall.O_CLOEXEC)
	}
}

// closeInherited closes descriptors above 2 that came from outside. Those are exactly the ones without FD_CLOEXEC: exec would
// have closed any other, and all of our own are opened with it.
func closeInherited() {
	for _, fd := range openDescriptors() {
		if fd < 3 {
			continue
		}
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(fd)
		}
	}
}

// openDescriptors lists candidates for open descriptors: the open ones, or without /proc the low numbers.
func openDescriptors() []int {
	var fds []int
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		const low = 1024 // the usual soft limit
		for fd := range low {
			fds = append(fds, fd)
		}
		return fds
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}
