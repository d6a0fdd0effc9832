package hostfs

import (
	"bytes"
	"math"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// tick is the unit of the times in /proc/stat. It is USER_HZ, a constant of the kernel's interface that is 100 on every
// architecture that PyTorch runs on, whatever the kernel's own HZ is.
const tick = 10 * time.Millisecond

// ParseStat takes the CPU times and the number of online CPUs from /proc/stat.
func ParseStat(b []byte, h *snapshot.Host) error {
	line, rest := kernfile.Line(b)
	name, fields := kernfile.Field(line)
	if string(name) != "cpu" {
		return kernfile.Malformed("stat", string(line))
	}
	// user nice system idle iowait irq softirq steal; guest and guest_nice are within user and nice already.
	var t [8]time.Duration
	for i := range t {
		n, r, ok := kernfile.UintField(fields)
		if !ok && i >= 4 && len(bytes.TrimSpace(fields)) == 0 {
			break // a virtual /proc that writes fewer columns
		}
		if !ok || n > math.MaxInt64/uint64(tick)/4 {
			return kernfile.Malformed("stat", string(line))
		}
		t[i], fields = time.Duration(n)*tick, r
	}
	h.User, h.System, h.Idle = t[0]+t[1], t[2]+t[5]+t[6], t[3]
	h.IOWait, h.Steal = t[4], t[7]
	h.CPUs = 0
	for {
		line, rest = kernfile.Line(rest)
		if !bytes.HasPrefix(line, []byte("cpu")) {
			break // the per-CPU lines stand together, and only CPUs that are online have one
		}
		h.CPUs++
	}
	return nil
}

// ParseMeminfo takes sizes from /proc/meminfo.
func ParseMeminfo(b []byte, h *snapshot.Host) error {
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		name, rest := kernfile.Field(line)
		var to *uint64
		switch string(name) {
		case "MemTotal:":
			to = &h.MemTotal
			found = true
		case "MemFree:":
			to = &h.MemFree
		case "MemAvailable:":
			to = &h.MemAvailable
		case "Buffers:":
			to = &h.Buffers
		case "Cached:":
			to = &h.Cached
		case "Shmem:":
			to = &h.Shmem
		case "Dirty:":
			to = &h.Dirty
		case "Writeback:":
			to = &h.Writeback
		case "SwapTotal:":
			to = &h.SwapTotal
		case "SwapFree:":
			to = &h.SwapFree
		default:
			continue
		}
		n, _, ok := kernfile.UintField(rest)
		if !ok || n > math.MaxUint64/1024 {
			return kernfile.Malformed("meminfo", string(line))
		}
		*to = n * 1024
	}
	if !found {
		return kernfile.Malformed("meminfo", "no MemTotal")
	}
	return nil
}

// ParseVmstat takes paging counters from /proc/vmstat.
func ParseVmstat(b []byte, h *snapshot.Host) error {
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		name, rest := kernfile.Field(line)
		var to *uint64
		switch string(name) {
		case "pswpin": // absent without CONFIG_SWAP
			to = &h.SwapIn
		case "pswpout":
			to = &h.SwapOut
		case "pgmajfault":
			to = &h.MajFaults
			found = true
		default:
			continue
		}
		n, _, ok := kernfile.UintField(rest)
		if !ok {
			return kernfile.Malformed("vmstat", string(line))
		}
		*to = n
	}
	if !found {
		return kernfile.Malformed("vmstat", "no pgmajfault")
	}
	return nil
}
