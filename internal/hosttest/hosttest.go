package hosttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// NeedRoot skips a test that sets up what only root may.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// Run runs a command and fails the test when it fails. It returns what the command printed.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String()
}

// Until waits for a state and fails the test when it has not come after a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// Tree makes a folder of files: the keys are paths, the values their text. A value that starts with "-> " makes a symbolic
// link, a key that ends in "/" a folder.
func Tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(target, path)
		} else if !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Loop makes an image file of size bytes and attaches it to a loop device. It returns the device's path, "/dev/loop3".
func Loop(t testing.TB, size int64) string {
	t.Helper()
	NeedRoot(t)
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("this kernel has no loop devices: %v", err)
	}
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Truncate(size)
	if cerr := f.Close(); err != nil || cerr != nil {
		t.Fatal(errors.Join(err, cerr))
	}
	dev := strings.TrimSpace(Run(t, "losetup", "--find", "--show", image))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v: %s", dev, err, out)
		}
	})
	return dev
}

// Number returns a block device's number, "7:3".
func Number(t testing.TB, dev string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

// Ext4 makes a file system on dev and mounts it on a new folder.
func Ext4(t testing.TB, dev string) string {
	t.Helper()
	Run(t, "mkfs.ext4", "-q", "-F", dev)
	dir := t.TempDir()
	Run(t, "mount", dev, dir)
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

func unmount(t testing.TB, dir string) {
	t.Helper()
	if err := unix.Unmount(dir, 0); err != nil {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	}
}

// CgroupV1 makes a control group in a v1 hierarchy ("cpu", "blkio", "memory") and returns its folder. At the end what is
// still in it is killed.
func CgroupV1(t testing.TB, controller string) string {
	t.Helper()
	NeedRoot(t)
	top := filepath.Join("/sys/fs/cgroup", controller)
	if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil {
		t.Skipf("no v1 hierarchy of %s here: %v", controller, err)
	}
	dir, err := os.MkdirTemp(top, "ptl-test-") //nolint:usetesting // a control group, within its hierarchy
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeCgroup(t, dir) })
	return dir
}

func removeCgroup(t testing.TB, dir string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || time.Now().After(deadline) {
			if err != nil {
				t.Errorf("remove %s: %v", dir, err)
			}
			return
		}
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// Write writes a kernel file.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Start starts a command that is killed, with its process group, at the end of the test.
func Start(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}
