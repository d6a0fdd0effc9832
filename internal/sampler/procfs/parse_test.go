package procfs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oracle "github.com/prometheus/procfs"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const statTail = " S 1 2 3 0 -1 4194560 10 0 20 0 300 400 0 0 20 0 7 0 123456 4096000 50 18446744073709551615 1 2 140001 0 0 0 0 0 0 0 0 0 17 0 0 0 9 0 0 0 0 0 0 0 0 0 2304\n"

func TestParseStatNames(t *testing.T) {
	for _, name := range []string{"python3", "a b", "a) S 1 (", ")", "(", "new\nline", "\xff\xfe", ""} {
		var s Stat
		if err := ParseStat([]byte("42 ("+name+")"+statTail), &s); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if string(s.Comm) != name {
			t.Errorf("name %q read as %q", name, s.Comm)
		}
		s.Comm = nil
		want := Stat{PID: 42, State: 'S', PPID: 1, PGID: 2, SID: 3, MinFlt: 10, MajFlt: 20, UTime: 3 * time.Second, STime: 4 * time.Second,
			NumThreads: 7, StartTicks: 123456, VSize: 4096000, RSS: 50 * uint64(os.Getpagesize()), StartStack: 140001,
			BlkIODelay: 90 * time.Millisecond, ExitCode: 2304}
		if d := cmp.Diff(want, s); d != "" {
			t.Errorf("%q (-want +got):\n%s", name, d)
		}
	}
}

