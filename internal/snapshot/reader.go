package snapshot

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
)

// ErrVersion is a recording that this program cannot read, because a newer one wrote it.
var ErrVersion = errors.New("unknown version of the recording format")

// ErrNoRecording is a folder without any segment.
var ErrNoRecording = errors.New("no recording")

// Reader replays a recording. It has the shape of a live source. A segment that is cut or damaged ends where it can be read
// no further, and reading goes on with the next one; Damage says what was lost. It is not safe for concurrent use.
type Reader struct {
	dir    string
	left   []int // segments still to be opened
	last   int   // the one opened last
	file   *os.File
	dec    *json.Decoder
	known  map[ProcID]ProcInfo
	joined []ProcInfo // facts from a header that the next snapshot must bring
	damage []string
}

// NewReader opens the recording in dir. It returns ErrNoRecording when there is none.
func NewReader(dir string) (*Reader, error) {
	ns, err := segments(dir)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if len(ns) == 0 {
		return nil, fmt.Errorf("open recording %s: %w", dir, ErrNoRecording)
	}
	return &Reader{dir: dir, left: ns, known: map[ProcID]ProcInfo{}}, nil
}

// Next returns the next snapshot, io.EOF after the last one, ErrVersion at a segment that it does not understand.
func (r *Reader) Next(ctx context.Context) (*Snapshot, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.dec == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		var s Snapshot
		err := r.dec.Decode(&s)
		if err == nil {
			r.join(&s)
			return &s, nil
		}
		if !errors.Is(err, io.EOF) { // the clean end of a segment, or, after a kill between two lines, none at all
			r.lose(err)
		}
		r.closeSegment()
	}
}

// open opens the next segment that can be begun. A damaged head costs that segment only.
func (r *Reader) open() error {
	for len(r.left) > 0 {
		n := r.left[0]
		r.left = r.left[1:]
		if r.last > 0 && n != r.last+1 {
			r.damage = append(r.damage, fmt.Sprintf("segments %d to %d are missing", r.last+1, n-1))
		}
		r.last = n
		err := r.begin(n)
		if err == nil {
			return nil
		}
		r.closeSegment()
		if errors.Is(err, ErrVersion) {
			return err
		}
		r.lose(err)
	}
	return io.EOF
}

func (r *Reader) begin(n int) error {
	path := segmentPath(r.dir, n)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	r.file = f
	gz, err := gzip.NewReader(bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return err
	}
	dec := json.NewDecoder(gz)
	var h header
	if err := dec.Decode(&h); err != nil {
		return err
	}
	if h.Format != recordingFormat {
		return fmt.Errorf("%s is not a segment of a recording", path)
	}
	if h.Version != recordingVersion {
		return fmt.Errorf("read %s: %w: it is %d, this program knows %d", path, ErrVersion, h.Version, recordingVersion)
	}
	r.dec = dec
	for _, info := range h.Infos {
		if old, ok := r.known[info.ID]; !ok || !reflect.DeepEqual(old, info) {
			r.joined = append(r.joined, info)
		}
	}
	return nil
}

// join gives a snapshot the facts that a reader that came late, or lost a segment, has not had yet.
func (r *Reader) join(s *Snapshot) {
	if len(r.joined) > 0 {
		s.Infos = append(r.joined, s.Infos...)
		r.joined = nil
	}
	for _, info := range s.Infos {
		r.known[info.ID] = info
	}
	for _, e := range s.Exits {
		delete(r.known, e.ID)
	}
}

func (r *Reader) lose(err error) {
	r.damage = append(r.damage, fmt.Sprintf("segment %d ends early: %v", r.last, err))
}

// Damage lists what could not be read so far, one line each for a person.
func (r *Reader) Damage() []string { return r.damage }

func (r *Reader) closeSegment() {
	r.dec = nil
	if r.file != nil {
		_ = r.file.Close() // read only: nothing to lose
		r.file = nil
	}
}

// Close releases the open segment.
func (r *Reader) Close() error {
	r.closeSegment()
	return nil
}
