package psi

import (
	"bytes"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// resources are what PSI tells apart, in the order in which they are put into a snapshot.
var resources = [...]string{"io", "cpu", "memory"}

// Reader reads the pressure files of one scope.
type Reader struct {
	scope string
	files [len(resources)]*kernfile.File
}

// System reads the machine's own files below procfs.
func System(procfs string) *Reader {
	r := &Reader{scope: "system"}
	for i, res := range resources {
		r.files[i] = kernfile.New(filepath.Join(procfs, "pressure", res))
	}
	return r
}

// Cgroup reads the files of the control group (v2) whose directory is dir.
func Cgroup(dir string) *Reader {
	r := &Reader{scope: "cgroup"}
	for i, res := range resources {
		r.files[i] = kernfile.New(filepath.Join(dir, res+".pressure"))
	}
	return r
}

// Read appends the scope's pressures to s, and a gap "psi.RESOURCE" or "psi.cgroup.RESOURCE" for each file that cannot be
// read.
func (r *Reader) Read(_ time.Duration, s *snapshot.Snapshot) {
	for i, f := range r.files {
		b, err := f.Read()
		if err == nil {
			s.Pressure, err = Parse(s.Pressure, b, snapshot.Pressure{Scope: r.scope, Resource: resources[i]})
		}
		if err != nil {
			source := "psi." + resources[i]
			if r.scope == "cgroup" {
				source = "psi.cgroup." + resources[i]
			}
			s.Gaps = append(s.Gaps, kernfile.Gap(source, err))
		}
	}
}

// Close releases the files.
func (r *Reader) Close() error {
	for _, f := range r.files {
		_ = f.Close() // nothing was written
	}
	return nil
}

// Parse appends what a pressure file says: a Pressure per line, with the scope and resource of like.
func Parse(to []snapshot.Pressure, b []byte, like snapshot.Pressure) ([]snapshot.Pressure, error) {
	n := len(to)
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		kind, rest := kernfile.Field(line)
		if len(kind) == 0 {
			continue
		}
		i := bytes.LastIndex(rest, []byte("total="))
		if i < 0 {
			return to[:n], kernfile.Malformed("pressure", string(line))
		}
		us, ok := kernfile.Uint(bytes.TrimRight(rest[i+len("total="):], " "))
		if !ok || us > uint64(1<<63-1)/uint64(time.Microsecond) {
			return to[:n], kernfile.Malformed("pressure", string(line))
		}
		p := like
		p.Total = time.Duration(us) * time.Microsecond
		switch string(kind) {
		case "some":
			p.Kind = "some"
		case "full":
			p.Kind = "full"
		default: // a kind of a later kernel
			continue
		}
		to = append(to, p)
	}
	if len(to) == n {
		return to, kernfile.Malformed("pressure", "")
	}
	return to, nil
}
