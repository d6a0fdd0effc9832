//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A container whose file system is this machine's /usr, read-only: an image made locally, with nothing to download.
type container struct {
	id, bundle, runs string
}

// newContainer writes a bundle in which ptlaunch, as PID 1, runs a command.
func newContainer(t *testing.T, command ...string) container {
	t.Helper()
	c := container{id: fmt.Sprintf("ptlaunch-e2e-%d", os.Getpid()), bundle: t.TempDir(), runs: t.TempDir()}
	root := filepath.Join(c.bundle, "rootfs")
	for _, dir := range []string{"proc", "dev", "sys", "tmp", "usr", "etc", "opt", "runs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(from, to string, options ...string) map[string]any {
		return map[string]any{"destination": to, "source": from, "type": "bind", "options": append([]string{"rbind"}, options...)}
	}
	spec := map[string]any{
		"ociVersion": "1.0.0",
		"process": map[string]any{
			"args": append([]string{"/opt/ptlaunch", "--out", "/runs", "--"}, command...),
			"env":  []string{"PATH=/usr/bin:/bin"}, "cwd": "/", "user": map[string]any{"uid": 0, "gid": 0},
		},
		"root": map[string]any{"path": "rootfs"},
		"mounts": []any{
			map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
			map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=755"}},
			map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
			bind("/sys", "/sys", "ro"), bind("/usr", "/usr", "ro"), bind("/etc", "/etc", "ro"),
			bind(filepath.Dir(ptlaunch), "/opt", "ro"), bind(c.runs, "/runs"),
		},
		"linux": map[string]any{"namespaces": []any{
			map[string]string{"type": "pid"}, map[string]string{"type": "mount"}, map[string]string{"type": "ipc"}, map[string]string{"type": "uts"},
		}},
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.bundle, "config.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runc("delete", "--force", c.id).Run() })
	return c
}

func runc(args ...string) *exec.Cmd {
	return exec.Command("runc", args...)
}

func (c container) start(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := runc("run", "--bundle", c.bundle, c.id)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// TestContainerStopped: the runtime's stop signal reaches the training behind PID 1, and the exit code is 128+n.
func TestContainerStopped(t *testing.T) {
	c := newContainer(t, "/bin/sh", "-c", "echo started > /runs/started; exec sleep 600")
	cmd, out := c.start(t)
	eventually(t, "the container to start", func() error {
		_, err := os.Stat(filepath.Join(c.runs, "started"))
		return err
	})
	if text, err := runc("kill", c.id, "TERM").CombinedOutput(); err != nil {
		t.Fatalf("runc kill: %v\n%s", err, text)
	}
	if got, want := exitCode(cmd.Wait()), 128+15; got != want {
		t.Errorf("exit code %d, want %d\n%s", got, want, out)
	}
}

// TestContainerReaps: a job that leaves orphans behind leaves no zombie while it runs, and its own exit code is the container's.
func TestContainerReaps(t *testing.T) {
	const script = `
import os, sys, time
for _ in range(200):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)    # an orphan: its parent is gone or about to go
        os._exit(0)
    os.wait()
def zombies():
    n = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            n += open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            pass
    return n
for _ in range(300):
    if zombies() == 0:
        break
    time.sleep(0.1)
print("zombies left:", zombies(), "parent:", os.getppid())
sys.exit(7)
`
	c := newContainer(t, "/usr/bin/python3", "-c", script)
	cmd, out := c.start(t)
	if got := exitCode(cmd.Wait()); got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
	if !strings.Contains(out.String(), "zombies left: 0 parent: 1") {
		t.Errorf("the job said:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(c.runs, "latest", "report.json")); err != nil {
		t.Errorf("no report on the volume: %v", err)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
