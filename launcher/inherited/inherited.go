package inherited

import "syscall"

// Set is a set of signals in the kernel's layout: bit n-1 stands for signal n.
type Set uint64

// Has reports whether sig is in the set.
func (s Set) Has(sig syscall.Signal) bool {
	return sig >= 1 && sig <= 64 && s&(1<<(uint(sig)-1)) != 0
}

// State is what was found at the process's start.
type State struct {
	Ignored Set     // signals whose disposition was SIG_IGN
	Blocked Set     // the signal mask of the first thread
	Closed  [3]bool // standard descriptors that were not open
	// Exact says that a C constructor looked; without it the three fields hold what the Go runtime left visible.
	Exact bool
}
