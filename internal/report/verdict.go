package report

import (
	"fmt"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/detect"
)

// Bands of lost time, as TraceML draws them: a tenth is worth a warning.
const (
	warnShare = 0.10
	// healthyShare is the lost time below which there is nothing to add.
	healthyShare = 0.05
	// judgeLeast is the rank time, in seconds, below which only a grave loss is a verdict.
	judgeLeast = 20
)

// judge makes the one-line verdict.
func judge(d *Document) Verdict {
	if line := failure(d); line != "" {
		return Verdict{Kind: KindFailed, Line: line}
	}
	if d.Self.Samples == 0 {
		return Verdict{Kind: KindTooShort, Line: "Too short to judge: the job ended before the first sample."}
	}
	if d.Shape.RankLives == 0 {
		return Verdict{Kind: KindNotSeen, Line: "No PyTorch process was seen: nothing to judge."}
	}
	longest := 0.0
	for _, r := range d.Time.Ranks {
		longest = max(longest, r.WallSeconds)
	}
	if len(d.Findings) > 0 {
		f := d.Findings[0]
		if f.Share >= findingShare && (longest >= judgeLeast || f.Share >= warnShare) {
			to := phaseWords(detect.Phase(f.Phase), "")
			if f.Phase == string(detect.PhaseCompute) {
				to = "waiting for a CPU"
			}
			return Verdict{Kind: KindHeldBack, Line: fmt.Sprintf("%s of the ranks' time was lost to %s (%s).",
				Percent(f.Share), to, strings.ReplaceAll(f.Cause, "_", " "))}
		}
	}
	if longest < judgeLeast {
		return Verdict{Kind: KindTooShort, Line: fmt.Sprintf("Too short to judge: %s of training were seen.", Duration(seconds(longest)))}
	}
	return Verdict{Kind: KindHealthy, Line: "Healthy: " + healthyWords(d)}
}

// failure says that the job failed, "" when it did not or when that is not known.
func failure(d *Document) string {
	switch {
	case d.End.StartError != "":
		return "The command was not started: " + d.End.StartError + "."
	case d.End.ExitCode != nil && *d.End.ExitCode != 0:
		line := "Failed with " + exitWords(d.End) + "."
		if len(d.End.Words) > 0 {
			line += " " + d.End.Words[0]
		}
		return line
	}
	for _, w := range d.Exits {
		if w.Role == "rank" && w.Known && *w.Code != 0 && d.End.ExitCode != nil {
			return "Failed, although the job said exit 0. " + strings.Join(d.End.Words[:min(1, len(d.End.Words))], "")
		}
	}
	return ""
}

// healthyWords say how healthy, in the figures of the steady state where there is one.
func healthyWords(d *Document) string {
	shares, it := d.Time.Shares, "It"
	if d.Time.Steady != nil {
		shares, it = d.Time.Steady.Shares, "After the first epoch it"
	}
	lost := 0.0
	for _, p := range [...]detect.Phase{detect.PhaseDataWait, detect.PhaseCheckpoint, detect.PhasePeerWait, detect.PhaseOtherWait} {
		lost += shares[string(p)]
	}
	verdict := "nothing held training back"
	if lost >= healthyShare {
		verdict = fmt.Sprintf("nothing held training back for long, though short waits add up to %s", Percent(lost))
	}
	return fmt.Sprintf("%s. %s computed %s of the time, waited %s for data and %s for checkpoints.", verdict, it,
		Percent(shares[string(detect.PhaseCompute)]), Percent(shares[string(detect.PhaseDataWait)]),
		Percent(shares[string(detect.PhaseCheckpoint)]))
}

// phaseWords names a phase for a person. who is what was waited for, "" when that is not known.
func phaseWords(p detect.Phase, who string) string {
	switch p {
	case detect.PhaseCompute:
		return "compute"
	case detect.PhaseDataWait:
		return "waiting for data"
	case detect.PhaseCheckpoint:
		return "checkpoints"
	case detect.PhasePeerWait:
		return "waiting for " + orElse(who, "other ranks")
	case detect.PhaseStartup:
		return "starting up"
	case detect.PhaseShutdown:
		return "shutting down"
	}
	return "other waits"
}
