package procfs

import (
	"bytes"
	"strconv"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Status is what is used of /proc/PID/status.
type Status struct {
	snapshot.Status
	UID         int32 // real
	CPUsAllowed string
	// HasMemory is false where the file has no memory lines: a zombie or a kernel thread.
	HasMemory bool
}

// Status reads /proc/PID/status.
func (fs *FS) Status(pid int32) (Status, error) {
	b, err := fs.read(fs.PIDPath(pid, "status"), maxFile)
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(b)
}

// ParseStatus parses /proc/PID/status. Lines that a kernel does not have leave their field at 0; a file without a Uid line is
// malformed. The kernel escapes newlines in the name, so lines are lines here.
func ParseStatus(b []byte) (Status, error) {
	s := Status{UID: -1}
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		name, value, ok := bytes.Cut(line, []byte{':'})
		if ok {
			s.set(string(name), bytes.TrimSpace(value))
		}
	}
	if s.UID < 0 {
		return s, malformed("status", "no Uid")
	}
	return s, nil
}

func (s *Status) set(name string, value []byte) {
	p := scanner{b: value}
	switch name {
	case "Uid":
		if n := p.uint(); !p.bad {
			s.UID = int32(uint32(n) & (1<<31 - 1))
		}
	case "SigCgt":
		s.SigCgt = hex(value)
	case "SigIgn":
		s.SigIgn = hex(value)
	case "RssAnon":
		s.RssAnon, s.HasMemory = p.uint()<<10, true
	case "RssFile":
		s.RssFile = p.uint() << 10
	case "RssShmem":
		s.RssShmem = p.uint() << 10
	case "VmSwap":
		s.Swap = p.uint() << 10
	case "Cpus_allowed_list":
		s.CPUsAllowed = string(value)
		s.Status.CPUsAllowed = parseList(s.CPUsAllowed)
	case "voluntary_ctxt_switches":
		s.VoluntarySwitches = p.uint()
	case "nonvoluntary_ctxt_switches":
		s.InvoluntarySwitches = p.uint()
	}
}

func hex(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return 0
	}
	return n
}
