// Command goldconv turns the CSV recordings of real PyTorch jobs, sampled every 50 ms beside the job's own log of what it did,
// into what ptlaunch would have recorded: one snapshot a second, the ranks' fast lane at 10 Hz, and truth.json.
//
//	go run ./internal/detect/testdata/goldconv PREFIX OUTDIR
//
// PREFIX.proc.csv.gz, PREFIX.fd.csv.gz, PREFIX.sys.csv.gz and PREFIX.gold.N are read. The folder it writes is what the tests
// of package detect replay.
package main

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// base is the monotonic time that the recordings are moved to: they begin long after boot, as real ones do.
const base = 1000 * time.Second

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: goldconv PREFIX OUTDIR")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "goldconv:", err)
		os.Exit(1)
	}
}

// row is one line of a CSV by column.
type row map[string]string

func (r row) int(k string) int64 { n, _ := strconv.ParseInt(r[k], 10, 64); return n }

// sample is one process at one moment: the process's own line and its main thread's.
type sample struct {
	at           time.Duration
	proc, thread row
}

type process struct {
	pid     int32
	id      snapshot.ProcID
	parent  int32
	rank    int // -1: the launcher
	samples []sample
}

type job struct {
	t0    int64 // ms of the wall clock at base
	procs []*process
	byPID map[int32]*process
	ranks map[int32]int
	sys   []row
	fds   []row
}

func convert(prefix, out string) error {
	j := &job{byPID: map[int32]*process{}, ranks: map[int32]int{}}
	truth, err := j.readTruth(prefix)
	if err != nil {
		return err
	}
	if err := j.readProcs(prefix + ".proc.csv.gz"); err != nil {
		return err
	}
	if j.sys, _, err = readCSV(prefix + ".sys.csv.gz"); err != nil {
		return err
	}
	if j.fds, _, err = readCSV(prefix + ".fd.csv.gz"); err != nil {
		return err
	}
	j.relate()
	if err := j.write(out); err != nil {
		return err
	}
	for i := range truth {
		truth[i].From = base.Seconds() + truth[i].From - float64(j.t0)/1000
		truth[i].To = base.Seconds() + truth[i].To - float64(j.t0)/1000
	}
	b, err := json.Marshal(truth)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "truth.json"), append(b, '\n'), 0o644)
}

