package sampler

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// poller is what the sampler sleeps in between two slots of a tick. One epoll set holds the pidfds of the members, the
// inotify descriptor and an eventfd that a cancelled context writes to, so that an end is noticed within a millisecond
// without any goroutine or timer for it.
type poller struct {
	epoll int
	wake  int // eventfd
	buf   [64]unix.EpollEvent
}

// What an epoll event is about: the pid of a member, or one of these.
const (
	eventWake    = -1
	eventInotify = -2
)

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	p := &poller{epoll: epoll, wake: wake}
	if err := p.add(wake, unix.EPOLLIN, eventWake); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) add(fd int, events uint32, about int32) error {
	// Pad is the upper half of the kernel's 64-bit user data; Fd the lower, which is all that is used here.
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: about})
}

// wait sleeps until something happens or the timeout is over, and hands every event to handle.
func (p *poller) wait(timeout time.Duration, handle func(about int32, events uint32)) error {
	ms := max(0, int((timeout+time.Millisecond-1)/time.Millisecond)) // rounded up: a timeout that ends early would spin
	n, err := unix.EpollWait(p.epoll, p.buf[:], ms)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range p.buf[:n] {
		if e.Fd == eventWake {
			var b [8]byte
			_, _ = unix.Read(p.wake, b[:]) // non-blocking: empties the counter
			continue
		}
		handle(e.Fd, e.Events)
	}
	return nil
}

// interrupt makes a wait return. It may be called from any goroutine.
func (p *poller) interrupt() {
	_, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (p *poller) close() {
	_ = unix.Close(p.wake)
	_ = unix.Close(p.epoll)
}
