package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// caveatBook counts what could not be read, by source and reason.
type caveatBook struct {
	entries map[caveatKey]*caveatEntry
}

type caveatKey struct {
	source string
	reason snapshot.GapReason
}

type caveatEntry struct {
	ticks  int
	ids    map[snapshot.ProcID]struct{}
	detail string
	order  int
}

func newCaveatBook() caveatBook { return caveatBook{entries: map[caveatKey]*caveatEntry{}} }

func (b *caveatBook) add(g snapshot.Gap) {
	if g.Reason == snapshot.GapGone && g.ID != nil {
		return // a process that ended between the listing and the read: ordinary
	}
	key := caveatKey{g.Source, g.Reason}
	e := b.entries[key]
	if e == nil {
		if len(b.entries) >= maxCaveats {
			return
		}
		e = &caveatEntry{ids: map[snapshot.ProcID]struct{}{}, detail: g.Detail, order: len(b.entries)}
		b.entries[key] = e
	}
	e.ticks++
	if g.ID != nil && len(e.ids) < maxCaveatIDs {
		e.ids[*g.ID] = struct{}{}
	}
}

func (b *caveatBook) document() []Caveat {
	out := make([]Caveat, 0, len(b.entries))
	orders := map[caveatKey]int{}
	for key, e := range b.entries {
		orders[key] = e.order
		c := Caveat{Source: key.source, Reason: string(key.reason), Processes: len(e.ids), Ticks: e.ticks, Detail: e.detail}
		c.Words = c.words()
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y Caveat) int {
		return cmp.Compare(orders[caveatKey{x.Source, snapshot.GapReason(x.Reason)}],
			orders[caveatKey{y.Source, snapshot.GapReason(y.Reason)}])
	})
	return out
}

// words say a caveat in a few words.
func (c Caveat) words() string {
	what := sourceWords(c.Source)
	if c.Processes > 0 {
		what += " of " + plural(c.Processes, "process")
	}
	switch snapshot.GapReason(c.Reason) {
	case snapshot.GapDenied:
		return what + " (permission denied)"
	case snapshot.GapUnsupported:
		if family(c.Source) == "nvml" {
			return what + " (no NVIDIA driver)"
		}
		return what + " (not available here)"
	case snapshot.GapTimeout:
		return what + " (no answer in time)"
	case snapshot.GapMalformed:
		return what + " (not understood)"
	case snapshot.GapTruncated:
		return what + " (only in part: there was too much)"
	case snapshot.GapGone:
		return what + " (went away)"
	}
	return fmt.Sprintf("%s (%s)", what, c.Reason)
}

func family(source string) string {
	head, _, _ := strings.Cut(source, ".")
	return head
}

// sourceWords names a source for a person.
func sourceWords(source string) string {
	switch source {
	case SourceAgent:
		return "the time in which ptlaunch's agent was restarted"
	case "procfs.io", "procfs.own_io":
		return "bytes read and written"
	case "procfs.environ":
		return "the environment"
	case "procfs.syscall":
		return "the system calls that threads wait in"
	case "procfs.wchan":
		return "where threads wait in the kernel"
	case "procfs.schedstat":
		return "waiting time"
	case "procfs":
		return "processes"
	case "procfs.fd", "files":
		return "open files"
	}
	switch family(source) {
	case "nvml", "gpu":
		return "GPU counters"
	case "psi":
		return "pressure"
	case "cgroup":
		return "control group limits"
	case "diskstats", "blockdev":
		return "block devices"
	case "mounts", "statfs":
		return "file systems"
	case "net", "network":
		return "network traffic"
	case "host":
		return "the machine's CPU and memory"
	}
	return source
}

// loud says whether a caveat belongs on the terminal. What is denied nearly everywhere and only lowers the confidence of a
// judgement is in report.json and in `ptlaunch doctor`, not in every summary.
func (c Caveat) loud() bool {
	if c.Reason == string(snapshot.GapTruncated) {
		return false
	}
	switch c.Source {
	case SourceAgent: // said with how long it lasted
		return false
	case "procfs.syscall", "procfs.wchan", "procfs.environ", "procfs.stack", "procfs.mem", "procfs.status":
		return false
	}
	switch family(c.Source) {
	case "psi", "cgroup", "net", "network", "mounts", "statfs", "inotify":
		return c.Reason == string(snapshot.GapTimeout)
	}
	return true
}
