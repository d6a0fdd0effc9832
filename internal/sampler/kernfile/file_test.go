package kernfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func TestReadSeesNewContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counter")
	f := New(path)
	defer f.Close()
	if _, err := f.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before the file exists: %v", err)
	}
	for _, want := range []string{"1\n", strings.Repeat("long line\n", 2000), "", "3\n"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := f.Read()
		if err != nil || string(got) != want {
			t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(want))
		}
	}
}

// A process that ended answers ESRCH through the kept descriptor.
func TestReadOfEndedProcess(t *testing.T) {
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	f := New("/proc/" + strconv.Itoa(p.Pid) + "/stat")
	defer f.Close()
	if b, err := f.Read(); err != nil || !bytes.HasPrefix(b, []byte(strconv.Itoa(p.Pid)+" (")) {
		t.Fatalf("%q, %v", b, err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil {
		t.Fatal("no error for a process that is gone")
	}
}

func TestReason(t *testing.T) {
	for err, want := range map[error]snapshot.GapReason{
		Malformed("stat", "x"):                     snapshot.GapMalformed,
		&fs.PathError{Err: unix.EACCES}:            snapshot.GapDenied,
		&fs.PathError{Err: unix.EPERM}:             snapshot.GapDenied,
		&fs.PathError{Err: unix.ESRCH}:             snapshot.GapGone,
		&fs.PathError{Err: unix.ENODEV}:            snapshot.GapGone,
		&fs.PathError{Err: unix.EOPNOTSUPP}:        snapshot.GapUnsupported,
		&fs.PathError{Err: unix.ENOENT}:            snapshot.GapUnsupported,
		&fs.PathError{Err: os.ErrDeadlineExceeded}: snapshot.GapUnsupported,
	} {
		if got := Reason(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestUint(t *testing.T) {
	max := strconv.FormatUint(math.MaxUint64, 10)
	for in, want := range map[string]bool{"0": true, max: true, "18446744073709551616": false, "": false, "-1": false, "1a": false} {
		n, ok := Uint([]byte(in))
		if ok != want || ok && strconv.FormatUint(n, 10) != in {
			t.Errorf("Uint(%q) = %d, %v", in, n, ok)
		}
	}
}

// A control group that was removed and made again under the same name: the kept descriptor answers ENODEV, the file is
// opened again.
func TestReadAfterRecreation(t *testing.T) {
	dir := hosttest.CgroupV1(t, "cpu")
	f := New(filepath.Join(dir, "cpu.shares"))
	defer f.Close()
	if b, err := f.Read(); err != nil || string(b) != "1024\n" {
		t.Fatalf("%q, %v", b, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := f.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("of a group that is gone: %q, %v", b, err)
	}
	// Made, read, removed and made again without a reading in between: the descriptor is stale, the name is not.
	for range 2 {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		hosttest.Write(t, filepath.Join(dir, "cpu.shares"), "2048")
		if b, err := f.Read(); err != nil || string(b) != "2048\n" {
			t.Fatalf("%q, %v", b, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}
