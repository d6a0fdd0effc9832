package detect

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Flags of open(2) as /proc/PID/fdinfo shows them (x86-64, octal).
const (
	flagWriteOnly = 0o1
	flagReadWrite = 0o2
	flagAppend    = 0o2000
	flagDSync     = 0o10000
	flagDirect    = 0o40000
)

// fileKind is what a file's name says about it.
type fileKind int

const (
	fileUnknown fileKind = iota
	fileModel            // a model state by its name
	fileOther            // certainly something else
)

// modelSuffixes are the names under which model states are written.
var modelSuffixes = []string{
	".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".pkl", ".pickle", ".npz", ".npy", ".h5", ".hdf5", ".tar",
	".msgpack", ".onnx", ".metadata", ".model", ".weights", ".state", ".pdparams", ".pdopt", ".zarr",
}

// otherSuffixes are the names of what a training job also writes.
var otherSuffixes = []string{
	".log", ".txt", ".csv", ".tsv", ".json", ".jsonl", ".arrow", ".parquet", ".feather", ".mdb", ".lock", ".db", ".sqlite",
	".wandb", ".prof", ".out", ".err", ".html", ".png", ".jpg", ".jpeg", ".mp4", ".gz", ".zip", ".so", ".o", ".py", ".pyc",
	".cache", ".idx", ".tfrecord", ".yaml", ".yml", ".md", ".incomplete", ".part", ".download", ".crdownload", ".swap",
}

// kindOfFile judges a path. A temporary name is judged by what it is made from: x.pt.tmp, x.pt.1234, .x.pt.tmp-5.
func kindOfFile(name string) fileKind {
	base := strings.ToLower(path.Base(strings.TrimSuffix(name, " (deleted)")))
	switch {
	case strings.HasPrefix(name, "/dev/shm/torch_"), strings.HasPrefix(name, "/proc/"), strings.HasPrefix(name, "/dev/null"):
		return fileOther
	case strings.Contains(base, "tfevents"), strings.HasPrefix(base, "core"), strings.Contains(base, "trace.json"):
		return fileOther
	}
	for ext := path.Ext(base); ext != ""; ext = path.Ext(base) {
		for _, s := range otherSuffixes {
			if ext == s {
				return fileOther
			}
		}
		for _, s := range modelSuffixes {
			if ext == s {
				return fileModel
			}
		}
		if base = strings.TrimSuffix(base, ext); base == "" {
			break
		}
	}
	return fileUnknown
}

// fileRecord is one file that was written, as far as its events and the open files tell.
type fileRecord struct {
	path    string
	final   string // its name after a rename
	kind    fileKind
	writer  snapshot.ProcID // zero: only known from events
	mount   int32           // 0: not known
	opened  time.Duration   // the create event, or the first sight of the open file
	exact   bool            // opened is an event's
	closed  time.Duration   // 0: not seen
	moved   time.Duration   // 0: not seen
	seen    time.Duration   // last sight of the open file
	pos     int64
	first   int64 // pos at the first sight
	size    int64 // at the close, -1 when not known
	synced  bool  // opened for synchronous or direct writes
	append  bool
	taken   bool // belongs to an episode
	created bool
}

func (r *fileRecord) name() string {
	if r.final != "" {
		return r.final
	}
	return r.path
}

// end is the moment at which the file was complete, 0 when that was not seen.
func (r *fileRecord) end() time.Duration { return max(r.closed, r.moved) }

// bytes is the file's logical size as far as it is known.
func (r *fileRecord) bytes() int64 { return max(r.size, r.pos) }

// fileBook keeps the files written lately.
type fileBook struct {
	open map[string]*fileRecord // by path, not closed yet
	done []*fileRecord          // closed, not yet forgotten
}

func newFileBook() *fileBook { return &fileBook{open: map[string]*fileRecord{}} }

// read takes a snapshot's events and open files.
func (b *fileBook) read(s *snapshot.Snapshot) {
	for i := range s.FileEvents {
		b.event(&s.FileEvents[i])
	}
	for i := range s.Files {
		b.sight(&s.Files[i])
	}
}

