package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tick makes the n-th snapshot of a small job: process 1 lives all along, process n+1 is born in it and ends in the next.
func tick(n int) *Snapshot {
	id := func(k int) ProcID { return ProcID{PID: int32(k), StartTicks: uint64(100 + k)} }
	s := &Snapshot{
		Seq: uint64(n), Wall: time.Date(2026, 1, 2, 3, 4, n, 5000, time.UTC), Mono: time.Duration(n) * time.Second,
		Procs: []Proc{{ID: id(1), At: time.Duration(n) * time.Second, State: 'S', IO: &IO{RChar: uint64(n) << 20}}},
		Gaps:  []Gap{{Source: "procfs.io", Reason: GapDenied}},
	}
	if n == 1 {
		s.Infos = append(s.Infos, ProcInfo{ID: id(1), Comm: "python3", Env: map[string]string{"RANK": "0"}})
	} else {
		s.Exits = append(s.Exits, Exit{ID: id(n), Status: &ExitStatus{Signal: 9}})
	}
	s.Infos = append(s.Infos, ProcInfo{ID: id(n + 1), Comm: fmt.Sprint("worker", n)})
	return s
}

func record(t *testing.T, dir string, cfg WriterConfig, from, to int) *Writer {
	t.Helper()
	w, err := NewWriter(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for n := from; n <= to; n++ {
		if err := w.Write(tick(n)); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
	}
	return w
}

func replay(t *testing.T, dir string) ([]*Snapshot, *Reader) {
	t.Helper()
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []*Snapshot
	for {
		s, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out, r
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
}

func TestRecordingRoundTrip(t *testing.T) {
	dir := t.TempDir()
	// One byte per segment: every snapshot gets its own, so the headers' facts must not show up as news.
	for _, cfg := range []WriterConfig{{}, {Segment: 1}} {
		dir := dir + fmt.Sprint(cfg.Segment)
		if err := record(t, dir, cfg, 1, 20).Close(); err != nil {
			t.Fatal(err)
		}
		got, r := replay(t, dir)
		var want []*Snapshot
		for n := 1; n <= 20; n++ {
			want = append(want, tick(n))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("segment size %d (-want +got):\n%s", cfg.Segment, d)
		}
		if len(r.Damage()) > 0 {
			t.Errorf("damage reported: %v", r.Damage())
		}
	}
}

func TestRecordingSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, WriterConfig{}, 1, 30) // never closed
	got, _ := replay(t, dir)
	if len(got) < 29 {
		t.Errorf("%d of 30 snapshots readable after a kill, want all but the last second", len(got))
	}
}

func TestRecordingCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	if err := record(t, dir, WriterConfig{}, 1, 10).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(segmentPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for cut := range whole {
		if err := os.WriteFile(segmentPath(dir, 1), whole[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		got, r := replay(t, dir)
		if len(got) < last {
			t.Fatalf("cut at %d: %d snapshots, fewer than with a shorter file (%d)", cut, len(got), last)
		}
		if len(got) < 10 && len(r.Damage()) == 0 {
			t.Fatalf("cut at %d: %d snapshots and no damage reported", cut, len(got))
		}
		last = len(got)
	}
	if last != 10 {
		t.Errorf("with all but the last byte: %d snapshots, want 10", last)
	}
}

func TestRecordingCapKeepsStartAndEnd(t *testing.T) {
	dir := t.TempDir()
	w := record(t, dir, WriterConfig{Segment: 1, Limit: 3000}, 1, 40)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var size int64
	ns, _ := segments(dir)
	for _, n := range ns {
		info, err := os.Stat(segmentPath(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 3000+400 { // the newest segment may run over by what its last snapshot takes
		t.Errorf("%d bytes kept, cap is 3000", size)
	}
	if w.Dropped().Segments+len(ns) != 40 || w.Dropped().Bytes == 0 {
		t.Errorf("dropped %+v and kept %d of 40 segments", w.Dropped(), len(ns))
	}
	got, r := replay(t, dir)
	if first, last := got[0].Seq, got[len(got)-1].Seq; first != 1 || last != 40 {
		t.Errorf("kept %d to %d, want the first and the last", first, last)
	}
	if len(r.Damage()) != 1 || !strings.Contains(r.Damage()[0], "missing") {
		t.Errorf("damage %q, want one hole", r.Damage())
	}
	// The reader must know after the hole what the dropped segments had told: the worker that lives across its end.
	after := got[1]
	if !cmp.Equal(after.Infos[0].Comm, fmt.Sprint("worker", after.Seq-1)) {
		t.Errorf("facts after the hole: %+v, want those of the worker born in the hole first", after.Infos)
	}
}

func TestRecordingIsContinued(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, WriterConfig{}, 1, 3) // killed
	if err := record(t, dir, WriterConfig{}, 4, 6).Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := replay(t, dir)
	if len(got) != 6 {
		t.Errorf("%d snapshots, want the 6 of both lives", len(got))
	}
}

func TestReaderRefusesUnknownVersion(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, _ = gz.Write([]byte(`{"format":"ptlaunch.recording","version":99,"segment":1}` + "\n"))
	_ = gz.Close()
	if err := os.WriteFile(segmentPath(dir, 1), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "99") {
		t.Errorf("error %v, want ErrVersion that names the version", err)
	}
	if _, err := NewReader(t.TempDir()); !errors.Is(err, ErrNoRecording) {
		t.Errorf("empty folder: %v, want ErrNoRecording", err)
	}
}

func TestWriterReportsFullDisk(t *testing.T) {
	dir := t.TempDir()
	w := record(t, dir, WriterConfig{}, 1, 1)
	_ = w.file.Close() // the next write fails as on a full disk
	if err := w.Write(tick(2)); err == nil {
		t.Fatal("a failed write was not reported")
	}
	if err := w.Write(tick(3)); err == nil {
		t.Error("a write right after the failure was tried again")
	}
	if err := w.Write(tick(14)); err != nil {
		t.Errorf("10 s later: %v, want a new segment", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := replay(t, dir)
	if len(got) != 2 || got[1].Seq != 14 {
		t.Errorf("replayed %d snapshots, want 1 and 14", len(got))
	}
}

// script is a source of a fixed number of ticks.
type script struct{ n, max int }

func (s *script) Next(context.Context) (*Snapshot, error) {
	if s.n == s.max {
		return nil, io.EOF
	}
	s.n++
	return tick(s.n), nil
}

func TestTeeDropsWhenDiskIsSlow(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(dir, WriterConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// The writing goroutine is started late: until then the disk "hangs".
	tee := &Tee{src: &script{max: teeQueue + 10}, queue: make(chan *Snapshot, teeQueue), done: make(chan error, 1)}
	for n := 1; n < teeQueue+10; n++ {
		s, err := tee.Next(t.Context())
		if err != nil || s.Seq != uint64(n) {
			t.Fatalf("snapshot %d was not passed on: %v", n, err)
		}
		if d := cmp.Diff(tick(n), s); d != "" {
			t.Fatalf("snapshot %d was changed (-want +got):\n%s", n, d)
		}
	}
	if tee.Dropped() != 9 {
		t.Errorf("dropped %d, want 9", tee.Dropped())
	}
	go tee.record(w, slog.New(slog.DiscardHandler))
	for len(tee.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := tee.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tee.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := replay(t, dir)
	final := got[len(got)-1]
	if final.Seq != teeQueue+10 || len(final.Exits) != 10 || len(final.Infos) != 10 {
		t.Errorf("after the hole: seq %d with %d exits and %d infos, want those of the 9 dropped ones too",
			final.Seq, len(final.Exits), len(final.Infos))
	}
}

func TestTeeCloseDoesNotWaitForHungDisk(t *testing.T) {
	tee := &Tee{queue: make(chan *Snapshot), done: make(chan error)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tee.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	dir := f.TempDir()
	w, err := NewWriter(dir, WriterConfig{})
	if err != nil {
		f.Fatal(err)
	}
	for n := 1; n < 4; n++ {
		if err := w.Write(tick(n)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(segmentPath(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 1), b, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := r.Next(t.Context()); err != nil {
				return // io.EOF or ErrVersion: anything but a panic or an endless loop
			}
		}
	})
}

// BenchmarkWriter records a job of 137 processes.
func BenchmarkWriter(b *testing.B) {
	s := tick(1)
	s.Infos, s.Exits = nil, nil
	for k := range 137 {
		s.Procs = append(s.Procs, Proc{
			ID: ProcID{PID: int32(1000 + k), StartTicks: uint64(k) * 7919}, State: 'S', UTime: time.Duration(k) * 1e9, RSS: uint64(k) << 20,
			IO: &IO{RChar: uint64(k) * 1e7}, Sched: &Sched{Run: time.Duration(k) * 123456789},
		})
	}
	w, err := NewWriter(b.TempDir(), WriterConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		for k := range s.Procs {
			s.Procs[k].At += time.Second + time.Duration(k*n%1000)
			if s.Procs[k].IO != nil {
				s.Procs[k].IO.RChar += uint64(k * 100000)
			}
		}
		s.Mono += time.Second
		if err := w.Write(s); err != nil {
			b.Fatal(err)
		}
	}
	var bytes int64
	for _, seg := range w.sizes {
		bytes += seg.bytes
	}
	b.ReportMetric(float64(bytes+w.written)/float64(n), "bytes/tick")
}
