package cgroupfs

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
)

// Folder is the group of one hierarchy.
type Folder struct {
	Dir string // of the group
	Top string // the highest group that can be seen: the mount point
}

// Groups is where a process's control groups are.
type Groups struct {
	Version     string // "v1", "v2", "hybrid"
	Path        string // as in /proc/PID/cgroup: of the v2 group, or of the v1 memory or cpu group
	Unified     *Folder
	Controllers map[string]Folder // v1: "cpu", "cpuacct", "cpuset", "memory", "blkio"
	// Hidden says for a controller (or "unified") why its group cannot be read.
	Hidden map[string]error
}

var (
	// ErrOutside says that the group lies outside this process's cgroup namespace or mounts.
	ErrOutside = errors.New("the group lies outside what is mounted here")
	// ErrNotMounted says that the hierarchy is not mounted here.
	ErrNotMounted = errors.New("the hierarchy is not mounted here")
	// ErrNoController says that neither the group nor one above it has the controller's files.
	ErrNoController = errors.New("the controller is not enabled for the group")
)

// membership is one line of /proc/PID/cgroup.
type membership struct {
	controllers []string // empty: the v2 hierarchy
	path        string
}

// parseMembership reads /proc/PID/cgroup ("4:cpu,cpuacct:/path" or "0::/path"). The path is all that follows the second
// colon: it may hold colons itself.
func parseMembership(b []byte) ([]membership, error) {
	var out []membership
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		if len(line) == 0 {
			continue
		}
		parts := strings.SplitN(string(line), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			return nil, kernfile.Malformed("cgroup", string(line))
		}
		m := membership{path: strings.TrimSuffix(parts[2], " (deleted)")}
		if parts[1] != "" {
			m.controllers = strings.Split(parts[1], ",")
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, kernfile.Malformed("cgroup", "")
	}
	return out, nil
}

// hierarchy is a mounted cgroup tree.
type hierarchy struct {
	controllers []string // empty: v2
	root        string   // the group that the mount shows at its top, as this process's namespace names it
	mountpoint  string
}

// parseMounts finds the cgroup mounts of a mountinfo text. Lines that are not understood are not cgroup mounts.
func parseMounts(b []byte) []hierarchy {
	var out []hierarchy
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		left, right, ok := strings.Cut(string(line), " - ")
		fields, super := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(super) < 1 {
			continue
		}
		h := hierarchy{root: unescape(fields[3]), mountpoint: unescape(fields[4])}
		switch super[0] {
		case "cgroup2":
		case "cgroup":
			if len(super) < 3 {
				continue
			}
			h.controllers = strings.Split(super[2], ",") // "rw,cpu,cpuacct"
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash, #).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

// v1Controllers are the controllers that are read in a v1 layout.
var v1Controllers = [...]string{"cpu", "cpuacct", "cpuset", "memory", "blkio"}

// Locate finds the folders of a process's groups. sysfs replaces the /sys that mountinfo names.
func Locate(cgroup, mountinfo []byte, sysfs string) (*Groups, error) {
	members, err := parseMembership(cgroup)
	if err != nil {
		return nil, err
	}
	mounts := parseMounts(mountinfo)
	g := &Groups{Controllers: map[string]Folder{}, Hidden: map[string]error{}}
	v1 := false
	for _, m := range members {
		if len(m.controllers) == 0 {
			g.Path = m.path
			folder, err := find(mounts, m, "", sysfs)
			if err != nil {
				g.Hidden["unified"] = err
				continue
			}
			g.Unified = &folder
		}
		for _, c := range m.controllers {
			if !slices.Contains(v1Controllers[:], c) {
				continue // name=systemd, freezer, pids…: not a hierarchy with figures that are read here
			}
			v1 = true
			folder, err := find(mounts, m, c, sysfs)
			if err != nil {
				g.Hidden[c] = err
				continue
			}
			g.Controllers[c] = folder
		}
	}
	g.Version = version(v1, g.Unified != nil)
	if v1 {
		g.Path = v1Path(members, g.Path)
	}
	return g, nil
}

func version(v1, unified bool) string {
	switch {
	case v1 && unified:
		return "hybrid"
	case v1:
		return "v1"
	}
	return "v2"
}

// v1Path picks the path to show where every controller has one of its own: the memory group's, unless that is the top.
func v1Path(members []membership, unified string) string {
	for _, want := range []string{"memory", "cpu"} {
		for _, m := range members {
			if slices.Contains(m.controllers, want) && m.path != "/" {
				return m.path
			}
		}
	}
	if unified == "" {
		return "/"
	}
	return unified
}

// find is the folder of a membership in the mounts of its hierarchy.
func find(mounts []hierarchy, m membership, controller, sysfs string) (Folder, error) {
	failure := ErrNotMounted
	for _, h := range mounts {
		if controller == "" && len(h.controllers) > 0 || controller != "" && !slices.Contains(h.controllers, controller) {
			continue
		}
		rel, ok := below(h.root, m.path)
		if !ok {
			failure = fmt.Errorf("%w: group %s, mount of %s", ErrOutside, m.path, h.root)
			continue
		}
		top := h.mountpoint
		if rest, ok := strings.CutPrefix(top, "/sys"); ok && (rest == "" || rest[0] == '/') {
			top = filepath.Join(sysfs, rest)
		}
		return Folder{Dir: filepath.Join(top, rel), Top: filepath.Clean(top)}, nil
	}
	return Folder{}, failure
}

// below is a group's path relative to the group that a mount shows at its top. Both are relative to this process's cgroup
// namespace, and climb out of it with "/..": what lies beyond can be named only where the two climb alike.
func below(root, group string) (string, bool) {
	if root == group {
		return "", true
	}
	rel, ok := strings.CutPrefix(group, strings.TrimSuffix(root, "/")+"/")
	if !ok || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return path.Clean(rel), true
}
