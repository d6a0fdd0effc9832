package hosttest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// fuseHead is what every FUSE script starts with: a root folder that holds the file "data".
const fuseHead = `
import errno, os, stat, sys, time
import fusepy as fuse
class Base(fuse.Operations):
    def getattr(self, path, fh=None):
        if path == "/":
            return dict(st_mode=stat.S_IFDIR | 0o755, st_nlink=2)
        if path == "/data":
            return dict(st_mode=stat.S_IFREG | 0o644, st_nlink=1, st_size=1 << 20)
        raise fuse.FuseOSError(errno.ENOENT)
    def readdir(self, path, fh):
        return [".", "..", "data"]
    def read(self, path, size, offset, fh):
        return b"x" * max(0, min(size, (1 << 20) - offset))
    def statfs(self, path):
        return dict(f_bsize=4096, f_frsize=4096, f_blocks=1000, f_bfree=250, f_bavail=200, f_files=50, f_ffree=40)
`

// Fuse mounts a file system served by Python: methods are the body of a class that overrides fusepy's, on top of one that
// serves a single file "data" of 1 MiB; "" for that alone. It returns the mount point.
func Fuse(t testing.TB, methods string) string {
	t.Helper()
	NeedRoot(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("no FUSE in this kernel: %v", err)
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import fusepy").Run(); err != nil {
		t.Skipf("python3-fusepy is not installed: %v", err)
	}
	if methods == "" {
		methods = "    pass\n"
	}
	dir := t.TempDir()
	cmd := exec.Command("/usr/bin/python3", "-c",
		fuseHead+"class Ops(Base):\n"+methods+"\nfuse.FUSE(Ops(), sys.argv[1], foreground=True, direct_io=True, fsname='bucket')\n", dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	Start(t, cmd)
	t.Cleanup(func() {
		// Lazily: calls may hang in it. The server is killed next, which ends them with an error.
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	Until(t, "the FUSE mount", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data"))
		return err == nil
	})
	return dir
}
