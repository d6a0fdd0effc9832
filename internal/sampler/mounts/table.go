package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/ptlaunch/ptlaunch/internal/sampler/blockdev"
)

// mount is a line of mountinfo, with the kernel's escapes undone.
type mount struct {
	id         int32
	mountpoint string
	fstype     string
	source     string
	number     blockdev.Number
	upperdir   string // overlay only
}

// table is the mounts of one namespace, in the kernel's order: a later one covers an earlier one at the same place.
type table []mount

// readTable reads the mounts of a process: pid 0 is this process itself.
func readTable(root string, pid int32) (table, error) {
	fs, err := procfs.NewFS(root)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	read := fs.GetMounts
	if pid != 0 {
		read = func() ([]*procfs.MountInfo, error) { return fs.GetProcMounts(int(pid)) }
	}
	infos, err := read()
	if err != nil {
		return nil, err
	}
	t := make(table, 0, len(infos))
	for _, info := range infos {
		number, _ := blockdev.ParseNumber(info.MajorMinorVer)
		t = append(t, mount{
			id: int32(info.MountID), mountpoint: unescape(info.MountPoint), fstype: info.FSType, source: unescape(info.Source),
			number: number, upperdir: unescape(info.SuperOptions["upperdir"]),
		})
	}
	return t, nil
}

// byID finds a mount by its id.
func (t table) byID(id int32) (mount, bool) {
	for _, m := range t {
		if m.id == id {
			return m, true
		}
	}
	return mount{}, false
}

// holding finds the mount that a path lies on, without touching it: the one with the longest mount point above the path,
// and of several at one place the last.
func (t table) holding(path string) (mount, bool) {
	best := -1
	for i, m := range t {
		above := m.mountpoint == "/" || path == m.mountpoint || strings.HasPrefix(path, m.mountpoint+"/")
		if above && (best < 0 || len(m.mountpoint) >= len(t[best].mountpoint)) {
			best = i
		}
	}
	if best < 0 {
		return mount{}, false
	}
	return t[best], true
}

// unescape undoes the octal escapes that the kernel writes for blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// remoteTypes are the file systems that are served from elsewhere without FUSE.
var remoteTypes = map[string]bool{
	"9p": true, "afs": true, "beegfs": true, "ceph": true, "cifs": true, "coda": true, "gpfs": true, "lustre": true, "ncpfs": true,
	"nfs": true, "nfs4": true, "orangefs": true, "panfs": true, "pvfs2": true, "smb3": true, "smbfs": true, "vboxsf": true,
	"virtiofs": true, "wekafs": true,
}

// remote reports whether no block device of this machine counts a file system's bytes as the job's: network file systems,
// and FUSE, where a daemon does the work on the job's behalf. fuseblk is FUSE over a block device.
func remote(fstype string) bool {
	return remoteTypes[fstype] || fstype == "fuse" || strings.HasPrefix(fstype, "fuse.")
}

// resolver finds the block device below a mount.
type resolver struct {
	topology blockdev.Topology
	own      table // of this process: overlay's upper directory is a path of whoever mounted it
}

// device returns the name of the block device below m, "" when there is none or it cannot be told from here.
func (r resolver) device(m mount, depth int) string {
	const deepest = 4 // an overlay on an overlay…
	switch {
	case remote(m.fstype) || depth > deepest:
		return ""
	case m.number.Major != 0:
		return r.topology.Name(m.number)
	case strings.HasPrefix(m.source, "/dev/"):
		// btrfs has an anonymous device number, and its first device as the source.
		return r.node(m.source)
	case m.fstype == "overlay" && m.upperdir != "":
		// Within a container the upper directory is a path of the host that only leads back to the overlay: the depth ends it.
		if below, ok := r.own.holding(m.upperdir); ok {
			return r.device(below, depth+1)
		}
	}
	return ""
}

// node names the block device of a path below /dev.
func (r resolver) node(path string) string {
	if name, ok := strings.CutPrefix(path, "/dev/mapper/"); ok {
		if dm, ok := r.topology.ByMapperName(name); ok {
			return dm
		}
	}
	name := filepath.Base(path)
	if real, err := filepath.EvalSymlinks(path); err == nil { // devtmpfs: nothing that can hang
		name = filepath.Base(real)
	}
	if _, err := os.Stat(filepath.Join(r.topology.Sysfs, "class/block", name)); err != nil {
		return ""
	}
	return name
}

// Topology returns the stacking of block devices with loop devices placed on what holds their files. The mount table is read
// at each lookup, which happens when a loop device appears and now and then.
func Topology(procRoot, sysfs string) blockdev.Topology {
	t := blockdev.Topology{Sysfs: sysfs}
	plain := t
	t.HolderOf = func(path string) string {
		own, err := readTable(procRoot, 0)
		if err != nil {
			return ""
		}
		m, ok := own.holding(path)
		if !ok {
			return ""
		}
		return resolver{topology: plain, own: own}.device(m, 0)
	}
	return t
}