func (b *fileBook) event(e *snapshot.FileEvent) {
	if kindOfFile(e.Path) == fileOther {
		return
	}
	switch e.Kind {
	case snapshot.FileCreated:
		b.retire(e.Path)
		b.open[e.Path] = &fileRecord{
			path: e.Path, kind: kindOfFile(e.Path), opened: e.At, exact: true, seen: e.At, pos: max(0, e.Size), size: -1, created: true,
		}
	case snapshot.FileClosedWrite:
		r := b.open[e.Path]
		if r == nil { // overwritten in place: no create event
			r = &fileRecord{path: e.Path, kind: kindOfFile(e.Path), opened: e.At, seen: e.At}
		}
		r.closed, r.size = e.At, e.Size
		delete(b.open, e.Path)
		b.done = append(b.done, r)
	case snapshot.FileMovedTo:
		b.rename(e)
	}
}

// rename joins a rename with the file it ended: the one in the same directory that was closed last.
func (b *fileBook) rename(e *snapshot.FileEvent) {
	for i := len(b.done) - 1; i >= 0; i-- {
		r := b.done[i]
		if r.moved == 0 && path.Dir(r.path) == path.Dir(e.Path) && e.At-r.closed < 5*time.Second {
			r.moved, r.final = e.At, e.Path
			if e.Size >= 0 {
				r.size = e.Size
			}
			if k := kindOfFile(e.Path); k != fileUnknown {
				r.kind = k
			}
			return
		}
	}
}

// sight takes an open file of a process.
func (b *fileBook) sight(f *snapshot.OpenFile) {
	if f.Flags&(flagWriteOnly|flagReadWrite) == 0 || strings.HasPrefix(f.Path, "/dev/") || strings.HasPrefix(f.Path, "/proc/") {
		return
	}
	if r := b.closedSince(f); r != nil {
		r.writer, r.mount = f.ID, f.MountID
		return
	}
	r := b.open[f.Path]
	if r == nil {
		r = &fileRecord{path: f.Path, kind: kindOfFile(f.Path), opened: f.At, size: -1, first: f.Pos, created: f.Flags&flagReadWrite == 0}
		b.open[f.Path] = r
	}
	if f.Pos > r.pos || r.seen == 0 {
		r.seen = f.At
	}
	r.writer, r.mount, r.pos = f.ID, f.MountID, max(r.pos, f.Pos)
	r.append = f.Flags&flagAppend != 0
	r.synced = r.synced || f.Flags&(flagDSync|flagDirect) != 0
}

// sightLag is how much later than the read of its process a sight may be stamped.
const sightLag = 200 * time.Millisecond

// closedSince finds the record of a file that was closed after it was seen open: within a frame events are read first.
func (b *fileBook) closedSince(f *snapshot.OpenFile) *fileRecord {
	if b.open[f.Path] != nil {
		return nil
	}
	for i := len(b.done) - 1; i >= 0; i-- {
		if r := b.done[i]; r.path == f.Path && f.At <= r.closed+sightLag {
			return r
		}
	}
	return nil
}

// retire ends a record whose path begins anew.
func (b *fileBook) retire(path string) {
	if r := b.open[path]; r != nil {
		b.done = append(b.done, r)
		delete(b.open, path)
	}
}

// forget drops what is older than a moment and not part of an open episode.
func (b *fileBook) forget(before time.Duration) {
	kept := b.done[:0]
	for _, r := range b.done {
		if r.end() >= before {
			kept = append(kept, r)
		}
	}
	clear(b.done[len(kept):])
	b.done = kept
	for p, r := range b.open {
		if max(r.seen, r.opened) < before {
			delete(b.open, p)
		}
	}
}

// rankInName is the rank that a sharded checkpoint's file names (__3_0.distcp of torch.distributed.checkpoint).
func rankInName(name string) (int, bool) {
	base := path.Base(name)
	if !strings.HasPrefix(base, "__") {
		return 0, false
	}
	n, err := strconv.Atoi(strings.SplitN(base[2:], "_", 2)[0])
	return n, err == nil
}
