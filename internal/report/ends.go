package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const (
	sigKILL = int32(unix.SIGKILL)
	sigTERM = int32(unix.SIGTERM)
	sigBUS  = int32(unix.SIGBUS)
)

// shellCode is an exit status as a shell writes it.
func shellCode(s snapshot.ExitStatus) int32 {
	if s.Signal != 0 {
		return 128 + s.Signal
	}
	return s.Code
}

// signalName is SIGKILL for 9, "signal 40" where there is no name.
func signalName(n int32) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

func (r *Recorder) end(o model.Outcome) End {
	e := End{At: o.End.UTC(), WallSeconds: r.since(o.EndMono), StartError: o.StartError, Detached: o.Detached}
	if o.Status != nil {
		code := shellCode(*o.Status)
		e.Known, e.ExitCode, e.Signal = true, &code, o.Status.Signal
	}
	return e
}

// exitsDocument lists who ended. The first process's status is the outcome's: nobody knows it better.
func (r *Recorder) exitsDocument(o model.Outcome) []Exit {
	out := []Exit{}
	for _, e := range r.exits {
		x := Exit{
			Role: string(e.Role), Rank: known(e.Rank), PID: e.ID.PID, AtSeconds: r.since(e.At), Orphaned: e.Orphaned,
		}
		if e.Role == model.RoleWorker {
			x.Worker = known(e.Slot)
		}
		status := e.Status
		if e.ID == r.opts.Run.Root && o.Status != nil {
			status = o.Status
		}
		if status != nil {
			x.Known, x.Signal = true, status.Signal
			code := shellCode(*status)
			x.Code = &code
		}
		for _, k := range r.lastRanks {
			if k.ID == e.ID {
				g := k.Generation
				x.Generation = &g
			}
		}
		x.During = r.during(e)
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(x, y Exit) int { return cmp.Compare(x.AtSeconds, y.AtSeconds) })
	return out
}

// during says what a process was in the middle of when it ended.
func (r *Recorder) during(e ended) string {
	const near = 2 * time.Second
	for _, s := range r.checkpoints.saves {
		for _, w := range s.writes {
			if w.CutShort != "" && (w.Writer == e.ID || w.OfRank == e.ID) && e.At-w.End < near && w.End-e.At < near {
				return "writing a checkpoint"
			}
		}
	}
	return ""
}

// survivors are the members that the last frame still shows, if it was taken after the job's end. Helpers are left out:
// Python's resource tracker and its like leave some milliseconds after their parent.
func (r *Recorder) survivors(o model.Outcome) []Survivor {
	if r.last == nil || r.last.Raw == nil || o.Status == nil || o.Detached || r.last.Raw.Mono < o.EndMono {
		return nil
	}
	const young = time.Second
	var out []Survivor
	for _, p := range r.last.Procs {
		if p.ID == r.opts.Run.Root || p.Raw == nil || p.Role == model.RoleHelper || r.last.Mono-p.Start < young {
			continue
		}
		if p.Raw.State == 'Z' || p.Raw.State == 'X' {
			continue
		}
		s := Survivor{Role: string(p.Role), Rank: known(p.Rank), PID: p.ID.PID, State: string(rune(p.Raw.State)), RSS: p.Raw.RSS}
		if p.Role == model.RoleWorker {
			s.Worker = known(p.Slot)
		}
		out = append(out, s)
	}
	return out
}

func processName(info *snapshot.ProcInfo) string {
	if info == nil {
		return ""
	}
	if len(info.Cmdline) > 0 {
		return filepath.Base(info.Cmdline[0])
	}
	return info.Comm
}

// who names a process of the job: rank 3, worker 1 of rank 3.
func who(role string, rank, worker *int) string {
	switch {
	case role == string(model.RoleRank) && rank != nil:
		return fmt.Sprintf("rank %d", *rank)
	case role == string(model.RoleWorker) && worker != nil && rank != nil:
		return fmt.Sprintf("worker %d of rank %d", *worker, *rank)
	case role == string(model.RoleWorker):
		return "a worker"
	case role == string(model.RoleLauncher):
		return "the launcher"
	}
	return "a process"
}

// endWords say how the run ended where there is more to say than its exit code.
func endWords(d *Document) []string {
	var out []string
	if d.End.StartError != "" {
		return []string{"The command was not started: " + d.End.StartError + "."}
	}
	if w := rankDeath(d); w != "" {
		out = append(out, w)
	}
	if w := workerDeath(d); w != "" {
		out = append(out, w)
	}
	if d.OOMKills != nil && *d.OOMKills > 0 {
		limit := ""
		if d.Machine.CgroupMemory != nil {
			limit = ", which may use " + Bytes(*d.Machine.CgroupMemory)
		}
		out = append(out, fmt.Sprintf("The kernel killed %s for lack of memory in the job's control group%s.",
			plural(int(*d.OOMKills), "process"), limit))
	}
	if w := survivorWords(d); w != "" {
		out = append(out, w)
	}
	if !d.End.Known && !d.End.Detached {
		out = append(out, "How the job ended is not known: nobody was left to say it.")
	}
	return out
}

