package otelio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// spoolBytes is how much of one signal's requests is kept in memory while they cannot be delivered. Beyond it, bodies are
// let go and read back from the run folder when their turn comes; without a run folder the oldest are dropped.
const spoolBytes = 4 << 20

// entry is one request on its way.
type entry struct {
	body []byte // protobuf; nil once it was let go
	// The line of the run folder's file that holds it: length 0 while it is not written. end is the offset behind it; a
	// request that was split keeps it in its last part only, so that the file counts as sent when all parts are.
	at, end int64
	length  int
	done    bool // delivered or given up
}

// spool is the queue of one signal, oldest first.
type spool struct {
	sig  signal
	dir  string // "" without a run folder
	wake chan struct{}

	mu      sync.Mutex
	queue   []*entry
	bytes   int    // of the bodies in memory
	sent    int64  // offset in the file below which nothing is left to send
	dropped uint64 // requests lost for lack of room
	trouble string // why nothing gets through at present, "" when it does
}

func newSpool(sig signal, dir string) *spool {
	return &spool{sig: sig, dir: dir, wake: make(chan struct{}, 1)}
}

// add appends a request and returns its entry, for located.
func (s *spool) add(body []byte) *entry {
	e := &entry{body: body}
	s.mu.Lock()
	s.queue = append(s.queue, e)
	s.bytes += len(body)
	s.trim()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return e
}

// resume puts requests in front that an earlier agent or run left in the file behind the offset sent.
func (s *spool) resume(sent int64, backlog []*entry) {
	s.mu.Lock()
	s.sent = sent
	s.queue = append(backlog, s.queue...)
	s.mu.Unlock()
}

// located tells where the request's line lies in the file.
func (s *spool) located(e *entry, at int64, length int) {
	s.mu.Lock()
	e.at, e.length, e.end = at, length, at+int64(length)
	if e.done {
		s.sent = max(s.sent, e.end)
	}
	s.trim()
	s.mu.Unlock()
}

// trim keeps the bodies within spoolBytes: newest first those that the file holds, then oldest first those it does not.
func (s *spool) trim() {
	for i := len(s.queue) - 1; i > 0 && s.bytes > spoolBytes; i-- {
		if e := s.queue[i]; e.length > 0 && e.body != nil {
			s.bytes -= len(e.body)
			e.body = nil
		}
	}
	// With a run folder the journal is a little behind; its entries get room for that.
	limit := spoolBytes
	if s.dir != "" {
		limit *= 2
	}
	for i := 0; i < len(s.queue)-1 && s.bytes > limit; {
		e := s.queue[i]
		if e.length > 0 || e.body == nil {
			i++
			continue
		}
		s.bytes -= len(e.body)
		s.dropped++
		s.queue = append(s.queue[:i], s.queue[i+1:]...)
	}
}

// head returns the oldest request, nil when there is none.
func (s *spool) head() *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// pop takes e, which head returned, out of the queue: it is delivered or cannot be.
func (s *spool) pop(e *entry) { s.replace(e) }

// replace puts parts in e's place.
func (s *spool) replace(e *entry, parts ...*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// trim may have dropped it meanwhile.
	if len(s.queue) == 0 || s.queue[0] != e {
		return
	}
	s.bytes -= len(e.body)
	for _, p := range parts {
		s.bytes += len(p.body)
	}
	s.queue = append(parts, s.queue[1:]...)
	if len(parts) == 0 {
		e.done, e.body = true, nil
		s.sent = max(s.sent, e.end)
	}
}

// load returns the body of e, from memory or from the file.
func (s *spool) load(e *entry) ([]byte, error) {
	s.mu.Lock()
	body, at, length := e.body, e.at, e.length
	s.mu.Unlock()
	if body != nil {
		return body, nil
	}
	if s.dir == "" || length == 0 {
		return nil, errors.New("load request: it is in no file")
	}
	f, err := os.Open(filepath.Join(s.dir, s.sig.wire().file))
	if err != nil {
		return nil, fmt.Errorf("load request: %v", err)
	}
	defer f.Close()
	line := make([]byte, length)
	if _, err := f.ReadAt(line, at); err != nil {
		return nil, fmt.Errorf("load request: %v", err)
	}
	m := s.sig.wire().request()
	if err := parseJSON(line, m); err != nil {
		return nil, err
	}
	return marshal(m)
}

// setTrouble notes why nothing gets through, "" once it does.
func (s *spool) setTrouble(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = why
}

func (s *spool) lastTrouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// state returns how many requests are left, how many were lost, and up to where the file is sent.
func (s *spool) state() (left int, dropped uint64, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.dropped, s.sent
}
