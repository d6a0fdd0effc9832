package network

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	heading = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
`
	devText = heading + `    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    5000      10    0    0    0     0          0         0      700       8    0    0    0     0       0          0
docker0:   4000      10    0    0    0     0          0         0      600       8    0    0    0     0       0          0
`
	tcpText = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000005 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000010:00000400 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:1F91 0100007F:C351 08 00000000:00000001 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1
`
)

func fake() map[string]string {
	return map[string]string{
		"proc/self/ns/net": "-> net:[1]", "proc/7/ns/net": "-> net:[1]", "proc/7/net/dev": devText,
		"proc/7/net/sockstat": "sockets: used 37\nTCP: inuse 3 orphan 0 tw 1 alloc 18 mem 55\n", "proc/7/net/tcp": tcpText,
		"proc/7/fd/3": "-> socket:[11]", "proc/7/fd/4": "-> socket:[12]", "proc/7/fd/5": "-> /dev/null", "proc/7/fd/6": "-> socket:[99]",
		"sys/class/net/eth0/device": "-> x",
	}
}

func read(t *testing.T, files map[string]string, s *snapshot.Snapshot) *Reader {
	t.Helper()
	root := hosttest.Tree(t, files)
	r := New(filepath.Join(root, "proc"), filepath.Join(root, "sys"))
	t.Cleanup(func() { _ = r.Close() })
	r.Read(time.Second, s)
	return r
}

// settle waits for a count of sockets.
func settle(t *testing.T, r *Reader) {
	t.Helper()
	hosttest.Until(t, "the count of sockets", func() bool { return r.sockets.box.Reading().OK })
}

func procs(pids ...int32) []snapshot.Proc {
	var out []snapshot.Proc
	for _, pid := range pids {
		out = append(out, snapshot.Proc{ID: snapshot.ProcID{PID: pid, StartTicks: 1}})
	}
	return out
}

// On a host the bridge passes on what the card has counted.
func TestHost(t *testing.T) {
	s := snapshot.Snapshot{Procs: procs(7)}
	r := read(t, fake(), &s)
	if len(s.Network) != 1 || s.Network[0].Sockets != nil {
		t.Errorf("the tick waited for the count: %+v", s.Network)
	}
	settle(t, r)
	s = snapshot.Snapshot{Procs: procs(7)}
	r.Read(time.Second, &s)
	want := []snapshot.NetIO{{
		NS: "net:[1]", At: time.Second, RxBytes: 5000, TxBytes: 700, LoRxBytes: 100,
		Interfaces: []snapshot.Interface{{Name: "lo", RxBytes: 100, TxBytes: 100}, {Name: "eth0", RxBytes: 5000, TxBytes: 700}, {Name: "docker0", RxBytes: 4000, TxBytes: 600}},
		Sockets:    map[string]int32{"listen": 1, "established": 1}, SendQueue: 16, RecvQueue: 1024,
	}}
	if diff := cmp.Diff(want, s.Network); diff != "" {
		t.Error(diff)
	}
	if len(s.Gaps) != 0 {
		t.Errorf("gaps %+v", s.Gaps)
	}
	s = snapshot.Snapshot{Procs: procs(7)}
	r.Read(2*time.Second, &s)
	if len(s.Network) != 1 || s.Network[0].Sockets != nil {
		t.Errorf("sockets are not due yet: %+v", s.Network)
	}
}

// In a namespace that is not ours all interfaces count, and none is shown by name.
func TestOtherNamespace(t *testing.T) {
	files := fake()
	files["proc/7/ns/net"] = "-> net:[2]"
	files["proc/7/net/sockstat"] = "TCP: inuse 5000 orphan 0 tw 1 alloc 18 mem 55\n"
	files["proc/8/ns/net"] = "-> net:[3]"
	s := snapshot.Snapshot{Procs: procs(7, 8)}
	r := read(t, files, &s)
	settle(t, r)
	s = snapshot.Snapshot{Procs: procs(7, 8)}
	r.Read(time.Second, &s)
	want := []snapshot.NetIO{{NS: "net:[2]", At: time.Second, RxBytes: 9000, TxBytes: 1300, LoRxBytes: 100}}
	if diff := cmp.Diff(want, s.Network); diff != "" {
		t.Error(diff)
	}
	sources := map[string]bool{}
	for _, g := range s.Gaps {
		sources[g.Source] = true
	}
	if diff := cmp.Diff(map[string]bool{"network": true, "network.sockets": true}, sources); diff != "" {
		t.Error(diff)
	}
}

