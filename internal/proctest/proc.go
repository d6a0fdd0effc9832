package proctest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Proc is one process of a fake /proc. What is left out gets a harmless value: state S, one thread, empty I/O.
type Proc struct {
	PID, PPID int32
	SID       int32 // 0: PID 1's
	Start     uint64
	Comm      string
	State     byte
	Args      []string
	Env       map[string]string
	Exe       string
	UTime     time.Duration
	IO        *snapshot.IO
	Threads   []string         // names; none: Comm alone
	Pipes     []string         // held both ways, "pipe:[1]"
	Files     map[string]int64 // open for writing, with their position
	SigCgt    uint64
}

// Add puts a process into the archive, replacing one with the same pid.
func (a *Archive) Add(p Proc) {
	dir := strconv.Itoa(int(p.PID)) + "/"
	a.Remove(p.PID)
	if p.State == 0 {
		p.State = 'S'
	}
	if p.IO == nil {
		p.IO = &snapshot.IO{}
	}
	a.Files[dir+"stat"] = p.stat(p.PID, p.Comm)
	a.Files[dir+"io"] = ioText(p.IO)
	a.Files[dir+"schedstat"] = "1000 2000 3\n"
	a.Files[dir+"statm"] = "100 50 10 1 0 20 0\n"
	a.Files[dir+"status"] = fmt.Sprintf("Name:\t%q\nUid:\t0\t0\t0\t0\nVmSwap:\t0 kB\nRssAnon:\t4 kB\nSigIgn:\t0000000000000000\nSigCgt:\t%016x\nCpus_allowed_list:\t0-1\n", p.Comm, p.SigCgt)
	a.Files[dir+"cmdline"] = joinNUL(p.Args)
	a.Files[dir+"cgroup"] = "0::/job\n"
	a.Files[dir+"wchan"] = "do_poll"
	var env []string
	for name, value := range p.Env {
		env = append(env, name+"="+value)
	}
	a.Files[dir+"environ"] = joinNUL(env)
	if p.Exe != "" {
		a.Links[dir+"exe"] = p.Exe
	}
	a.Links[dir+"ns/net"] = "net:[1]"
	a.threads(dir, &p)
	a.descriptors(dir, &p)
}

// threads writes the threads: the main one, which did all the I/O, then those named.
func (a *Archive) threads(dir string, p *Proc) {
	names := append([]string{p.Comm}, p.Threads...)
	for i, name := range names {
		tid := p.PID + int32(i)
		task := dir + "task/" + strconv.Itoa(int(tid)) + "/"
		a.Files[task+"stat"] = p.stat(tid, name)
		a.Files[task+"io"] = ioText(&snapshot.IO{})
		if i == 0 {
			a.Files[task+"io"] = ioText(p.IO)
		}
	}
}

func (a *Archive) descriptors(dir string, p *Proc) {
	fd := 0
	open := func(target string, flags int, pos int64) {
		name := strconv.Itoa(fd)
		a.Links[dir+"fd/"+name] = target
		a.Files[dir+"fdinfo/"+name] = fmt.Sprintf("pos:\t%d\nflags:\t0%o\nmnt_id:\t27\nino:\t1\n", pos, flags)
		fd++
	}
	open("/dev/null", 0, 0)
	for _, pipe := range p.Pipes {
		open(pipe, 0, 0)
		open(pipe, 1, 0)
	}
	for path, pos := range p.Files {
		open(path, 0o1, pos)
	}
}

// Remove takes a process out of the archive.
func (a *Archive) Remove(pid int32) {
	prefix := strconv.Itoa(int(pid)) + "/"
	for _, m := range [...]map[string]string{a.Files, a.Links} {
		for path := range m {
			if strings.HasPrefix(path, prefix) {
				delete(m, path)
			}
		}
	}
}

func (p *Proc) stat(id int32, name string) string {
	sid := p.SID
	if sid == 0 {
		sid = 1
	}
	const tail = "4096 10 18446744073709551615 1 1 140000000000000 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	return fmt.Sprintf("%d (%s) %c %d %d %d 0 -1 0 1 0 2 0 %d 0 0 0 20 0 %d 0 %d %s",
		id, name, p.State, p.PPID, p.PID, sid, p.UTime/(10*time.Millisecond), 1+len(p.Threads), p.Start, tail)
}

func ioText(io *snapshot.IO) string {
	return fmt.Sprintf("rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: %d\n",
		io.RChar, io.WChar, io.SyscR, io.SyscW, io.ReadBytes, io.WriteBytes, io.CancelledWrite)
}

func joinNUL(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "\x00") + "\x00"
}
