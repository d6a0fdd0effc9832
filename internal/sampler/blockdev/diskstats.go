package blockdev

import (
	"math"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// sector is the unit of /proc/diskstats, whatever the device's own sector size is.
const sector = 512

// Parse appends the devices of a /proc/diskstats text (https://docs.kernel.org/admin-guide/iostats.html). Lines with fewer
// than 14 columns are partitions as Linux before 2.6.25 wrote them and are left out.
func Parse(to []snapshot.Device, b []byte) ([]snapshot.Device, error) {
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		if len(line) == 0 {
			continue
		}
		d, columns, ok := parseLine(line)
		if !ok {
			return to, kernfile.Malformed("diskstats", string(line))
		}
		if columns >= 14 {
			to = append(to, d)
		}
	}
	return to, nil
}

func parseLine(line []byte) (d snapshot.Device, columns int, ok bool) {
	major, rest, ok1 := kernfile.UintField(line)
	minor, rest, ok2 := kernfile.UintField(rest)
	name, rest := kernfile.Field(rest)
	if !ok1 || !ok2 || major > math.MaxUint32 || minor > math.MaxUint32 || len(name) == 0 {
		return d, 0, false
	}
	var v [11]uint64
	n := 0
	for ; n < len(v); n++ {
		var f []byte
		if f, rest = kernfile.Field(rest); len(f) == 0 {
			break
		}
		if v[n], ok = kernfile.Uint(f); !ok {
			return d, 0, false
		}
	}
	const most = math.MaxUint64 / sector
	if v[2] > most || v[6] > most {
		return d, 0, false
	}
	return snapshot.Device{
		Name: string(name), Major: uint32(major), Minor: uint32(minor),
		Reads: v[0], ReadMerged: v[1], ReadBytes: v[2] * sector, ReadTime: milliseconds(v[3]),
		Writes: v[4], WriteMerged: v[5], WriteBytes: v[6] * sector, WriteTime: milliseconds(v[7]),
		InFlight: v[8], IOTime: milliseconds(v[9]), Weighted: milliseconds(v[10]),
	}, n + 3, true
}

// milliseconds converts, and keeps a counter that is about to wrap within a duration. The kernel writes most of these times
// in 32 bits: they wrap after 49 days, which package model takes for a reset.
func milliseconds(n uint64) time.Duration {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}
