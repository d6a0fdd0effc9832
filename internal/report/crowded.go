package report

import (
	"fmt"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// crowdedRanks is the finding that ranks which had work to do waited for a CPU to do it on. Such a rank is not blocked: the time
// is in its compute phase, which lasts longer than it would. It says so from a tenth of the ranks' time on.
func (r *Recorder) crowdedRanks(d *Document) (Finding, bool) {
	waited := map[int]time.Duration{}
	var sum time.Duration
	for _, t := range r.lastTotals {
		if t.Role == model.RoleRank && t.HasSched {
			waited[t.Rank] += t.RunQueue
			sum += t.RunQueue
		}
	}
	whole := seconds(d.Time.RankSeconds)
	if whole <= 0 || sum.Seconds() < leastLost || share(sum, whole) < warnShare {
		return Finding{}, false
	}
	ranks := mostlyAffected(waited)
	f := Finding{
		Phase: string(detect.PhaseCompute), Cause: string(detect.CauseCPULimit), LostSeconds: tidy(sum.Seconds()),
		PerRank: tidy(sum.Seconds() / float64(max(1, len(ranks)))), Share: share(sum, whole), Ranks: ranks,
		Confidence: string(model.ConfidenceHigh),
		Evidence:   []string{fmt.Sprintf("their main threads were ready to run and waited for a CPU %s of the time", Percent(share(sum, whole)))},
	}
	if c := r.cgroup; c != nil && c.CPU != nil && c.CPU.Limit != nil && c.CPU.Periods > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the control group may use %s and was throttled in %s of the scheduler's periods (%s)",
			cpuCount(*c.CPU.Limit), Percent(float64(c.CPU.Throttled)/float64(c.CPU.Periods)), c.CPU.File))
	}
	who, _ := affected(ranks, d.Shape.Ranks)
	f.Summary = fmt.Sprintf("CPU: %s had work to do and waited %s for a CPU", who, Duration(seconds(f.PerRank)))
	if d.Shape.CPUsAllowed != nil {
		f.Summary += fmt.Sprintf(": the job may use %s", cpuCount(*d.Shape.CPUsAllowed))
	}
	f.Summary += "."
	f.Advice = "Try more CPUs for the job (its quota, request or affinity), or fewer busy processes and threads on them (num_workers, OMP_NUM_THREADS)."
	return f, true
}
