package psi

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// A kernel booted without psi=1 lets the files be opened and fails the read with EOPNOTSUPP (prometheus/node_exporter#1961).
// A FUSE file does the same.
func TestReadRefused(t *testing.T) {
	const script = `
import errno, stat, sys
import fusepy as fuse
class Ops(fuse.Operations):
    def getattr(self, path, fh=None):
        if path in ("/", "/pressure"):
            return dict(st_mode=stat.S_IFDIR | 0o755, st_nlink=2)
        return dict(st_mode=stat.S_IFREG | 0o444, st_nlink=1, st_size=0)
    def readdir(self, path, fh):
        return [".", "..", "io", "cpu", "memory"]
    def read(self, path, size, offset, fh):
        raise fuse.FuseOSError(errno.EOPNOTSUPP)
fuse.FUSE(Ops(), sys.argv[1], foreground=True, direct_io=True)
`
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("no FUSE in this kernel: %v", err)
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import fusepy").Run(); err != nil {
		t.Skipf("python3-fusepy is not installed: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command("/usr/bin/python3", "-c", script, dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("umount", "-l", dir).Run()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	mounted := func() bool { _, err := os.Stat(filepath.Join(dir, "pressure", "io")); return err == nil }
	for deadline := time.Now().Add(30 * time.Second); !mounted(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("FUSE did not come up: %s", &out)
		}
	}
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
