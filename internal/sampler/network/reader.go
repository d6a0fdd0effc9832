package network

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// maxNamespaces bounds the namespaces that are read. A job has one; a nested container runtime a few.
const maxNamespaces = 8

// Reader reads the network of the job's namespaces.
type Reader struct {
	procfs, sysfs string
	own           string // the namespace of this process
	of            map[snapshot.ProcID]string
	namespaces    map[string]*namespace
	hardware      map[string]bool // interface of our own namespace -> stands on a device
	hardwareAt    time.Duration
	sockets       *counter
}

type namespace struct {
	dev *kernfile.File
	pid int32 // the member through which it is read, 0 when that ended
}

// New returns a reader below procfs and sysfs.
func New(procfs, sysfs string) *Reader {
	own, err := os.Readlink(filepath.Join(procfs, "self/ns/net"))
	if err != nil {
		own = "" // no namespace is known to be our own, then
	}
	return &Reader{procfs: procfs, sysfs: sysfs, own: own, of: map[snapshot.ProcID]string{}, namespaces: map[string]*namespace{}, sockets: newCounter(procfs)}
}

// Read fills s.Network, one entry per namespace that a process of s.Procs is in. Gaps: "network" for a namespace's bytes,
// "network.sockets" when sockets could not be counted or were too many. Sockets are in the first snapshot after each count.
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	r.members(s)
	counts := r.sockets.fresh()
	r.sockets.ask(now, s, r.of, r.namespaces)
	var out []snapshot.NetIO
	for key, ns := range r.namespaces {
		b, err := ns.dev.Read()
		var interfaces []snapshot.Interface
		if err == nil {
			interfaces, err = ParseDev(b)
		}
		if err != nil {
			s.Gaps = append(s.Gaps, kernfile.Gap("network", err))
			continue
		}
		n := r.sum(now, key, interfaces)
		if c, ok := counts[key]; ok {
			n.Sockets, n.SendQueue, n.RecvQueue = c.states, c.send, c.recv
			if c.err != nil {
				s.Gaps = append(s.Gaps, kernfile.Gap("network.sockets", c.err))
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b snapshot.NetIO) int { return cmp.Compare(a.NS, b.NS) })
	s.Network = out
}

// Close releases the files and ends the count of sockets.
func (r *Reader) Close() error {
	for _, ns := range r.namespaces {
		_ = ns.dev.Close() // nothing was written
	}
	return r.sockets.box.Close()
}

// members keeps the namespaces of the living, each with a living process through which it is read.
func (r *Reader) members(s *snapshot.Snapshot) {
	live := make(map[snapshot.ProcID]bool, len(s.Procs))
	for i := range s.Procs {
		id := s.Procs[i].ID
		live[id] = true
		if _, ok := r.of[id]; !ok {
			link, err := os.Readlink(filepath.Join(r.procfs, strconv.Itoa(int(id.PID)), "ns/net"))
			if err != nil {
				link = "" // another user's, or gone already
			}
			r.of[id] = link
		}
	}
	alive := map[string]map[int32]bool{}
	for id, key := range r.of {
		if !live[id] {
			delete(r.of, id)
			continue
		}
		if key != "" {
			if alive[key] == nil {
				alive[key] = map[int32]bool{}
			}
			alive[key][id.PID] = true
		}
	}
	for key, ns := range r.namespaces {
		if !alive[key][ns.pid] {
			_ = ns.dev.Close() // nothing was written
			delete(r.namespaces, key)
		}
	}
	for key, pids := range alive {
		if r.namespaces[key] != nil || len(r.namespaces) >= maxNamespaces {
			continue
		}
		pid := int32(0)
		for p := range pids {
			if pid == 0 || p < pid {
				pid = p // the oldest, as a rule
			}
		}
		r.namespaces[key] = &namespace{pid: pid, dev: kernfile.New(filepath.Join(r.procfs, strconv.Itoa(int(pid)), "net/dev"))}
	}
}

// sum adds the interfaces of a namespace up, each byte once: where interfaces of our own namespace stand on hardware, only
// those count. A bond, a bridge, a VLAN and a container's veth pass on what a card has counted or will count.
func (r *Reader) sum(now time.Duration, key string, interfaces []snapshot.Interface) snapshot.NetIO {
	n := snapshot.NetIO{NS: key, At: now}
	own := key == r.own
	if own {
		n.Interfaces = interfaces
		r.learn(now, interfaces)
	}
	cards := false
	for _, i := range interfaces {
		cards = cards || own && r.hardware[i.Name]
	}
	for _, i := range interfaces {
		switch {
		case i.Name == "lo":
			n.LoRxBytes += i.RxBytes
		case cards && !r.hardware[i.Name]:
		default:
			n.RxBytes += i.RxBytes
			n.TxBytes += i.TxBytes
		}
	}
	return n
}

// learn looks up which interfaces stand on a device. sysfs shows the namespace of whoever mounted it: ours.
func (r *Reader) learn(now time.Duration, interfaces []snapshot.Interface) {
	const again = 30 * time.Second
	if r.hardware != nil && now-r.hardwareAt < again {
		return
	}
	r.hardware, r.hardwareAt = map[string]bool{}, now
	for _, i := range interfaces {
		if i.Name == "" || strings.Contains(i.Name, "/") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(r.sysfs, "class/net", i.Name, "device")); err == nil {
			r.hardware[i.Name] = true
		}
	}
}
