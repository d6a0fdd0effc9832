package blockdev

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	// maxDevices bounds what is put into a snapshot. Storage servers show thousands of paths and logical units.
	maxDevices = 128
	// restack is how often the stacking is looked up again: it changes when somebody mounts an image or grows a volume.
	restack = 10 * time.Second
)

// Reader reads /proc/diskstats.
type Reader struct {
	file     *kernfile.File
	topology Topology
	lines    []snapshot.Device // buffer
	known    map[Number]*device
	stacked  time.Duration // when the stacking was looked up, 0 before
}

type device struct {
	name   string
	below  []string
	empty  bool
	first  uint64 // operations at the first sight: tells whether it moved since
	active bool
	seen   time.Duration
}

// New returns a reader of diskstats below procfs, with the stacking from below topology.Sysfs.
func New(procfs string, topology Topology) *Reader {
	return &Reader{file: kernfile.New(filepath.Join(procfs, "diskstats")), topology: topology, known: map[Number]*device{}}
}

// Read fills s.Devices with the devices that hold something or have ever moved. When there are more than a bound, those
// that moved since the start come first, with what they stand on, and a gap says so. A failure is a gap "diskstats".
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	b, err := r.file.Read()
	if err == nil {
		r.lines, err = Parse(r.lines[:0], b)
	}
	if err != nil {
		s.Gaps = append(s.Gaps, kernfile.Gap("diskstats", err))
		if len(r.lines) == 0 || b == nil {
			return
		}
	}
	r.learn(now)
	var devices, quiet []snapshot.Device
	for _, d := range r.lines {
		k := r.known[Number{d.Major, d.Minor}]
		if k.empty && d.Reads+d.Writes+d.InFlight == 0 {
			continue
		}
		d.At, d.Below = now, k.below
		if k.active {
			devices = append(devices, d)
		} else {
			quiet = append(quiet, d)
		}
	}
	devices, quiet = promoteBelow(devices, quiet)
	all := append(devices, quiet...)
	if len(all) > maxDevices {
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "diskstats", Reason: snapshot.GapTruncated,
			Detail: fmt.Sprintf("%d devices, the %d busiest are shown", len(all), maxDevices)})
		all = all[:maxDevices]
	}
	s.Devices = all
}

// Close releases the file.
func (r *Reader) Close() error { return r.file.Close() }

// learn looks up the stacking of devices that are new, and of all of them now and then.
func (r *Reader) learn(now time.Duration) {
	again := now-r.stacked >= restack || r.stacked == 0
	if again {
		r.stacked = max(now, 1)
	}
	for _, d := range r.lines {
		n := Number{d.Major, d.Minor}
		ops := d.Reads + d.Writes
		k := r.known[n]
		if k == nil || k.name != d.Name {
			k = &device{name: d.Name, first: ops}
			r.known[n] = k
			k.look(r.topology, n)
		} else if woke := !k.active && ops != k.first; again || woke {
			k.look(r.topology, n)
		}
		k.active = k.active || ops != k.first || d.InFlight > 0
		k.seen = now
	}
	for n, k := range r.known {
		if k.seen != now {
			delete(r.known, n)
		}
	}
}

func (k *device) look(t Topology, n Number) {
	k.below, k.empty = t.Below(n), t.Empty(n)
}

// promoteBelow moves to the active devices what they stand on, so that a bound never cuts a stack in the middle.
func promoteBelow(active, quiet []snapshot.Device) (_, _ []snapshot.Device) {
	for i := 0; i < len(active); i++ {
		for _, name := range active[i].Below {
			for j := range quiet {
				if quiet[j].Name == name {
					active = append(active, quiet[j])
					quiet = append(quiet[:j], quiet[j+1:]...)
					break
				}
			}
		}
	}
	return active, quiet
}
