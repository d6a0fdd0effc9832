package launcher

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// Numbers that package syscall has no names for. They are the same on every architecture that this package supports.
const (
	sigBlock   = 0  // rt_sigprocmask: add to the mask
	sigSetmask = 2  // rt_sigprocmask: replace the mask
	firstRT    = 35 // the first real-time signal that a Go program can catch: 32 to 34 belong to libc and the runtime
	lastSignal = 64
	maskBytes  = 8 // size of a kernel signal set
)

// Forwarded returns the signals that are passed on to the job when they were sent to the supervisor alone, and that the agent
// reports. Left out are those that cannot be caught (KILL, STOP, 32-34), that are about our own children (CHLD), that the Go
// runtime uses or swallows (URG, PROF), that a broken pipe of our own would raise (PIPE), and those of job control, which the
// kernel gives to every member of the group anyway and whose default must stay (TSTP, TTIN, TTOU, CONT, WINCH).
//
// ILL, TRAP, ABRT, BUS, FPE, SEGV, STKFLT and SYS are passed on when a process sent them; a fault of our own stays ours.
func Forwarded() []syscall.Signal {
	var set []syscall.Signal
	for n := 1; n <= lastSignal; n++ {
		switch sig := syscall.Signal(n); sig {
		case syscall.SIGKILL, syscall.SIGSTOP, 32, 33, 34, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF, syscall.SIGPIPE,
			syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT, syscall.SIGWINCH:
		default:
			set = append(set, sig)
		}
	}
	return set
}

// stopping reports whether sig usually asks a job to end, which is a good moment to flush.
func stopping(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGXCPU:
		return true
	}
	return false
}

// notify subscribes to each of sigs. signal.Notify with an empty list would mean all signals.
func notify(c chan<- os.Signal, sigs []syscall.Signal) {
	for _, sig := range sigs {
		signal.Notify(c, sig)
	}
}

// stopSignals are those with which a terminal stops a job.
const stopSignals = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// setMask sets the calling thread's signal mask and returns the old one.
func setMask(mask uint64) uint64 { return changeMask(sigSetmask, mask) }

// changeMask is sigprocmask for the calling thread. It returns the old mask.
func changeMask(how uintptr, mask uint64) uint64 {
	var old uint64
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, how,
		uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&old)), maskBytes, 0, 0)
	return old
}

// Monotonic is CLOCK_MONOTONIC, comparable between processes of one machine (time.Time's is not).
func Monotonic() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
