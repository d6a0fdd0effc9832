//go:build !cgo

package inherited

import (
	"os/signal"
	"syscall"
	"unsafe"
)

// Read returns what the runtime left visible: it keeps SIG_IGN of HUP and INT only, unblocks what it may need to handle, and
// has opened /dev/null on closed standard descriptors by now. Call it before any use of signal.Notify.
func Read() State {
	var s State
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			s.Ignored |= 1 << (uint(sig) - 1)
		}
	}
	const sigSetmask = 2
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, 0, uintptr(unsafe.Pointer(&s.Blocked)), 8, 0, 0)
	return s
}
