package blockdev

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
)

// Number is a device number.
type Number struct{ Major, Minor uint32 }

// String is the form of sysfs and of mountinfo, "253:0".
func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// ParseNumber reads the form of String.
func ParseNumber(s string) (Number, bool) {
	a, b, _ := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(a, 10, 32)
	minor, err2 := strconv.ParseUint(b, 10, 32)
	return Number{uint32(major), uint32(minor)}, err1 == nil && err2 == nil
}

// Topology looks up how devices are named and stacked, below one sysfs root. It keeps nothing.
type Topology struct {
	Sysfs string
	// HolderOf returns the block device that holds the file of a path, "" when there is none or it is not known. nil: the
	// backing files of loop devices are not looked up.
	HolderOf func(path string) string
}

// Name returns the kernel's name of a block device, or its number when sysfs does not show it (a container without /sys).
func (t Topology) Name(n Number) string {
	link, err := os.Readlink(filepath.Join(t.Sysfs, "dev/block", n.String()))
	if err != nil {
		return n.String()
	}
	return deviceName(filepath.Base(link))
}

// ByMapperName returns the name of the device mapper device that a person knows by name ("vg-root" is "dm-0").
func (t Topology) ByMapperName(name string) (string, bool) {
	paths, err := filepath.Glob(filepath.Join(t.Sysfs, "block/dm-*/dm/name"))
	if err != nil {
		return "", false
	}
	for _, p := range paths {
		b, err := kernfile.Read(p)
		if err == nil && strings.TrimSpace(string(b)) == name {
			return filepath.Base(filepath.Dir(filepath.Dir(p))), true
		}
	}
	return "", false
}

// Below returns the names of the devices directly beneath one, sorted; nil for the lowest level and for one that sysfs does
// not show.
func (t Topology) Below(n Number) []string {
	dir := filepath.Join(t.Sysfs, "dev/block", n.String())
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(target, "partition")); err == nil {
		// A partition's directory lies within its disk's.
		return []string{deviceName(filepath.Base(filepath.Dir(target)))}
	}
	if backing, err := kernfile.Read(filepath.Join(target, "loop/backing_file")); err == nil {
		return t.loopHolder(string(backing))
	}
	entries, err := os.ReadDir(filepath.Join(target, "slaves"))
	if err != nil || len(entries) == 0 {
		return nil
	}
	var below []string
	for _, e := range entries {
		below = append(below, deviceName(e.Name()))
	}
	slices.Sort(below)
	return below
}

// Empty reports whether a device has no medium: a loop device without a file, a drive without a disk.
func (t Topology) Empty(n Number) bool {
	b, err := kernfile.Read(filepath.Join(t.Sysfs, "dev/block", n.String(), "size"))
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

func (t Topology) loopHolder(backing string) []string {
	// The path is that of the mount namespace in which the loop was set up, with a mark when it was unlinked.
	path := strings.TrimSuffix(strings.TrimSuffix(backing, "\n"), " (deleted)")
	if t.HolderOf == nil || !filepath.IsAbs(path) {
		return nil
	}
	if holder := t.HolderOf(path); holder != "" {
		return []string{holder}
	}
	return nil
}

// deviceName undoes sysfs's replacement: a name with a slash (cciss/c0d0) has an exclamation mark there.
func deviceName(s string) string { return strings.ReplaceAll(s, "!", "/") }