func TestParsersRefuseMalformed(t *testing.T) {
	io := "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n"
	var s Stat
	var i snapshot.IO
	var d snapshot.Sched
	if err := ParseIO([]byte(io), &i); err != nil || i.CancelledWrite != 7 || i.ReadBytes != 5 {
		t.Fatalf("good io: %+v, %v", i, err)
	}
	for name, err := range map[string]error{
		"stat without a name": ParseStat([]byte("1 2 3"), &s),
		"stat cut":            ParseStat([]byte("1 (a) S 1 2"), &s),
		"stat with words":     ParseStat([]byte("1 (a) S x"+statTail[4:]), &s),
		"io cut":              ParseIO([]byte(io[:30]), &i),
		"io beyond 64 bits":   ParseIO([]byte(strings.Replace(io, " 1\n", " 18446744073709551616\n", 1)), &i),
		"io without a line":   ParseIO([]byte(io[len("rchar: 1\n"):]), &i),
		"schedstat of two":    ParseSchedstat([]byte("1 2\n"), &d),
		"schedstat negative":  ParseSchedstat([]byte("-1 2 3\n"), &d),
	} {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// TestAgainstOracle compares what we read of ourselves with what prometheus/procfs reads.
func TestAgainstOracle(t *testing.T) {
	fs, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	pid := os.Getppid() // go test: it idles while it waits for us
	theirs, err := oracle.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	want, err := theirs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var got Stat
	if err := fs.Stat(int32(pid), &got); err != nil {
		t.Fatal(err)
	}
	if int(got.PPID) != want.PPID || got.StartTicks != want.Starttime || string(got.Comm) != want.Comm || int(got.SID) != want.Session ||
		uint64(got.VSize) != uint64(want.VSize) || int(got.NumThreads) != want.NumThreads {
		t.Errorf("stat: got %+v, oracle %+v", got, want)
	}
	st, err := fs.Status(int32(pid))
	if err != nil {
		t.Fatal(err)
	}
	wantSt, err := theirs.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	if uint64(st.UID) != wantSt.UIDs[0] || len(wantSt.CpusAllowedList) != int(st.Status.CPUsAllowed) {
		t.Errorf("status: got %+v, oracle uid %v cpus %v", st, wantSt.UIDs, wantSt.CpusAllowedList)
	}
	var io snapshot.IO
	wantIO, err := theirs.IO()
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.IO(int32(pid), &io); err != nil || io.RChar < wantIO.RChar || io.WriteBytes < wantIO.WriteBytes {
		t.Errorf("io: got %+v (%v), oracle %+v before it", io, err, wantIO)
	}
}

func TestRedactArgs(t *testing.T) {
	tests := []struct{ in, want string }{
		{"python3 train.py --lr 0.1 --max-tokens 2048 --token-dim 64 --tokenizer gpt2", ""},
		{"train.py --wandb-key 0123456789abcdef0123456789abcdef01234567", "train.py --wandb-key " + Redacted},
		{"train.py --password 1234", "train.py --password " + Redacted},
		{"train.py --api-key=abc --next", "train.py --api-key=" + Redacted + " --next"},
		{"train.py wandb.api_key=abc", "train.py wandb.api_key=" + Redacted},
		{"env HF_TOKEN=hf_abcdef WORLD=1", "env HF_TOKEN=" + Redacted + " WORLD=1"},
		{"curl https://user:pw@host/data?X-Amz-Signature=abc&part=1", "curl https://" + Redacted + "@host/data?X-Amz-Signature=" + Redacted + "&part=1"},
		{"x hf_AbCdEfGhIjKlMnOpQr", "x " + Redacted},
		{"x /data/imagenet_resnet50_2024-01-01_run3/checkpoint-000123.pt", ""},
		{"x pipe_handle=10 --multiprocessing-fork", ""},
		{"x aB3dE5gH7jK9mN1pQ3sT5vW7", "x " + Redacted},
	}
	for _, tt := range tests {
		want := tt.want
		if want == "" {
			want = tt.in
		}
		if got := strings.Join(RedactArgs(strings.Fields(tt.in)), " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, want)
		}
	}
	script := RedactArgs([]string{"bash", "-c", "export API_TOKEN='s3cret'; curl -H 'Authorization: Bearer s3cret' http://h; exec python train.py --password s3cret"})
	if strings.Contains(strings.Join(script, " "), "s3cret") || !strings.Contains(script[2], "exec python train.py") {
		t.Errorf("script redacted to %q", script[2])
	}
}

func TestParseEnvironIsAllowList(t *testing.T) {
	got := ParseEnviron([]byte("RANK=3\x00AWS_SECRET_ACCESS_KEY=x\x00HOME=/root\x00TORCHELASTIC_RUN_ID=r1\x00ACCELERATE_API_TOKEN=t\x00MASTER_ADDR=http://u:p@h\x00broken\x00"))
	want := map[string]string{"RANK": "3", "TORCHELASTIC_RUN_ID": "r1", "MASTER_ADDR": "http://" + Redacted + "@h"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseSmallFiles(t *testing.T) {
	if s, err := ParseSyscall([]byte("7 0x7ffd10 0x1 0x1388 0x0 0x0 0x0 0x7ffd00 0x7f\n")); err != nil || s.Nr != 7 || s.Args[2] != 5000 {
		t.Errorf("syscall: %+v, %v", s, err)
	}
	if s, err := ParseSyscall([]byte("running\n")); err != nil || !s.Running {
		t.Errorf("running: %+v, %v", s, err)
	}
	if s, err := ParseSyscall([]byte("-1 0x7ffd00 0x7f\n")); err != nil || s.Nr != -1 || s.Running {
		t.Errorf("page fault: %+v, %v", s, err)
	}
	if got := ParseWChan([]byte("folio_wait_bit_common.isra.0")); got != "folio_wait_bit_common" {
		t.Errorf("wchan %q", got)
	}
	if got := ParseWChan([]byte("0")); got != "" {
		t.Errorf("wchan of a running thread %q", got)
	}
	for in, want := range map[string]string{
		"0::/job.slice\n": "/job.slice", "5:memory:/m\n1:cpu,cpuacct:/c\n0::/\n": "/m", "0::/\n": "/", "": "",
	} {
		if got := ParseCgroup([]byte(in)); got != want {
			t.Errorf("cgroup of %q: %q, want %q", in, got, want)
		}
	}
	if n := parseList("0-3,8,10-11"); n != 7 {
		t.Errorf("7 CPUs counted as %d", n)
	}
	if pid, err := ParseLastPID([]byte("0.1 0.2 0.3 1/200 4711\n")); err != nil || pid != 4711 {
		t.Errorf("last pid %d, %v", pid, err)
	}
	f, err := ParseFDInfo([]byte("pos:\t4096\nflags:\t0100001\nmnt_id:\t27\nino:\t5\n"))
	if want := (snapshot.OpenFile{Pos: 4096, Flags: 0o100001, MountID: 27}); err != nil || f != want {
		t.Errorf("fdinfo: %+v, %v", f, err)
	}
}

func TestListingFindsOurselves(t *testing.T) {
	fs, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	for range 2 { // the kept descriptor is listed again from its beginning
		pids, err := fs.PIDs(nil)
		if err != nil || !slices.Contains(pids, int32(os.Getpid())) || !slices.IsSorted(pids) {
			t.Errorf("listing of %d pids, %v", len(pids), err)
		}
	}
	if !fs.Own() {
		t.Error("/proc is not taken for our own")
	}
}

// FuzzParsers feeds every parser. None may panic, and what they accept must be in range.
func FuzzParsers(f *testing.F) {
	f.Add([]byte("42 (a b)" + statTail))
	f.Add([]byte("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n"))
	f.Add([]byte("7 0x1 0x1 0x1388 0x0 0x0 0x0 0x0 0x0\n"))
	f.Add([]byte("Uid:\t0\t0\nSigCgt:\t00ff\nRssAnon:\t4 kB\nCpus_allowed_list:\t0-1\npos:\t1\nflags:\t02\n"))
	f.Add([]byte("RANK=1\x00TORCHELASTIC_X=https://a:b@c/?token=1\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Stat
		if ParseStat(b, &s) == nil && len(s.Comm) > len(b) {
			t.Error("name longer than the file")
		}
		var io snapshot.IO
		_ = ParseIO(b, &io)
		var d snapshot.Sched
		_ = ParseSchedstat(b, &d)
		_, _ = ParseStatus(b)
		_, _ = ParseSyscall(b)
		_, _ = ParseFDInfo(b)
		if p, err := ParseLastPID(b); err == nil && p < 0 {
			t.Error("negative pid")
		}
		_, _ = ParseStatmResident(b)
		_ = ParseWChan(b)
		_ = ParseCgroup(b)
		_ = ParseEnviron(b)
		if args := ParseCmdline(b); len(args) > maxArgs+1 {
			t.Errorf("%d arguments", len(args))
		}
		for _, pid := range parseDirents(b, nil) {
			if pid < 0 {
				t.Error("negative pid in a listing")
			}
		}
	})
}

func TestHotParsersDoNotAllocate(t *testing.T) {
	stat := []byte("42 (python3)" + statTail)
	io := []byte("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n")
	var s Stat
	var i snapshot.IO
	var d snapshot.Sched
	n := testing.AllocsPerRun(100, func() {
		if ParseStat(stat, &s) != nil || ParseIO(io, &i) != nil || ParseSchedstat([]byte("1 2 3\n"), &d) != nil {
			t.Error("a parser failed")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per reading", n)
	}
}
