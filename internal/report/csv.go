package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// CSVHeader names the columns. Rates are per second over the step that ends at the row's time; a field that is not known is
// empty.
var csvHeader = [...]string{
	"time", "seconds", "role", "processes", "cpu_percent", "read_bytes_per_s", "write_bytes_per_s",
	"storage_read_bytes_per_s", "storage_write_bytes_per_s", "read_calls_per_s", "write_calls_per_s", "blocked_percent",
	"runqueue_percent", "major_faults_per_s", "rss_bytes",
}

// CSV writes a row for each step and each role that was active in it: that used CPU time or moved bytes. It is what people
// keep from the batch modes of iotop and dstat.
type CSV struct {
	out       *csv.Writer
	start     time.Time
	startMono time.Duration
	prev      map[model.Role]roleSum
	begun     bool
}

// roleSum is the totals of a role.
type roleSum struct {
	procs                                  int
	cpu, blocked, queue                    time.Duration
	rchar, wchar, syscr, syscw, rbyt, wbyt uint64
	majflt, rss                            uint64
	hasIO, hasSched                        bool
}

// NewCSV returns a CSV for a run that began at start, which is startMono on the clock of its frames.
func NewCSV(w io.Writer, start time.Time, startMono time.Duration) *CSV {
	return &CSV{out: csv.NewWriter(w), start: start, startMono: startMono, prev: map[model.Role]roleSum{}}
}

// Add writes the rows of one step.
func (c *CSV) Add(f *model.Frame) error {
	if !c.begun {
		c.begun = true
		if err := c.out.Write(csvHeader[:]); err != nil {
			return err
		}
	}
	sums := sumRoles(f.Totals)
	if f.Elapsed > 0 {
		for _, role := range [...]model.Role{
			model.RoleLauncher, model.RoleRank, model.RoleWorker, model.RoleHelper, model.RoleOther,
		} {
			now, was := sums[role], c.prev[role]
			if !active(now, was) {
				continue
			}
			if err := c.out.Write(c.row(f, role, now, was)); err != nil {
				return err
			}
		}
	}
	c.prev = sums
	return nil
}

// Flush writes what is left.
func (c *CSV) Flush() error {
	c.out.Flush()
	return c.out.Error()
}

func sumRoles(totals []model.Total) map[model.Role]roleSum {
	sums := map[model.Role]roleSum{}
	for _, t := range totals {
		s := sums[t.Role]
		s.procs += t.Procs
		s.cpu += t.User + t.System
		s.blocked, s.queue = s.blocked+t.Blocked, s.queue+t.RunQueue
		s.rchar, s.wchar, s.syscr, s.syscw = s.rchar+t.RChar, s.wchar+t.WChar, s.syscr+t.SyscR, s.syscw+t.SyscW
		s.rbyt, s.wbyt = s.rbyt+t.ReadBytes, s.wbyt+t.WriteBytes
		s.majflt, s.rss = s.majflt+t.MajFlt, s.rss+t.RSS
		s.hasIO, s.hasSched = s.hasIO || t.HasIO, s.hasSched || t.HasSched
		sums[t.Role] = s
	}
	return sums
}

func active(now, was roleSum) bool {
	return now.cpu > was.cpu || now.rchar > was.rchar || now.wchar > was.wchar || now.rbyt > was.rbyt || now.wbyt > was.wbyt
}

func (c *CSV) row(f *model.Frame, role model.Role, now, was roleSum) []string {
	s := f.Elapsed.Seconds()
	// Totals never go down; a total that was not yet known before is no step.
	rate := func(known bool, now, was uint64) string {
		if !known || now < was {
			return ""
		}
		return strconv.FormatFloat(float64(now-was)/s, 'f', 0, 64)
	}
	percent := func(known bool, d time.Duration) string {
		if !known || d < 0 {
			return ""
		}
		return strconv.FormatFloat(d.Seconds()/s*100, 'f', 1, 64)
	}
	at := f.Mono - c.startMono
	return []string{
		c.start.Add(at).UTC().Format("2006-01-02T15:04:05.000Z"), strconv.FormatFloat(at.Seconds(), 'f', 3, 64), string(role),
		strconv.Itoa(now.procs), percent(true, now.cpu-was.cpu),
		rate(now.hasIO, now.rchar, was.rchar), rate(now.hasIO, now.wchar, was.wchar),
		rate(now.hasIO, now.rbyt, was.rbyt), rate(now.hasIO, now.wbyt, was.wbyt),
		rate(now.hasIO, now.syscr, was.syscr), rate(now.hasIO, now.syscw, was.syscw),
		percent(now.hasSched, now.blocked-was.blocked), percent(now.hasSched, now.queue-was.queue),
		rate(true, now.majflt, was.majflt), strconv.FormatUint(now.rss, 10),
	}
}
