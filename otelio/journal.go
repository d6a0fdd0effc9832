package otelio

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"
)

// stateFile tells, for each signal, up to which offset of its file everything has been sent.
const stateFile = "otlp-sent.json"

// line is one request for the journal.
type line struct {
	sig     signal
	message proto.Message // not changed by anybody any more
	entry   *entry        // nil when the signal is not sent
	last    bool          // of the run
}

// journal appends requests to the run folder's files, in the OTLP file format: one request a line. Each line is one
// write, so what was written before is whole whatever ends the process; a torn last line is cut off by the next agent.
// It has a goroutine of its own because a disk may hang.
type journal struct {
	dir    string
	log    *slog.Logger
	spools [numSignals]*spool // nil where a signal is not sent
	lines  chan line
	ready  chan struct{} // closed when the backlog of an earlier agent is in the spools
	sent   chan struct{} // closed when nothing will be sent any more
	done   chan struct{}

	files  [numSignals]*os.File
	sizes  [numSignals]int64
	buf    []byte
	saved  map[string]int64
	failed bool

	thin    bool  // long runs may keep fewer exports of metrics: totals lose resolution by that, differences would be wrong
	exports int64 // of metrics so far
}

// fullResolution is how long a file of metrics has every export. Each further stretch of this length has every second one
// of the stretch before, so that a run of weeks does not fill the disk.
const fullResolution = 256 << 20

// keepEvery returns of how many exports one is kept in a file of this size.
func keepEvery(size int64) int64 { return 1 << min(size/fullResolution, 12) }

// run writes until lines is closed.
func (j *journal) run() {
	defer close(j.done)
	j.open()
	close(j.ready)
	save := time.NewTicker(2 * time.Second)
	defer save.Stop()
	for {
		select {
		case l, ok := <-j.lines:
			if !ok {
				<-j.sent
				j.saveState()
				for _, f := range j.files {
					if f != nil {
						_ = f.Close()
					}
				}
				return
			}
			j.write(l)
		case <-save.C:
			j.saveState()
		}
	}
}

// open opens the files, cuts torn lines off and finds what an earlier agent of the same run has not sent.
func (j *journal) open() {
	j.saved = readState(j.dir)
	for sig := range numSignals {
		w := sig.wire()
		f, err := os.OpenFile(filepath.Join(j.dir, w.file), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			j.fail(err)
			continue
		}
		backlog, whole, err := scanLines(f, j.saved[w.name])
		if err == nil {
			err = f.Truncate(whole)
		}
		if err == nil {
			_, err = f.Seek(whole, io.SeekStart)
		}
		if err != nil {
			j.fail(err)
			_ = f.Close()
			continue
		}
		j.files[sig], j.sizes[sig] = f, whole
		if s := j.spools[sig]; s != nil {
			s.resume(min(j.saved[w.name], whole), backlog)
		}
	}
}

// scanLines returns the lines from an offset on, and the offset behind the last whole line.
func scanLines(f *os.File, from int64) (entries []*entry, whole int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if from < 0 || from > info.Size() {
		from = 0 // the file is not the one that the state tells of
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, 0, err
	}
	whole = from
	r := bufio.NewReaderSize(f, 1<<16)
	for at := from; ; {
		n, err := skipLine(r)
		if errors.Is(err, io.EOF) {
			return entries, whole, nil
		}
		if err != nil {
			return entries, whole, err
		}
		entries = append(entries, &entry{at: at, length: n, end: at + int64(n)})
		at += int64(n)
		whole = at
	}
}

// skipLine reads one line and returns its length, newline included; io.EOF when there is no whole one.
func skipLine(r *bufio.Reader) (int, error) {
	n := 0
	for {
		part, err := r.ReadSlice('\n')
		n += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// write appends one line.
func (j *journal) write(l line) {
	f := j.files[l.sig]
	if f == nil {
		return
	}
	if l.sig == metrics && j.thin {
		j.exports++
		if !l.last && j.exports%keepEvery(j.sizes[metrics]) != 0 {
			return
		}
	}
	j.buf = append(appendJSON(j.buf[:0], l.message.ProtoReflect()), '\n')
	n, err := f.Write(j.buf)
	if err != nil {
		j.fail(err)
		if n > 0 { // no half line may stay in front of the next one
			_ = f.Truncate(j.sizes[l.sig])
			_, _ = f.Seek(j.sizes[l.sig], io.SeekStart)
		}
		return
	}
	if l.entry != nil {
		j.spools[l.sig].located(l.entry, j.sizes[l.sig], n)
	}
	j.sizes[l.sig] += int64(n)
	if cap(j.buf) > 1<<20 {
		j.buf = nil
	}
}

// fail says once that the files are not complete.
func (j *journal) fail(err error) {
	if !j.failed {
		j.failed = true
		j.log.Error("The run folder's telemetry files are not complete", "cause", err)
	}
}

// saveState keeps what has been sent, when that has changed.
func (j *journal) saveState() {
	sent := map[string]int64{}
	for sig, s := range j.spools {
		if s != nil {
			_, _, sent[signal(sig).String()] = s.state()
		}
	}
	changed := false
	for name, at := range sent {
		changed = changed || j.saved[name] != at
	}
	if !changed {
		return
	}
	if err := writeState(j.dir, sent); err != nil {
		j.fail(err)
		return
	}
	j.saved = sent
}

// readState returns what writeState kept, nothing when there is none.
func readState(dir string) map[string]int64 {
	sent := map[string]int64{}
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil || json.Unmarshal(b, &sent) != nil {
		return map[string]int64{}
	}
	return sent
}

// writeState replaces the state file.
func writeState(dir string, sent map[string]int64) error {
	b, err := json.Marshal(sent)
	if err != nil {
		return fmt.Errorf("keep delivery state: %v", err)
	}
	name := filepath.Join(dir, stateFile)
	if err := os.WriteFile(name+".tmp", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep delivery state: %v", err)
	}
	return os.Rename(name+".tmp", name)
}