// rankDeath names the rank that died first; the others often only follow it.
func rankDeath(d *Document) string {
	var dead []Exit
	for _, x := range d.Exits {
		if x.Role == string(model.RoleRank) && x.Known && *x.Code != 0 {
			dead = append(dead, x)
		}
	}
	if len(dead) == 0 {
		return ""
	}
	first := dead[0]
	// The job's own exit says it all when there is one rank and no launcher that could hide it.
	if len(dead) == 1 && first.During == "" && first.Signal == d.End.Signal && d.End.ExitCode != nil && *first.Code == *d.End.ExitCode &&
		first.Signal == 0 && !hasLauncher(d) {
		return ""
	}
	var b strings.Builder
	name := who(first.Role, first.Rank, nil)
	fmt.Fprintf(&b, "%s %s", strings.ToUpper(name[:1])+name[1:], died(first))
	if first.During != "" {
		b.WriteString(" while " + first.During)
	}
	if s := afterSignal(d, first); s != "" {
		b.WriteString(s)
	} else {
		fmt.Fprintf(&b, " %s in", Duration(seconds(first.AtSeconds)))
	}
	if n := len(dead) - 1; n > 0 {
		fmt.Fprintf(&b, "; %s followed", plural(n, "other"))
	}
	if hasLauncher(d) && d.End.ExitCode != nil {
		switch {
		case *d.End.ExitCode == 0:
			b.WriteString("; the launcher said exit 0 all the same")
		case *d.End.ExitCode != *first.Code:
			fmt.Fprintf(&b, "; the launcher made that %s", exitWords(d.End))
		}
	}
	return b.String() + "."
}

func hasLauncher(d *Document) bool {
	for _, r := range d.Roles {
		if r.Role == string(model.RoleLauncher) {
			return true
		}
	}
	return false
}

func died(x Exit) string {
	if x.Signal != 0 {
		return fmt.Sprintf("was ended by signal %d (%s)", x.Signal, signalName(x.Signal))
	}
	return fmt.Sprintf("ended with exit %d", *x.Code)
}

// afterSignal says that a rank was killed some time after a signal that asked it to end, with no second signal to
// ptlaunch: somebody between the two lost patience, usually the launcher.
func afterSignal(d *Document, x Exit) string {
	if x.Signal != sigKILL || len(d.Signals) == 0 {
		return ""
	}
	last := d.Signals[len(d.Signals)-1]
	if last.AtSeconds > x.AtSeconds {
		return ""
	}
	by := ""
	if hasLauncher(d) {
		by = ", most likely by its launcher"
	}
	return fmt.Sprintf(", %s after %s had asked the job to end%s",
		Duration(seconds(x.AtSeconds-last.AtSeconds)), signalName(int32(last.Signal)), by)
}

func workerDeath(d *Document) string {
	for _, x := range d.Exits {
		if x.Role != string(model.RoleWorker) || !x.Known || (x.Signal == 0 && *x.Code == 0) || x.Orphaned {
			continue
		}
		name := who(x.Role, x.Rank, x.Worker)
		out := fmt.Sprintf("%s %s %s in", strings.ToUpper(name[:1])+name[1:], died(x), Duration(seconds(x.AtSeconds)))
		switch x.Signal {
		case sigBUS:
			out += "; in a DataLoader worker that usually means that /dev/shm was full"
			if shm := d.Machine.Shm; shm != nil {
				out += fmt.Sprintf(" (%s of %s used at most when looked at)", Bytes(shm.MostUsed), Bytes(shm.SizeBytes))
			}
		case sigKILL:
			out += killedBy(d)
		}
		return out + "."
	}
	return ""
}

// killedBy says who may have sent a SIGKILL, as far as the kernel's own count of its kills tells.
func killedBy(d *Document) string {
	switch {
	case d.OOMKills == nil:
		return "; the kernel's kills for lack of memory could not be counted here"
	case *d.OOMKills > 0:
		return ", most likely by the kernel for lack of memory"
	}
	return ", not by the kernel for lack of memory in the job's control group"
}

func survivorWords(d *Document) string {
	if len(d.Survivors) == 0 {
		return ""
	}
	const most = 3
	var names []string
	for i, s := range d.Survivors {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(d.Survivors)-most))
			break
		}
		state := ""
		if s.State == "D" {
			state = ", stuck in the kernel"
		}
		names = append(names, fmt.Sprintf("%s (pid %d%s)", who(s.Role, s.Rank, s.Worker), s.PID, state))
	}
	verb := "runs"
	if len(d.Survivors) > 1 {
		verb = "run"
	}
	return fmt.Sprintf("The command has ended but %s still %s.", list(names), verb)
}

// exitWords is "exit 1" or "signal 9 (SIGKILL)".
func exitWords(e End) string {
	switch {
	case e.StartError != "":
		return "not started"
	case e.Detached:
		return "still running"
	case e.Signal != 0:
		return fmt.Sprintf("signal %d (%s)", e.Signal, signalName(e.Signal))
	case e.ExitCode != nil:
		return fmt.Sprintf("exit %d", *e.ExitCode)
	}
	return "end unknown"
}
