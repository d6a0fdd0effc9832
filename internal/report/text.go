package report

import (
	"fmt"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// TextOptions are what the text says beside the document: things of the moment and the place.
type TextOptions struct {
	Path  string   // of report.json as a person would open it, "" when nothing was kept
	Notes []string // one line each: telemetry that could not be delivered, a run folder that is elsewhere
}

// maxLines is how long the text may get, notes apart.
const maxLines = 10

// maxFindings is how many findings are worth a person's attention at once.
const maxFindings = 2

// Text writes the document as a person reads it, at most ten lines and one for each note.
func Text(d *Document, opts TextOptions) string {
	lines := []string{headline(d)}
	if s := budgetLine(d); s != "" {
		lines = append(lines, "  "+s)
	}
	if s := ioLine(d); s != "" {
		lines = append(lines, "  "+s)
	}
	if len(d.End.Words) > 0 {
		lines = append(lines, "  "+strings.Join(d.End.Words, " "))
	}
	closing := closingLines(d, opts)
	cold := coldLine(d)
	room := maxLines - len(lines) - len(closing)
	if cold != "" {
		room--
	}
	lines = append(lines, findingLines(d, room)...)
	if cold != "" {
		lines = append(lines, "  "+cold)
	}
	lines = append(lines, closing...)
	return strings.Join(lines, "\n") + "\n"
}

// headline: what ran, how big, how long, how it ended.
func headline(d *Document) string {
	parts := []string{"ptlaunch", d.Run.Name}
	switch {
	case d.Shape.Ranks > 0 && d.Shape.WorkersPerRank > 0:
		parts = append(parts, fmt.Sprintf("%s x %s", plural(d.Shape.Ranks, "rank"), plural(d.Shape.WorkersPerRank, "worker")))
	case d.Shape.Ranks > 0:
		parts = append(parts, plural(d.Shape.Ranks, "rank")+", no workers")
	}
	return strings.Join(append(parts, Duration(seconds(d.End.WallSeconds)), exitWords(d.End)), "  ")
}

// budgetLine: where the ranks' time went, in whole, largest last only by order of the phases.
func budgetLine(d *Document) string {
	if d.Time.RankSeconds <= 0 {
		return ""
	}
	peer := ""
	for _, f := range d.Findings {
		if f.Cause == string(detect.CausePeer) {
			peer = f.Culprit
			break
		}
	}
	other := d.Time.Shares[string(detect.PhaseOtherWait)]
	var parts []string
	for _, p := range [...]detect.Phase{
		detect.PhaseCompute, detect.PhaseDataWait, detect.PhaseCheckpoint, detect.PhasePeerWait, detect.PhaseStartup,
		detect.PhaseShutdown,
	} {
		s := d.Time.Shares[string(p)]
		if s < 0.005 && p != detect.PhaseCompute {
			other += s
			continue
		}
		parts = append(parts, phaseWords(p, peer)+" "+Percent(s))
	}
	if other >= 0.005 {
		parts = append(parts, "other "+Percent(other))
	}
	return strings.Join(parts, "   ")
}

// ioLine: bytes and CPU by role, of the roles that matter to a reader.
func ioLine(d *Document) string {
	var parts []string
	for _, r := range d.Roles {
		name := map[string]string{
			string(model.RoleRank): "ranks", string(model.RoleWorker): "workers",
		}[r.Role]
		if name == "" {
			if d.Shape.RankLives > 0 || r.Role == string(model.RoleHelper) {
				continue
			}
			name = "processes" // no rank was seen: whatever there was
		}
		text := name
		if r.ReadBytes != nil {
			text += fmt.Sprintf(" read %s", Bytes(*r.ReadBytes))
			if *r.StorageReadBytes > 0 {
				text += fmt.Sprintf(" (%s from storage)", Bytes(*r.StorageReadBytes))
			}
			text += fmt.Sprintf(", wrote %s", Bytes(*r.WriteBytes))
			if *r.StorageWriteBytes > 0 {
				text += fmt.Sprintf(" (%s to storage)", Bytes(*r.StorageWriteBytes))
			}
			text += ","
		} else {
			text += ": bytes not readable,"
		}
		parts = append(parts, text+" CPU "+Duration(seconds(r.UserSeconds+r.SystemSeconds)))
	}
	return strings.Join(parts, "   ")
}

// findingLines: what cost most and what to try, or that there is nothing to say. Each finding has two lines; the second
// finding gets one when there is no room.
func findingLines(d *Document, room int) []string {
	var out []string
	shown := 0
	for _, f := range d.Findings {
		if f.Share < findingShare || shown == maxFindings {
			break
		}
		shown++
		what := f.Summary
		if ev := evidenceWords(f.Evidence); ev != "" {
			what += " " + ev
		}
		what = fmt.Sprintf("  %d  %s", shown, what)
		try := f.Advice
		if f.Cause == string(detect.CauseUnknown) && len(f.Caveats) > 0 {
			try = sentence(f.Caveats[0])
		}
		switch {
		case try == "":
			out = append(out, what)
		case shown > 1 && len(out)+2 > room:
			out = append(out, what+" "+try)
		default:
			out = append(out, what, "     "+try)
		}
	}
	if shown == 0 && d.Verdict.Kind != KindFailed {
		out = append(out, "  "+d.Verdict.Line)
	}
	return out
}

// evidenceWords are the first pieces of evidence, as sentences.
func evidenceWords(evidence []string) string {
	const most, width = 2, 160
	var out []string
	n := 0
	for _, e := range evidence {
		if len(out) == most || (len(out) > 0 && n+len(e) > width) {
			break
		}
		out = append(out, e)
		n += len(e)
	}
	return sentence(strings.Join(out, "; "))
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	return s
}

// coldLine: the first epoch, where it was unlike the rest.
func coldLine(d *Document) string {
	first, steady := d.Time.FirstEpoch, d.Time.Steady
	if first == nil || steady == nil {
		return ""
	}
	const unlike = 0.10
	wait := string(detect.PhaseDataWait)
	a, b := first.Shares[wait], steady.Shares[wait]
	if a-b < unlike {
		return ""
	}
	text := fmt.Sprintf("First epoch (cold, %s) apart: waiting for data %s, later %s", Duration(seconds(first.ToSeconds-first.FromSeconds)),
		Percent(a), Percent(b))
	if first.StorageBytes > 0 {
		text += fmt.Sprintf("; it read %s from storage", Bytes(first.StorageBytes))
	}
	return text + "."
}

// closingLines: what could not be seen, ptlaunch's own cost, and where the rest is.
func closingLines(d *Document, opts TextOptions) []string {
	var out []string
	if s := notVisible(d); s != "" {
		out = append(out, "  Not visible here: "+s+".")
	}
	last := "  ptlaunch itself: not measured."
	if d.Self.MaxRSS > 0 {
		last = fmt.Sprintf("  ptlaunch itself: %s, %s.", ownCPU(d), Bytes(d.Self.MaxRSS))
	}
	if opts.Path != "" {
		last += " Report: " + opts.Path
	}
	out = append(out, last)
	for _, n := range opts.Notes {
		out = append(out, "  "+n)
	}
	return out
}

// notVisible lists the caveats that matter to a reader, one per thing.
func notVisible(d *Document) string {
	const most = 4
	seen := map[string]bool{}
	var words []string
	for _, c := range d.Caveats {
		if !c.loud() || seen[sourceWords(c.Source)] {
			continue
		}
		seen[sourceWords(c.Source)] = true
		words = append(words, c.Words)
	}
	if d.Self.UnseenSeconds > 0 {
		words = append(words, Duration(seconds(d.Self.UnseenSeconds))+" of the run (ptlaunch was not running or was held up)")
	}
	if len(words) > most {
		words = append(words[:most:most], fmt.Sprintf("%d more in report.json", len(words)-most))
	}
	return strings.Join(words, "; ")
}

// ownCPU is the agent's share of a core; of a run of seconds its CPU time, most of which its start took.
func ownCPU(d *Document) string {
	const short = 10
	if d.End.WallSeconds < short {
		return Duration(seconds(d.Self.CPUSeconds)) + " of CPU"
	}
	if p := d.Self.CPUShare * 100; p >= 0.95 && p < 9.95 {
		return fmt.Sprintf("%.1f%% of a core", p)
	}
	return Percent(d.Self.CPUShare) + " of a core"
}
