package procfs

import (
	"bytes"
	"os"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// tick is one unit of the times in /proc/PID/stat. USER_HZ is 100 on every architecture that Go runs on, whatever the
// kernel's own HZ.
const tick = 10 * time.Millisecond

// Stat is what is used of /proc/PID/stat. Comm points into the buffer it was parsed from.
type Stat struct {
	PID        int32
	Comm       []byte // raw bytes, at most 15 (63 for a kernel worker)
	State      byte
	PPID       int32
	PGID       int32
	SID        int32
	MinFlt     uint64
	MajFlt     uint64
	UTime      time.Duration
	STime      time.Duration
	NumThreads int32
	StartTicks uint64
	VSize      uint64 // bytes
	RSS        uint64 // bytes
	StartStack uint64 // random per exec; 0 or 1 when we may not know it
	BlkIODelay time.Duration
	ExitCode   int32 // wait status; only meaningful for a zombie, and 0 when we may not know it
}

// ParseStat parses /proc/PID/stat. The name in it may hold anything, blanks, parentheses and newlines included, so the
// fields are counted from the last closing parenthesis. Fields that an older kernel lacks stay 0; up to rss (24) all are
// required. It does not allocate.
func ParseStat(b []byte, s *Stat) error {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open || end+2 >= len(b) {
		return malformed("stat", "no name in parentheses")
	}
	p := scanner{b: b[:open]}
	*s = Stat{PID: int32(p.uint()), Comm: b[open+1 : end]}
	if p.bad {
		return malformed("stat", "pid is not a number")
	}
	s.State = b[end+2]
	p = scanner{b: b[end+3:]}
	s.PPID = int32(p.int())
	s.PGID = int32(p.int())
	s.SID = int32(p.int())
	p.skip(3) // tty_nr tpgid flags
	s.MinFlt = p.uint()
	p.skip(1)
	s.MajFlt = p.uint()
	p.skip(1)
	s.UTime = time.Duration(p.uint()) * tick
	s.STime = time.Duration(p.uint()) * tick
	p.skip(4) // cutime cstime priority nice
	s.NumThreads = int32(p.int())
	p.skip(1)
	s.StartTicks = p.uint()
	s.VSize = p.uint()
	s.RSS = p.uint() * uint64(os.Getpagesize())
	if p.bad {
		return malformed("stat", "fields are missing or no numbers")
	}
	s.parseTail(p)
	return nil
}

// parseTail reads the fields after rss.
func (s *Stat) parseTail(p scanner) {
	p.skip(3) // rsslim startcode endcode
	s.StartStack = p.uint()
	p.skip(13) // 29 kstkesp … 41 policy
	s.BlkIODelay = time.Duration(p.uint()) * tick
	p.skip(9) // 43 guest_time … 51 env_end
	s.ExitCode = int32(p.int())
}

// ParseIO parses /proc/PID/io. It does not allocate.
func ParseIO(b []byte, io *snapshot.IO) error {
	*io = snapshot.IO{}
	fields := [...]struct {
		name string
		to   *uint64
	}{
		{"rchar: ", &io.RChar}, {"wchar: ", &io.WChar}, {"syscr: ", &io.SyscR}, {"syscw: ", &io.SyscW},
		{"read_bytes: ", &io.ReadBytes}, {"write_bytes: ", &io.WriteBytes}, {"cancelled_write_bytes: ", &io.CancelledWrite},
	}
	for i := range fields {
		f := &fields[i]
		if len(b) < len(f.name) || string(b[:len(f.name)]) != f.name {
			return malformed("io", "no "+f.name[:len(f.name)-2])
		}
		p := scanner{b: b[len(f.name):]}
		*f.to = p.uint()
		if p.bad || len(p.b) == 0 || p.b[0] != '\n' {
			return malformed("io", f.name[:len(f.name)-2]+" is no number")
		}
		b = p.b[1:]
	}
	return nil
}

// ParseSchedstat parses /proc/PID/schedstat: nanoseconds on a CPU, nanoseconds waiting for one, time slices.
func ParseSchedstat(b []byte, s *snapshot.Sched) error {
	p := scanner{b: b}
	*s = snapshot.Sched{Run: time.Duration(p.uint()), Wait: time.Duration(p.uint()), Slices: p.uint()}
	if p.bad {
		return malformed("schedstat", "not three numbers")
	}
	return nil
}

// scanner reads blank-separated numbers.
type scanner struct {
	b   []byte
	bad bool
}

func (p *scanner) blanks() {
	for len(p.b) > 0 && (p.b[0] == ' ' || p.b[0] == '\t') {
		p.b = p.b[1:]
	}
}

// uint reads an unsigned number. One that does not fit into 64 bits is malformed.
func (p *scanner) uint() uint64 {
	p.blanks()
	var n uint64
	i := 0
	for ; i < len(p.b); i++ {
		c := p.b[i] - '0'
		if c > 9 {
			break
		}
		if n > (1<<64-1-uint64(c))/10 {
			p.bad = true
			return 0
		}
		n = n*10 + uint64(c)
	}
	if i == 0 {
		p.bad = true
	}
	p.b = p.b[i:]
	return n
}

// int reads a signed number.
func (p *scanner) int() int64 {
	p.blanks()
	if len(p.b) > 0 && p.b[0] == '-' {
		p.b = p.b[1:]
		return -int64(p.uint())
	}
	return int64(p.uint())
}

// skip passes over n words.
func (p *scanner) skip(n int) {
	for ; n > 0; n-- {
		p.blanks()
		i := bytes.IndexByte(p.b, ' ')
		if i < 0 {
			i = len(p.b)
		}
		p.b = p.b[i:]
	}
}

// ReadStat reads a kept stat file. The Comm of s is valid until the next read of fs.
func (fs *FS) ReadStat(f File, s *Stat) error {
	b, err := fs.pread(f, "stat")
	if err != nil {
		return err
	}
	return ParseStat(b, s)
}

// Stat reads /proc/PID/stat once, without keeping it.
func (fs *FS) Stat(pid int32, s *Stat) error {
	b, err := fs.once(pid, "stat")
	if err != nil {
		return err
	}
	return ParseStat(b, s)
}

// ReadIO reads a kept io file. Whether io may be read is decided at each read, not at the open: a process that changes its
// user or turns undumpable answers ErrDenied from then on.
func (fs *FS) ReadIO(f File, io *snapshot.IO) error {
	b, err := fs.pread(f, "io")
	if err != nil {
		return err
	}
	return ParseIO(b, io)
}

// IO reads /proc/PID/io once.
func (fs *FS) IO(pid int32, io *snapshot.IO) error {
	b, err := fs.once(pid, "io")
	if err != nil {
		return err
	}
	return ParseIO(b, io)
}

// ReadSchedstat reads a kept schedstat file.
func (fs *FS) ReadSchedstat(f File, s *snapshot.Sched) error {
	b, err := fs.pread(f, "schedstat")
	if err != nil {
		return err
	}
	return ParseSchedstat(b, s)
}

// Schedstat reads /proc/PID/schedstat once.
func (fs *FS) Schedstat(pid int32, s *snapshot.Sched) error {
	b, err := fs.once(pid, "schedstat")
	if err != nil {
		return err
	}
	return ParseSchedstat(b, s)
}

// once opens, reads and closes a small file of a process.
func (fs *FS) once(pid int32, file string) ([]byte, error) {
	f, err := fs.OpenFile(pid, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return fs.pread(f, file)
}
