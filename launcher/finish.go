package launcher

import (
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// finish waits for the agent's farewell, at most the flush timeout, and prints it. With a timeout of 0 it does not wait, and
// the agent finishes by itself.
func (s *supervisor) finish(code int) {
	if s.agent == nil && s.restartAt != 0 {
		s.startAgent() // it was between two lives: the end of the run is worth an early start of the next
		s.tellExit()
	}
	if s.agent == nil {
		return
	}
	if s.status == nil { // the job could not be started
		s.ended = Monotonic()
		s.agent.send(handoff.Down{Exit: &handoff.Exit{Code: code, Wall: time.Now(), Mono: s.ended}})
	}
	close(s.agent.down)
	if s.cfg.FlushTimeout == 0 {
		s.handOver()
		return
	}
	s.awaitFarewell()
	if s.farewell != nil && !s.cfg.Quiet {
		printFarewell(*s.farewell)
	}
}

// handOver leaves the agent to itself: "do not wait" is no "throw away". It ends on its own soon after it has read how the job
// ended, so the one thing to wait for is that the pipe holds that; a pipe that is full belongs to an agent that hangs.
func (s *supervisor) handOver() {
	select {
	case <-s.agent.written:
	case <-time.After(100 * time.Millisecond):
	}
}

func (s *supervisor) awaitFarewell() {
	deadline := time.NewTimer(s.cfg.FlushTimeout)
	defer deadline.Stop()
	for s.farewell == nil {
		select {
		case m := <-s.up:
			if s.agent != nil && m.generation == s.agent.generation && m.eof {
				return
			}
			s.hear(m)
		case sig := <-s.signals:
			if stopping(sig.(syscall.Signal)) && Monotonic()-s.ended > patience {
				return
			}
		case <-deadline.C:
			// Nothing of ours outlives the run: it has had its time, and the pid is still ours to signal.
			_ = syscall.Kill(s.agent.pid, syscall.SIGKILL)
			return
		}
	}
}

// printFarewell writes the agent's last words to standard error. It gives up after a second: nobody may be reading, and a
// terminal with "stty tostop" must not stop us now.
func printFarewell(text string) {
	signal.Ignore(syscall.SIGTTOU)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := []byte(text); len(b) > 0; {
			n, err := syscall.Write(2, b) // not os.Stderr, which would end us by PIPE when nobody reads
			if err != nil && err != syscall.EINTR {
				return
			}
			b = b[max(n, 0):]
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// setSubreaper makes orphans of the job our children, so that they stay in the tree and get reaped.
func setSubreaper() {
	const prSetChildSubreaper = 36
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// dieBy ends this process by sig, as the job was ended, without a core dump of our own. os/signal cannot do it: the runtime
// keeps its handlers for most signals. It returns only if the kernel does not let us die.
func dieBy(sig syscall.Signal) {
	const prSetDumpable = 4
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0) // core_pattern may be a pipe, which ignores the limit
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault [4]uintptr // struct sigaction of the kernel, all zero: SIG_DFL
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, maskBytes, 0, 0)
	setMask(^uint64(0) &^ (1 << (uint(sig) - 1)))
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(sig))
}
