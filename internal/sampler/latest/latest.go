package latest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/clock"
)

// ErrBusy is what Latest.Close returns when the call in flight did not come back: its goroutine is left behind, since
// nothing can end a thread that sleeps in the kernel or in a driver.
var ErrBusy = errors.New("call still in flight")

// Latest keeps the newest answer of a source that may be slow or may never answer. It runs at most one call at a time, in
// a goroutine of its own; the sampler asks and takes whatever there is, and never waits.
//
//	l := latest.New(5*time.Second, readGPUs)
//	defer l.Close()
//	…each tick:
//	l.Ask()
//	r := l.Reading()   // r.OK, r.Value, r.Stale
//
// All methods may be called from several goroutines.
type Latest[T any] struct {
	read     func(context.Context) (T, error)
	deadline time.Duration
	clock    clock.Clock
	ask      chan struct{}
	cancel   context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	latest  Reading[T]
	pending bool
	since   time.Duration // when the call in flight began, or was asked for
}

// Reading is what a Latest knows at one moment.
type Reading[T any] struct {
	OK    bool          // a call has succeeded at least once: Value and At mean something
	Value T             // of the newest call that succeeded
	At    time.Duration // CLOCK_MONOTONIC at which that call returned
	// Err is the error of the newest call that returned, nil when that one succeeded. Value is then older than that.
	Err error
	// Stale is true while the call in flight has been running for longer than the deadline.
	Stale bool
	// Waiting is for how long the call in flight has been running, 0 when there is none.
	Waiting time.Duration
}

// New starts the goroutine that calls read. The context of a call ends at the deadline and at Close; a read that
// cannot heed it is only marked stale. The value that read returns must not be changed by it later.
func New[T any](deadline time.Duration, read func(context.Context) (T, error)) *Latest[T] {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Latest[T]{
		read: read, deadline: deadline, clock: clock.New(),
		ask: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
	}
	go l.run(ctx)
	return l
}

// Ask requests a call, unless one is in flight already. It reports whether it did, and never blocks.
func (l *Latest[T]) Ask() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending {
		return false
	}
	l.pending, l.since = true, l.clock.Now()
	l.ask <- struct{}{} // has room: pending was false, so the goroutine has taken the previous one
	return true
}

// Reading returns what is known now.
func (l *Latest[T]) Reading() Reading[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.latest
	if l.pending {
		r.Waiting = l.clock.Now() - l.since
		r.Stale = r.Waiting > l.deadline
	}
	return r
}

// Close ends the goroutine. It waits for a call in flight for at most the deadline and returns ErrBusy when that call has
// not come back by then. No answer is stored afterwards that an Ask did not request before.
func (l *Latest[T]) Close() error {
	l.cancel()
	timer := time.NewTimer(l.deadline)
	defer timer.Stop()
	select {
	case <-l.done:
		return nil
	case <-timer.C:
		return ErrBusy
	}
}

func (l *Latest[T]) run(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ask:
		}
		if ctx.Err() != nil {
			return
		}
		l.call(ctx)
	}
}

func (l *Latest[T]) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	v, err := l.read(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = false
	l.latest.Err = err
	if err == nil {
		l.latest.OK, l.latest.Value, l.latest.At = true, v, l.clock.Now()
	}
}