// span is a phase as the job logged it, in seconds of the recording's monotonic clock.
type span struct {
	Rank  int     `json:"rank"`
	Phase string  `json:"phase"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
}

func (j *job) readTruth(prefix string) ([]span, error) {
	var all []span
	for rank := 0; ; rank++ {
		b, err := os.ReadFile(fmt.Sprintf("%s.gold.%d", prefix, rank))
		if errors.Is(err, os.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var prev *span
		for _, line := range strings.Fields(string(b)) {
			f := strings.Split(line, ",")
			at, _ := strconv.ParseFloat(f[0], 64)
			pid, _ := strconv.Atoi(f[1])
			j.ranks[int32(pid)] = rank
			if prev != nil {
				prev.To = at
				all = append(all, *prev)
			}
			prev = &span{Rank: rank, Phase: f[2], From: at}
		}
		if prev != nil {
			prev.To = prev.From
			all = append(all, *prev)
		}
	}
}

func readCSV(path string) ([]row, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, "", err
	}
	text, head := string(b), ""
	if strings.HasPrefix(text, "#") {
		head, text, _ = strings.Cut(text, "\n")
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	records, err := r.ReadAll()
	if err != nil {
		return nil, "", err
	}
	var rows []row
	for _, rec := range records[1:] {
		m := row{}
		for i, v := range rec {
			if i < len(records[0]) {
				m[records[0][i]] = v
			}
		}
		rows = append(rows, m)
	}
	return rows, head, nil
}

func (j *job) readProcs(path string) error {
	rows, head, err := readCSV(path)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(head, "# t0_ms=%d", &j.t0); err != nil {
		return err
	}
	for _, r := range rows {
		pid := int32(r.int("pid"))
		p := j.byPID[pid]
		if p == nil {
			p = &process{pid: pid, rank: -1}
			j.byPID[pid] = p
			j.procs = append(j.procs, p)
		}
		at := base + time.Duration(r.int("ts"))*time.Millisecond
		if r["tid"] == "" {
			p.samples = append(p.samples, sample{at: at, proc: r})
		} else if n := len(p.samples); n > 0 && p.samples[n-1].at == at {
			p.samples[n-1].thread = r
		}
	}
	for _, p := range j.procs {
		first := p.samples[0]
		lived := time.Duration(first.proc.int("run") + first.proc.int("wait"))
		start := first.at - lived
		p.id = snapshot.ProcID{PID: p.pid, StartTicks: uint64(start / (10 * time.Millisecond))}
	}
	return nil
}

// relate finds the parents: forked workers share their rank's address space layout, so their stacks lie at the same place.
func (j *job) relate() {
	launcher := j.procs[0]
	stack := map[string]int32{}
	for _, p := range j.procs {
		if rank, ok := j.ranks[p.pid]; ok {
			p.rank, p.parent = rank, launcher.pid
			for _, s := range p.samples {
				if a := pollStack(s); a != "" {
					stack[a] = p.pid
				}
			}
		}
	}
	for _, p := range j.procs {
		if p == launcher || p.parent != 0 {
			continue
		}
		for _, s := range p.samples {
			if pid := stack[pollStack(s)]; pid != 0 {
				p.parent, p.rank = pid, j.ranks[pid]
			}
		}
	}
}

func pollStack(s sample) string {
	f := strings.Fields(s.proc["syscall"])
	if len(f) > 1 && f[0] == "7" && len(f[1]) > 8 {
		return f[1][:10]
	}
	return ""
}

func (j *job) write(out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	w, err := snapshot.NewWriter(out, snapshot.WriterConfig{})
	if err != nil {
		return err
	}
	end := j.procs[0].samples[len(j.procs[0].samples)-1].at
	for _, p := range j.procs {
		end = max(end, p.samples[len(p.samples)-1].at)
	}
	seq := uint64(0)
	for at := base; at <= end+time.Second; at += time.Second {
		if err := w.Write(j.snapshot(seq, at)); err != nil {
			return err
		}
		seq++
	}
	return w.Close()
}

// snapshot is what was seen in the second that ends at a moment.
func (j *job) snapshot(seq uint64, at time.Duration) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Seq: seq, Mono: at, Wall: time.UnixMilli(j.t0).Add(at - base).UTC(), Interval: 1000}
	from := at - time.Second
	for _, p := range j.procs {
		j.add(s, p, from, at)
	}
	sort.SliceStable(s.Fast, func(a, b int) bool { return s.Fast[a].At < s.Fast[b].At })
	for _, r := range j.fds {
		t := base + time.Duration(r.int("ts")-j.t0)*time.Millisecond
		if t <= from || t > at {
			continue
		}
		p := j.byPID[int32(r.int("pid"))]
		flags, _ := strconv.ParseUint(r["flags"], 8, 32)
		if p == nil || p.rank < 0 || flags&3 == 0 && !strings.HasPrefix(r["path"], "/lab") {
			continue
		}
		s.Files = append(s.Files, snapshot.OpenFile{
			ID: p.id, At: t, FD: int32(r.int("fd")), Path: r["path"], Flags: uint32(flags), Pos: r.int("pos"), MountID: 1,
		})
	}
	s.Mounts = []snapshot.Mount{{ID: 1, Mountpoint: "/", FSType: "ext4", Source: "/dev/vda", Device: "vda", At: at}}
	j.host(s, at)
	return s
}

// add reads one process in the second (from, at].
func (j *job) add(s *snapshot.Snapshot, p *process, from, at time.Duration) {
	var last *sample
	fast := time.Duration(0)
	for i := range p.samples {
		x := &p.samples[i]
		if x.at > at {
			break
		}
		if x.at > from && p.rank >= 0 && j.ranks[p.pid] == p.rank && j.isRank(p) && x.at-fast >= 90*time.Millisecond {
			fast = x.at
			s.Fast = append(s.Fast, fastSample(p, x))
		}
		last = x
	}
	if last == nil {
		return
	}
	final := p.samples[len(p.samples)-1].at
	if final <= at-150*time.Millisecond {
		if final > from-150*time.Millisecond {
			io := ioOf(last.proc)
			s.Exits = append(s.Exits, snapshot.Exit{ID: p.id, At: final + 50*time.Millisecond, IO: &io, Status: &snapshot.ExitStatus{}})
		}
		return
	}
	if last.at <= from {
		return
	}
	if p.samples[0].at > from || comm(p, from) != last.proc["comm"] {
		s.Infos = append(s.Infos, j.info(p, last.proc["comm"]))
	}
	s.Procs = append(s.Procs, procOf(p, last))
}

func (j *job) isRank(p *process) bool { _, ok := j.ranks[p.pid]; return ok }

// comm is what a process was called in the snapshot at a moment.
func comm(p *process, at time.Duration) (name string) {
	for _, x := range p.samples {
		if x.at <= at {
			name = x.proc["comm"]
		}
	}
	return name
}

func (j *job) info(p *process, comm string) snapshot.ProcInfo {
	in := snapshot.ProcInfo{ID: p.id, PPID: p.parent, Comm: comm, Exe: "/usr/bin/python3.13"}
	if p.rank < 0 {
		in.Cmdline = []string{"/usr/bin/python3", "/usr/bin/torchrun", "--nproc-per-node", strconv.Itoa(len(j.ranks)), "train.py"}
		return in
	}
	in.Cmdline = []string{"/usr/bin/python3", "-u", "train.py"}
	n := strconv.Itoa(len(j.ranks))
	in.Env = map[string]string{"RANK": strconv.Itoa(p.rank), "LOCAL_RANK": strconv.Itoa(p.rank), "WORLD_SIZE": n, "LOCAL_WORLD_SIZE": n}
	return in
}

func ioOf(r row) snapshot.IO {
	u := func(k string) uint64 { return uint64(r.int(k)) }
	return snapshot.IO{
		RChar: u("rchar"), WChar: u("wchar"), SyscR: u("syscr"), SyscW: u("syscw"), ReadBytes: u("rb"), WriteBytes: u("wb"), CancelledWrite: u("cwb"),
	}
}

func schedOf(r row) *snapshot.Sched {
	return &snapshot.Sched{Run: time.Duration(r.int("run")), Wait: time.Duration(r.int("wait"))}
}

func ticks(n int64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

func waitOf(x *sample) *snapshot.Wait {
	r := x.proc
	w := &snapshot.Wait{WChan: r["wchan"]}
	if w.WChan == "0" {
		w.WChan = ""
	}
	f := strings.Fields(r["syscall"])
	if len(f) == 0 {
		return w
	}
	w.Syscall = &snapshot.Syscall{Running: f[0] == "running"}
	if nr, err := strconv.ParseInt(f[0], 10, 32); err == nil {
		w.Syscall.Nr = int32(nr)
		for i := 1; i < len(f) && i <= 4; i++ {
			w.Syscall.Args[i-1], _ = strconv.ParseUint(strings.TrimPrefix(f[i], "0x"), 16, 64)
		}
	}
	return w
}

func fastSample(p *process, x *sample) snapshot.FastSample {
	io := ioOf(x.proc)
	return snapshot.FastSample{
		ID: p.id, At: x.at, State: x.proc["state"][0], IO: &io, Sched: schedOf(x.proc), Wait: waitOf(x),
		UTime: ticks(x.proc.int("utime")), STime: ticks(x.proc.int("stime")),
	}
}

func procOf(p *process, x *sample) snapshot.Proc {
	r := x.proc
	io := ioOf(r)
	out := snapshot.Proc{
		ID: p.id, At: x.at, PPID: p.parent, State: r["state"][0], UTime: ticks(r.int("utime")), STime: ticks(r.int("stime")),
		MinFlt: uint64(r.int("minflt")), MajFlt: uint64(r.int("majflt")), RSS: uint64(r.int("rss")) * 4096,
		IO: &io, Sched: schedOf(r), Wait: waitOf(x), Status: &snapshot.Status{CPUsAllowed: 2}, NumThreads: 1,
	}
	if x.thread != nil { // the main thread's own file holds nothing of reaped children
		own := ioOf(x.thread)
		out.OwnIO = &own
	}
	return out
}

// host reads the machine at a moment.
func (j *job) host(s *snapshot.Snapshot, at time.Duration) {
	var r row
	for _, x := range j.sys {
		if base+time.Duration(x.int("ts")-j.t0)*time.Millisecond <= at {
			r = x
		}
	}
	if r == nil {
		return
	}
	u := func(k string) uint64 { return uint64(r.int(k)) }
	s.Host = &snapshot.Host{
		At: at, CPUs: 2, User: ticks(r.int("ncpu_user")), System: ticks(r.int("ncpu_sys")), Idle: ticks(r.int("ncpu_idle")),
		IOWait: ticks(r.int("ncpu_iow")), MemTotal: 24 << 30, MemAvailable: 20 << 30,
		Dirty: u("dirty") << 10, Writeback: u("wback") << 10, Cached: u("cached") << 10,
	}
	s.Devices = []snapshot.Device{{
		Name: "vda", Major: 254, At: at, Reads: u("rios"), ReadBytes: u("rsec") * 512, ReadTime: time.Duration(u("rms")) * time.Millisecond,
		Writes: u("wios"), WriteBytes: u("wsec") * 512, WriteTime: time.Duration(u("wms")) * time.Millisecond,
		InFlight: u("infl"), IOTime: time.Duration(u("ioms")) * time.Millisecond,
	}}
	s.Pressure = []snapshot.Pressure{
		{Scope: "system", Resource: "io", Kind: "some", Total: time.Duration(u("psi_some")) * time.Microsecond},
		{Scope: "system", Resource: "io", Kind: "full", Total: time.Duration(u("psi_full")) * time.Microsecond},
		{Scope: "system", Resource: "memory", Kind: "full", Total: time.Duration(u("memfull")) * time.Microsecond},
	}
}
