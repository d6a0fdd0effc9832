package snapshot

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Source is where snapshots come from: a sampler, or a Reader.
type Source interface {
	Next(ctx context.Context) (*Snapshot, error)
}

// teeQueue is how many snapshots may wait for the disk. At one per second it bridges the stalls that disks have; a
// longer one is what we are here to observe, so it must not hold us up.
const teeQueue = 32

// Tee passes snapshots on from a source and records a copy of each. The disk may be the very thing that stalls: a snapshot
// that finds the queue full is dropped from the recording and counted, and passed on all the same. Next is for one
// goroutine; Dropped may be called from any.
type Tee struct {
	src   Source
	queue chan *Snapshot
	done  chan error

	dropped atomic.Uint64
	carry   Snapshot // Infos, Exits and FileEvents of dropped snapshots, for the next one that fits
}

// NewTee starts the goroutine that writes to w, which belongs to the Tee from now on.
func NewTee(src Source, w *Writer, log *slog.Logger) *Tee {
	t := &Tee{src: src, queue: make(chan *Snapshot, teeQueue), done: make(chan error, 1)}
	go t.record(w, log)
	return t
}

// Next returns the source's next snapshot.
func (t *Tee) Next(ctx context.Context) (*Snapshot, error) {
	s, err := t.src.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := t.withCarried(s)
	select {
	case t.queue <- out:
		t.carry = Snapshot{}
	default:
		t.dropped.Add(1)
		t.carry = Snapshot{Infos: out.Infos, Exits: out.Exits, FileEvents: out.FileEvents}
	}
	return s, nil
}

// withCarried adds what dropped snapshots had to say once and for all. Counters need no carrying: they are totals.
func (t *Tee) withCarried(s *Snapshot) *Snapshot {
	c := &t.carry
	if len(c.Infos)+len(c.Exits)+len(c.FileEvents) == 0 {
		return s
	}
	out := *s // s itself is published and must not change
	out.Infos = concat(c.Infos, s.Infos)
	out.Exits = concat(c.Exits, s.Exits)
	out.FileEvents = concat(c.FileEvents, s.FileEvents)
	return &out
}

func concat[T any](a, b []T) []T {
	return append(append(make([]T, 0, len(a)+len(b)), a...), b...)
}

// record writes until the queue is closed. A failure is said once until a write succeeds again.
func (t *Tee) record(w *Writer, log *slog.Logger) {
	failing := false
	for s := range t.queue {
		err := w.Write(s)
		if err != nil {
			t.dropped.Add(1)
			if !failing {
				log.Warn("the recording has a hole", "error", err)
			}
		}
		failing = err != nil
	}
	t.done <- w.Close()
}

// Dropped is how many snapshots the recording lacks.
func (t *Tee) Dropped() uint64 { return t.dropped.Load() }

// Close ends the recording and waits for what is queued, until the context ends. It does not close the source. A write that
// hangs keeps its goroutine, which ends when the write does.
func (t *Tee) Close(ctx context.Context) error {
	close(t.queue)
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
