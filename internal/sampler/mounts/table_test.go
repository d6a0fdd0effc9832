package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
)

// hostTable is a host with Docker's overlay on ext4 on LVM, btrfs, NFS, FUSE and a bind mount; and one line per kind of
// escape.
const hostTable = `1 0 253:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw
2 1 0:45 / /var/lib/docker/overlay2/abc/merged rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/var/lib/docker/overlay2/abc/diff,workdir=/w
3 1 0:41 /@data /data rw - btrfs /dev/nvme1n1p1 rw,subvol=/@data
4 1 0:52 / /mnt/nfs rw - nfs4 server:/export rw,vers=4.2
5 1 0:53 / /gcs rw - fuse.gcsfuse bucket rw
6 1 253:0 /srv/imagenet /datasets/im\040age\134net rw master:1 - ext4 /dev/mapper/vg-root rw
7 1 8:33 / /win rw - fuseblk /dev/sdc1 rw
8 1 0:60 / /tank rw - zfs tank/data rw
9 1 0:61 / /scratch rw - lustre 10.0.0.1@o2ib:/fs rw
10 1 0:62 / /vm rw - virtiofs share rw
11 1 0:63 / /dev/shm rw - tmpfs tmpfs rw,size=64m
12 1 0:64 / /dev/shm rw - tmpfs  rw,size=65536k
13 1 259:7 / /datasets2 rw - xfs /dev/root rw
`

func hostTree(t *testing.T, mountinfo string) (string, blockdev.Topology) {
	t.Helper()
	root := hosttest.Tree(t, map[string]string{
		"proc/self/mountinfo":       mountinfo,
		"proc/7/mountinfo":          mountinfo,
		"proc/7/ns/mnt":             "-> mnt:[1]",
		"sys/dev/block/253:0":       "-> ../../devices/virtual/block/dm-0",
		"sys/dev/block/8:33":        "-> ../../devices/sdc/sdc1",
		"sys/class/block/nvme1n1p1": "-> x",
		"sys/class/block/x":         "",
	})
	return filepath.Join(root, "proc"), blockdev.Topology{Sysfs: filepath.Join(root, "sys")}
}

func TestDeviceBelow(t *testing.T) {
	proc, topology := hostTree(t, hostTable)
	own, err := readTable(proc, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := resolver{topology: topology, own: own}
	for id, want := range map[int32]struct {
		device string
		remote bool
	}{
		1: {"dm-0", false}, 2: {"dm-0", false}, 3: {"nvme1n1p1", false}, 4: {"", true}, 5: {"", true}, 6: {"dm-0", false},
		7: {"sdc1", false}, 8: {"", false}, 9: {"", true}, 10: {"", true}, 11: {"", false}, 13: {"259:7", false},
	} {
		m, ok := own.byID(id)
		if !ok {
			t.Fatalf("no mount %d", id)
		}
		if got := r.device(m, 0); got != want.device || remote(m.fstype) != want.remote {
			t.Errorf("%s: device %q remote %v, want %+v", m.mountpoint, got, remote(m.fstype), want)
		}
	}
}

// Within a container the overlay's upper directory is a host path: it must not resolve to the overlay itself.
func TestOverlayFromWithin(t *testing.T) {
	proc, topology := hostTree(t, "2 1 0:45 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/overlay2/abc/diff,workdir=/w\n")
	own, err := readTable(proc, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := (resolver{topology, own}).device(own[0], 0); got != "" {
		t.Errorf("device %q", got)
	}
}

func TestHolding(t *testing.T) {
	proc, topology := hostTree(t, hostTable)
	own, err := readTable(proc, 0)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int32{
		"/": 1, "/home/x": 1, "/data": 3, "/data/a": 3, "/database": 1, "/dev/shm": 12, "/dev/shm/torch_1": 12,
		`/datasets/im age\net/n01`: 6, "/var/lib/docker/overlay2/abc/merged/x": 2,
	} {
		if m, ok := own.holding(path); !ok || m.id != want {
			t.Errorf("%s lies on mount %d, want %d", path, m.id, want)
		}
	}
	holder := Topology(proc, topology.Sysfs).HolderOf
	for path, want := range map[string]string{"/data/image": "nvme1n1p1", "/mnt/nfs/image": "", "/image": "dm-0"} {
		if got := holder(path); got != want {
			t.Errorf("%s is held by %q, want %q", path, got, want)
		}
	}
	if _, ok := (table{}).holding("/x"); ok {
		t.Error("an empty table holds something")
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add([]byte(hostTable))
	f.Add([]byte("1 0 0:1 / \\777\\04 rw - tmpfs \\ rw,upperdir=\\0"))
	proc := f.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "self"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(proc, "self/mountinfo"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		own, err := readTable(proc, 0)
		if err != nil {
			return
		}
		r := resolver{topology: blockdev.Topology{Sysfs: proc}, own: own}
		for _, m := range own {
			if remote(m.fstype) && r.device(m, 0) != "" {
				t.Errorf("a remote mount has a device: %+v", m)
			}
		}
		_, _ = own.holding("/dev/shm")
	})
}
