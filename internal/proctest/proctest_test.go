package proctest

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func TestCaptureOfRealProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100; :", "--api-key", "hunter2secret")
	cmd.Env = append(os.Environ(), "RANK=3", "AWS_SECRET_ACCESS_KEY=hunter2secret")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := int32(cmd.Process.Pid)
	var a *Archive
	for a == nil || len(a.Links) == 0 || !strings.Contains(a.Files[strconv.Itoa(int(pid))+"/cmdline"], "api-key") {
		var err error // until the exec has happened
		if a, err = Capture("/proc", pid); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if _, err := a.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "hunter2") {
		t.Error("a secret is in the capture")
	}
	back, err := ParseArchive(&text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, back); d != "" {
		t.Errorf("text form loses something (-want +got):\n%s", d)
	}
	root := t.TempDir()
	if err := back.Unpack(root); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	var st procfs.Stat
	if err := fs.Stat(pid, &st); err != nil || st.PID != pid || string(st.Comm) != "sh" {
		t.Errorf("stat from the capture: %+v, %v", st, err)
	}
	if env, err := fs.Environ(pid); err != nil || env["RANK"] != "3" {
		t.Errorf("environment from the capture: %v, %v", env, err)
	}
}

func TestLiteralsAreReadable(t *testing.T) {
	a := NewArchive()
	a.Add(Proc{PID: 7, PPID: 1, Start: 99, Comm: "we) ird\n\xff", Args: []string{"python3", "train.py"}, IO: &snapshot.IO{WChar: 5},
		Threads: []string{"pt_data_pin"}, Pipes: []string{"pipe:[5]"}, Files: map[string]int64{"/ckpt/a.pt": 42}})
	root := t.TempDir()
	if err := a.Unpack(root); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	var st procfs.Stat
	if err := fs.Stat(7, &st); err != nil || st.StartTicks != 99 || st.NumThreads != 2 || string(st.Comm) != "we) ird\n\xff" {
		t.Errorf("stat: %+v, %v", st, err)
	}
	own, err := fs.OwnIO(7, 10)
	if err != nil || own.WChar != 5 {
		t.Errorf("own io: %+v, %v", own, err)
	}
	fds, err := fs.FDs(7, 100, true)
	want := procfs.FDs{Count: 4, Pipes: []string{"pipe:[5]"}, Files: []snapshot.OpenFile{{FD: 3, Path: "/ckpt/a.pt", Flags: 1, Pos: 42, MountID: 27}}}
	if d := cmp.Diff(want, fds); d != "" || err != nil {
		t.Errorf("descriptors (%v, -want +got):\n%s", err, d)
	}
}

func TestArchiveRefusesPathsOutside(t *testing.T) {
	if _, err := ParseArchive(strings.NewReader("== text ../../etc/passwd\nx\n")); err == nil {
		t.Error("a path out of the archive was accepted")
	}
}

func FuzzParseArchive(f *testing.F) {
	f.Add("== text 1/stat\n1 (a) S\n== quoted 1/cmdline\n\"a\\x00\"\n== link 1/exe\n\"/bin/a\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArchive(strings.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if _, err := a.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		back, err := ParseArchive(&b)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if d := cmp.Diff(a, back); d != "" {
			t.Error(d)
		}
	})
}
