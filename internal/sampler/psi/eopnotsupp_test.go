package psi

import (
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// A kernel booted without psi=1 lets the files be opened and fails the read with EOPNOTSUPP (prometheus/node_exporter#1961).
// A FUSE file does the same.
func TestReadRefused(t *testing.T) {
	dir := hosttest.Fuse(t, `
    def getattr(self, path, fh=None):
        if path == "/pressure":
            return dict(st_mode=stat.S_IFDIR | 0o755, st_nlink=2)
        if path.startswith("/pressure/"):
            return dict(st_mode=stat.S_IFREG | 0o444, st_nlink=1, st_size=0)
        return super().getattr(path, fh)
    def read(self, path, size, offset, fh):
        raise fuse.FuseOSError(errno.EOPNOTSUPP)
`)
	r := System(dir)
	defer r.Close()
	var s snapshot.Snapshot
	r.Read(0, &s)
	if len(s.Pressure) != 0 {
		t.Errorf("a refused read became pressure %+v", s.Pressure)
	}
	if len(s.Gaps) != 3 || s.Gaps[0].Reason != snapshot.GapUnsupported {
		t.Errorf("gaps: %+v", s.Gaps)
	}
}
