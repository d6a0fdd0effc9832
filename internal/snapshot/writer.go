package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// WriterConfig bounds a recording. The zero value means the defaults.
type WriterConfig struct {
	Limit   int64         // bytes of all segments together; default 256 MiB
	Segment int64         // bytes after which a new segment begins; default Limit/16, at most 8 MiB
	Flush   time.Duration // how much a crash may lose, in snapshot time; default 1 s
}

const (
	defaultLimit   = 256 << 20
	maxSegment     = 8 << 20
	segmentsInCap  = 16
	minSegment     = 32 << 10
	defaultFlush   = time.Second
	retryAfterFail = 10 * time.Second
)

// Writer records snapshots into a folder. What it has flushed survives its own death; it does not fsync, so a crash of the
// machine may lose what the kernel still held. It is not safe for concurrent use.
type Writer struct {
	dir string
	cfg WriterConfig

	file    *os.File
	gz      *gzip.Writer
	line    bytes.Buffer
	enc     *json.Encoder
	written int64 // bytes of the open segment
	number  int   // of the open segment, or of the last one
	sizes   []segmentSize
	live    map[ProcID]ProcInfo
	dropped Dropped
	flushed time.Duration
	retryAt time.Duration // after a failed write: no new segment before this
}

type segmentSize struct {
	number int
	bytes  int64
}

// NewWriter begins a recording in dir, making the folder if need be. A folder that holds segments already (an agent that was
// started again) is continued.
func NewWriter(dir string, cfg WriterConfig) (*Writer, error) {
	cfg.setDefaults()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("make the recording's folder: %w", err)
	}
	w := &Writer{dir: dir, cfg: cfg, live: map[ProcID]ProcInfo{}}
	w.enc = json.NewEncoder(&w.line)
	w.enc.SetEscapeHTML(false)
	w.gz, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level cannot fail
	ns, err := segments(dir)
	if err != nil {
		return nil, fmt.Errorf("list the recording's folder: %w", err)
	}
	for _, n := range ns {
		info, err := os.Stat(segmentPath(dir, n))
		if err != nil {
			continue // gone meanwhile: it takes no room
		}
		w.sizes = append(w.sizes, segmentSize{n, info.Size()})
		w.number = n
	}
	return w, nil
}

func (c *WriterConfig) setDefaults() {
	if c.Limit <= 0 {
		c.Limit = defaultLimit
	}
	if c.Segment <= 0 {
		c.Segment = max(minSegment, min(c.Limit/segmentsInCap, maxSegment))
	}
	if c.Flush <= 0 {
		c.Flush = defaultFlush
	}
}

// Write records one snapshot. After a failed write the segment is given up and a new one is tried some seconds later;
// until then snapshots are refused.
func (w *Writer) Write(s *Snapshot) error {
	for i := range s.Infos {
		w.live[s.Infos[i].ID] = s.Infos[i]
	}
	err := w.write(s)
	for i := range s.Exits { // only now: a header written meanwhile must still name who ends in its first snapshot
		delete(w.live, s.Exits[i].ID)
	}
	return err
}

func (w *Writer) write(s *Snapshot) error {
	if err := w.encode(s); err != nil {
		return err
	}
	if w.file == nil {
		if s.Mono < w.retryAt {
			return errors.New("write the recording: the previous write failed")
		}
		if err := w.begin(s); err != nil {
			return w.fail(s, err)
		}
		if err := w.encode(s); err != nil { // begin has used the buffer
			return err
		}
	}
	if _, err := w.gz.Write(w.line.Bytes()); err != nil {
		return w.fail(s, err)
	}
	if s.Mono-w.flushed >= w.cfg.Flush-w.cfg.Flush/8 || s.Mono < w.flushed { // a tick that comes a little early still counts
		w.flushed = s.Mono
		if err := w.gz.Flush(); err != nil {
			return w.fail(s, err)
		}
	}
	if w.written >= w.cfg.Segment {
		return w.end()
	}
	return nil
}

func (w *Writer) encode(v any) error {
	w.line.Reset()
	if err := w.enc.Encode(v); err != nil {
		return fmt.Errorf("encode for the recording: %v", err)
	}
	return nil
}

func (w *Writer) fail(s *Snapshot, err error) error {
	w.retryAt = s.Mono + retryAfterFail
	if w.file != nil {
		_ = w.file.Close() // the error that matters is the one in hand
		w.file = nil
		w.sizes = append(w.sizes, segmentSize{w.number, w.written})
	}
	return fmt.Errorf("write the recording: %w", err)
}

// begin opens the next segment. A snapshot that is about to be written brings its own Infos, so only the others go into the
// header.
func (w *Writer) begin(s *Snapshot) error {
	w.makeRoom()
	f, err := os.OpenFile(segmentPath(w.dir, w.number+1), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w.file, w.written = f, 0
	w.number++
	w.gz.Reset(segmentFile{w})
	h := header{
		Format: recordingFormat, Version: recordingVersion, Segment: w.number, Wall: s.Wall,
		Infos: w.others(s), Dropped: w.dropped,
	}
	if err := w.encode(&h); err != nil {
		return err
	}
	_, err = w.gz.Write(w.line.Bytes())
	return err
}

func (w *Writer) others(s *Snapshot) []ProcInfo {
	own := map[ProcID]bool{}
	for i := range s.Infos {
		own[s.Infos[i].ID] = true
	}
	var infos []ProcInfo
	for id, info := range w.live {
		if !own[id] {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b ProcInfo) int { return compareIDs(a.ID, b.ID) })
	return infos
}

func compareIDs(a, b ProcID) int {
	switch {
	case a.StartTicks < b.StartTicks:
		return -1
	case a.StartTicks > b.StartTicks:
		return 1
	}
	return int(a.PID) - int(b.PID)
}

// makeRoom deletes the oldest segments but the first, which holds the start of the run, until a new one fits under the cap.
func (w *Writer) makeRoom() {
	total := w.cfg.Segment
	for _, s := range w.sizes {
		total += s.bytes
	}
	for total > w.cfg.Limit && len(w.sizes) > 1 {
		victim := w.sizes[1]
		if err := os.Remove(segmentPath(w.dir, victim.number)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // tried again at the next segment
		}
		w.sizes = slices.Delete(w.sizes, 1, 2)
		w.dropped.Segments++
		w.dropped.Bytes += victim.bytes
		total -= victim.bytes
	}
}

// end closes the open segment.
func (w *Writer) end() error {
	err := errors.Join(w.gz.Close(), w.file.Close())
	w.sizes = append(w.sizes, segmentSize{w.number, w.written})
	w.file = nil
	if err != nil {
		return fmt.Errorf("end a segment of the recording: %w", err)
	}
	return nil
}

// Dropped is what the size cap has cost so far.
func (w *Writer) Dropped() Dropped { return w.dropped }

// Close ends the recording.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	return w.end()
}

// segmentFile counts what goes into the open segment.
type segmentFile struct{ w *Writer }

func (f segmentFile) Write(b []byte) (int, error) {
	n, err := f.w.file.Write(b)
	f.w.written += int64(n)
	return n, err
}
