package cgroupfs

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// ioTable collects figures by device.
type ioTable map[string]*snapshot.CgroupDeviceIO

func (t ioTable) device(name string) *snapshot.CgroupDeviceIO {
	d := t[name]
	if d == nil {
		d = &snapshot.CgroupDeviceIO{Device: name}
		t[name] = d
	}
	return d
}

func (t ioTable) sorted() []snapshot.CgroupDeviceIO {
	var out []snapshot.CgroupDeviceIO
	for _, d := range t {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b snapshot.CgroupDeviceIO) int { return cmp.Compare(a.Device, b.Device) })
	return out
}

// io reads block I/O and its limits.
func (r *Reader) io() (*snapshot.CgroupIO, error) {
	f, unified, err := r.controller("blkio")
	if err != nil {
		return nil, err
	}
	if unified {
		return r.ioV2(f)
	}
	return r.ioV1(f)
}

// ioV2 reads io.stat of the group and io.max of it and all above: the limits apply together.
func (r *Reader) ioV2(f Folder) (*snapshot.CgroupIO, error) {
	b, err := r.read(f.Dir, "io.stat")
	if err != nil {
		return nil, err
	}
	t := ioTable{}
	if err := t.parseStat(b); err != nil {
		return nil, err
	}
	err = f.upward(func(dir string) error {
		b, err := r.read(dir, "io.max")
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return t.parseMax(b)
	})
	return &snapshot.CgroupIO{File: filepath.Join(f.Dir, "io.stat"), Devices: t.sorted()}, err
}

// parseStat reads io.stat: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0". Some kernels write a device without
// figures, with or without its own line: a device number starts a new entry wherever it stands.
func (t ioTable) parseStat(b []byte) error {
	return keyed(b, "io.stat", func(device string) { t.device(device) }, func(device, key string, n uint64, _ bool) {
		d := t.device(device)
		switch key {
		case "rbytes":
			d.ReadBytes = &n
		case "wbytes":
			d.WriteBytes = &n
		case "rios":
			d.ReadOps = &n
		case "wios":
			d.WriteOps = &n
		}
	})
}

// parseMax reads io.max: "8:0 rbps=max wbps=1048576 riops=max wiops=120".
func (t ioTable) parseMax(b []byte) error {
	return keyed(b, "io.max", func(string) {}, func(device, key string, n uint64, set bool) {
		if !set {
			return
		}
		d := t.device(device)
		switch key {
		case "rbps":
			tighten(&d.ReadBPS, n)
		case "wbps":
			tighten(&d.WriteBPS, n)
		case "riops":
			tighten(&d.ReadIOPS, n)
		case "wiops":
			tighten(&d.WriteIOPS, n)
		}
	})
}

func tighten(limit **uint64, n uint64) {
	if *limit == nil || n < **limit {
		*limit = &n
	}
}

// keyed walks "MAJ:MIN key=value…". A value may be "max" (set is false), or something that is no number: iocost's figures
// have a decimal point, and are left out.
func keyed(b []byte, what string, start func(device string), see func(device, key string, n uint64, set bool)) error {
	device := ""
	for word := range bytes.FieldsSeq(b) {
		key, value, ok := bytes.Cut(word, []byte("="))
		if !ok {
			if !isDeviceNumber(word) {
				return kernfile.Malformed(what, string(word))
			}
			device = string(word)
			start(device)
			continue
		}
		if device == "" {
			return kernfile.Malformed(what, string(word))
		}
		n, number := kernfile.Uint(value)
		if number || string(value) == "max" {
			see(device, string(key), n, number)
		}
	}
	return nil
}

func isDeviceNumber(b []byte) bool {
	major, minor, ok := bytes.Cut(b, []byte(":"))
	_, ok1 := kernfile.Uint(major)
	_, ok2 := kernfile.Uint(minor)
	return ok && ok1 && ok2
}

// v1Stats are the files that may hold a v1 group's I/O, best first: with what the groups below did, and without. The
// throttle files stay empty for a device until a limit is set on it (seen on Linux 6.18), bfq's until that scheduler is in
// use: an empty file is no statement, the next one is asked.
var v1Stats = [...][2]string{
	{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"},
	{"blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"},
	{"blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"},
}

func (r *Reader) ioV1(f Folder) (*snapshot.CgroupIO, error) {
	out := &snapshot.CgroupIO{}
	t := ioTable{}
	var last error
	for _, names := range v1Stats {
		b, err := r.read(f.Dir, names[0])
		if err != nil {
			last = err
			continue
		}
		if out.File == "" {
			out.File = filepath.Join(f.Dir, names[0])
		}
		if err := t.parseV1(b, v1Bytes); err != nil {
			return nil, err
		}
		if len(t) == 0 {
			continue
		}
		out.File = filepath.Join(f.Dir, names[0])
		if b, err = r.read(f.Dir, names[1]); err == nil {
			err = t.parseV1(b, v1Ops)
		}
		if err != nil && !absent(err) {
			return nil, err
		}
		break
	}
	if out.File == "" {
		return nil, last
	}
	err := r.limitsV1(f.Dir, t)
	out.Devices = t.sorted()
	return out, err
}

// limitsV1 reads the limits of the group itself: v1 throttling knows no hierarchy.
func (r *Reader) limitsV1(dir string, t ioTable) error {
	for name, field := range map[string]func(*snapshot.CgroupDeviceIO) **uint64{
		"blkio.throttle.read_bps_device":   func(d *snapshot.CgroupDeviceIO) **uint64 { return &d.ReadBPS },
		"blkio.throttle.write_bps_device":  func(d *snapshot.CgroupDeviceIO) **uint64 { return &d.WriteBPS },
		"blkio.throttle.read_iops_device":  func(d *snapshot.CgroupDeviceIO) **uint64 { return &d.ReadIOPS },
		"blkio.throttle.write_iops_device": func(d *snapshot.CgroupDeviceIO) **uint64 { return &d.WriteIOPS },
	} {
		b, err := r.read(dir, name)
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		for len(b) > 0 {
			var line []byte
			line, b = kernfile.Line(b)
			device, rest := kernfile.Field(line)
			if len(device) == 0 {
				continue
			}
			n, _, ok := kernfile.UintField(rest)
			if !ok || !isDeviceNumber(device) {
				return kernfile.Malformed(name, string(line))
			}
			tighten(field(t.device(string(device))), n)
		}
	}
	return nil
}

func v1Bytes(d *snapshot.CgroupDeviceIO, read bool, n uint64) {
	if read {
		d.ReadBytes = &n
	} else {
		d.WriteBytes = &n
	}
}

func v1Ops(d *snapshot.CgroupDeviceIO, read bool, n uint64) {
	if read {
		d.ReadOps = &n
	} else {
		d.WriteOps = &n
	}
}

// parseV1 reads "7:0 Read 123" lines; Sync, Async, Discard and Total are other cuts of the same, and the last line is a
// total without a device.
func (t ioTable) parseV1(b []byte, set func(d *snapshot.CgroupDeviceIO, read bool, n uint64)) error {
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		device, rest := kernfile.Field(line)
		if len(device) == 0 || string(device) == "Total" {
			continue
		}
		kind, rest := kernfile.Field(rest)
		n, _, ok := kernfile.UintField(rest)
		if !ok || !isDeviceNumber(device) {
			return kernfile.Malformed("blkio", string(line))
		}
		switch string(kind) {
		case "Read":
			set(t.device(string(device)), true, n)
		case "Write":
			set(t.device(string(device)), false, n)
		}
	}
	return nil
}
