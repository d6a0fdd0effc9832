//go:build cgo

package inherited

// #include "capture.h"
import "C"

// Read returns what the constructor saw.
func Read() State {
	c := C.ptlaunch_inherited
	s := State{Ignored: Set(c.ignored), Blocked: Set(c.blocked), Exact: true}
	for fd := range s.Closed {
		s.Closed[fd] = c.closed&(1<<fd) != 0
	}
	return s
}