// The process through which a namespace was read ends; another member takes its place.
func TestReaderOutlivesProcess(t *testing.T) {
	files := fake()
	files["proc/9/ns/net"] = "-> net:[1]"
	files["proc/9/net/dev"] = strings.Replace(devText, "5000", "6000", 1)
	s := snapshot.Snapshot{Procs: procs(7, 9)}
	r := read(t, files, &s)
	s = snapshot.Snapshot{Procs: procs(9)}
	r.Read(2*time.Second, &s)
	if len(s.Network) != 1 || s.Network[0].RxBytes != 6000 {
		t.Errorf("%+v", s.Network)
	}
	s = snapshot.Snapshot{}
	r.Read(3*time.Second, &s)
	if len(s.Network) != 0 || len(r.of) != 0 || len(r.namespaces) != 0 {
		t.Errorf("after the last: %+v, %d kept", s.Network, len(r.of))
	}
}

func TestRefuses(t *testing.T) {
	for _, in := range []string{"", "x\ny\n", heading + "eth0 1 2 3\n", heading + "eth0: 1 2\n", heading + ": 1 2 3 4 5 6 7 8 9\n", heading + "eth0: 1 2 3 4 5 6 7 8 -9\n"} {
		if got, err := ParseDev([]byte(in)); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"h\n0: a b 01 0:0 0 0 0 0\n", "h\n0: a b zz 0:0 0 0 0 0 1\n", "h\n0: a b 01 0 0 0 0 0 1\n", "h\n0: a b 01 0:0 0 0 0 0 x\n"} {
		if err := parseTCP([]byte(in), func(socket) {}); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if err := parseTCP([]byte("h\n0: a b 63 0:0 0 0 0 0 1\n"), func(s socket) {
		if s.state != "other" {
			t.Errorf("state %q", s.state)
		}
	}); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(devText))
	f.Add([]byte(tcpText))
	f.Add([]byte("TCP: inuse 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _ := ParseDev(b)
		for _, i := range got {
			if i.Name == "" {
				t.Fatal("an interface without a name")
			}
		}
		_ = parseTCP(b, func(s socket) {
			if s.state == "" {
				t.Fatal("a socket without a state")
			}
		})
		_, _ = parseInUse(b)
	})
}

// This machine, beside another library; and a connection of our own with bytes left in its queue.
func TestLive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	before, err := fs.NetDev()
	if err != nil {
		t.Fatal(err)
	}
	r := New("/proc", "/sys")
	defer r.Close()
	s := snapshot.Snapshot{Procs: procs(int32(os.Getpid()))}
	r.Read(time.Second, &s)
	settle(t, r)
	s = snapshot.Snapshot{Procs: procs(int32(os.Getpid()))}
	r.Read(2*time.Second, &s)
	after, err := fs.NetDev()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Network) != 1 {
		t.Fatalf("%+v, gaps %+v", s.Network, s.Gaps)
	}
	n := s.Network[0]
	if n.LoRxBytes < before["lo"].RxBytes || n.LoRxBytes > after["lo"].RxBytes {
		t.Errorf("lo %d, want between %d and %d", n.LoRxBytes, before["lo"].RxBytes, after["lo"].RxBytes)
	}
	if len(n.Interfaces) != len(after) {
		t.Errorf("%d interfaces, want %d", len(n.Interfaces), len(after))
	}
	if n.Sockets == nil || n.Sockets["established"] != 2 || n.Sockets["listen"] != 1 || n.RecvQueue != 1000 {
		t.Errorf("sockets %v, %d bytes wait", n.Sockets, n.RecvQueue)
	}
}

// A process in a network namespace of its own has moved nothing yet.
func TestLiveNamespace(t *testing.T) {
	hosttest.NeedRoot(t)
	pid := int32(hosttest.Start(t, exec.Command("unshare", "-n", "sleep", "600")))
	r := New("/proc", "/sys")
	defer r.Close()
	hosttest.Until(t, "its namespace", func() bool {
		clear(r.of) // it was looked at before it unshared
		s := snapshot.Snapshot{Procs: procs(pid, int32(os.Getpid()))}
		r.Read(0, &s)
		if len(s.Network) != 2 {
			return false
		}
		for _, n := range s.Network {
			if n.Interfaces == nil && (n.RxBytes != 0 || n.LoRxBytes != 0) {
				t.Fatalf("%+v", n)
			}
		}
		return true
	})
}

func BenchmarkRead(b *testing.B) {
	r := New("/proc", "/sys")
	defer r.Close()
	b.ReportAllocs()
	var now time.Duration
	for b.Loop() {
		now += time.Second
		r.Read(now, &snapshot.Snapshot{Procs: procs(int32(os.Getpid()))})
	}
}
