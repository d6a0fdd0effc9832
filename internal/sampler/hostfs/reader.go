package hostfs

import (
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/sampler/psi"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Reader reads the host files below one proc root.
type Reader struct {
	stat, meminfo, vmstat, delayacct *kernfile.File
	pressure                         *psi.Reader
}

// New returns a reader of the files below procfs.
func New(procfs string) *Reader {
	return &Reader{
		stat:      kernfile.New(filepath.Join(procfs, "stat")),
		meminfo:   kernfile.New(filepath.Join(procfs, "meminfo")),
		vmstat:    kernfile.New(filepath.Join(procfs, "vmstat")),
		delayacct: kernfile.New(filepath.Join(procfs, "sys/kernel/task_delayacct")),
		pressure:  psi.System(procfs),
	}
}

// Read fills s.Host and appends the system's pressure. Without /proc/stat there is no Host: its CPU times would read as
// zero. A file that cannot be read leaves its figures zero and a gap "host.stat", "host.meminfo" or "host.vmstat".
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	h := snapshot.Host{At: now}
	ok := load(r.stat, "host.stat", s, func(b []byte) error { return ParseStat(b, &h) })
	load(r.meminfo, "host.meminfo", s, func(b []byte) error { return ParseMeminfo(b, &h) })
	load(r.vmstat, "host.vmstat", s, func(b []byte) error { return ParseVmstat(b, &h) })
	// Since Linux 5.14 only; before, accounting was fixed at boot and nothing says how: then it stays nil, without a gap.
	if b, err := r.delayacct.Read(); err == nil && len(b) > 0 {
		on := b[0] != '0'
		h.DelayAcct = &on
	}
	if ok {
		s.Host = &h
	}
	r.pressure.Read(now, s)
}

// Close releases the files.
func (r *Reader) Close() error {
	for _, f := range []*kernfile.File{r.stat, r.meminfo, r.vmstat, r.delayacct} {
		_ = f.Close() // nothing was written
	}
	return r.pressure.Close()
}

func load(f *kernfile.File, source string, s *snapshot.Snapshot, parse func([]byte) error) bool {
	b, err := f.Read()
	if err == nil {
		err = parse(b)
	}
	if err != nil {
		s.Gaps = append(s.Gaps, kernfile.Gap(source, err))
	}
	return err == nil
}
