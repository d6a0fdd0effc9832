package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// From what share of the ranks' time on a loss is a finding. Below it a run counts as healthy.
const findingShare = 0.05

// findings ranks what cost most. They rest on the steady part of the run where there is one.
func (r *Recorder) findings(d *Document) []Finding {
	ratio, whole := r.steadyRatio(d)
	merged := r.mergeByCause()
	out := []Finding{}
	explained := map[detect.Phase]float64{}
	for _, m := range merged {
		lost := m.total.lost.Seconds() * ratio(m.cause)
		explained[m.phase] += lost
		if f, ok := r.finding(d, m, lost, whole); ok {
			out = append(out, f)
		}
	}
	phases := d.Time.Phases
	if d.Time.Steady != nil {
		phases = d.Time.Steady.Phases
	}
	for _, phase := range [...]detect.Phase{
		detect.PhaseDataWait, detect.PhaseCheckpoint, detect.PhasePeerWait, detect.PhaseOtherWait,
	} {
		rest := phases[string(phase)] - explained[phase]
		if explained[phase] >= rest/3 {
			continue // what was found speaks for the whole phase
		}
		if f, ok := r.remainder(d, phase, rest, whole); ok {
			out = append(out, f)
		}
	}
	if f, ok := r.crowdedRanks(d); ok {
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.LostSeconds, x.LostSeconds), cmp.Compare(x.Cause, y.Cause), cmp.Compare(x.Phase, y.Phase))
	})
	return out
}

// steadyRatio returns what part of each cause's loss fell into the steady part, and the ranks' time in it.
func (r *Recorder) steadyRatio(d *Document) (ratio func(detect.Cause) float64, whole float64) {
	if d.Time.Steady == nil {
		return func(detect.Cause) float64 { return 1 }, d.Time.RankSeconds
	}
	for _, s := range d.Time.Steady.Phases {
		whole += s
	}
	cut, _ := r.coldStart()
	before, end := r.timeline.before(cut).lost, r.stalls.lostByCause()
	return func(c detect.Cause) float64 {
		i := slices.Index(causes[:], c)
		if i < 0 || end[i] <= 0 {
			return 1
		}
		return 1 - min(1, float64(before[i])/float64(end[i]))
	}, whole
}

// mergedFinding is a cause with all it cost, in whatever phase it did.
type mergedFinding struct {
	finding
	total *stallTotal
}

// mergeByCause adds up the phases of a cause: a save stops its own rank in one phase and the ranks that wait for it in
// another. What is unknown stays apart by phase: it has nothing in common.
func (r *Recorder) mergeByCause() []mergedFinding {
	var out []mergedFinding
	keys := slices.SortedFunc(maps.Keys(r.stalls.totals), func(x, y finding) int {
		return cmp.Or(cmp.Compare(r.stalls.totals[y].lost, r.stalls.totals[x].lost), cmp.Compare(x.cause, y.cause), cmp.Compare(x.phase, y.phase))
	})
	for _, key := range keys {
		t := r.stalls.totals[key]
		i := slices.IndexFunc(out, func(m mergedFinding) bool {
			return m.cause == key.cause && key.cause != detect.CauseUnknown
		})
		if i < 0 {
			clone := *t
			clone.ranks, clone.culprits = maps.Clone(t.ranks), maps.Clone(t.culprits)
			out = append(out, mergedFinding{finding: key, total: &clone})
			continue
		}
		m := out[i].total
		m.lost += t.lost
		m.count += t.count
		for rank, lost := range t.ranks {
			m.ranks[rank] += lost
		}
		for culprit, lost := range t.culprits {
			m.culprits[culprit] += lost
		}
		if t.worst.Lost > m.worst.Lost {
			m.worst = t.worst
		}
	}
	return out
}

// leastLost keeps what is shorter out of the findings, whatever its share: a run of seconds.
const leastLost = 0.5

func (r *Recorder) finding(d *Document, m mergedFinding, lost, whole float64) (Finding, bool) {
	if whole <= 0 || lost < leastLost {
		return Finding{}, false
	}
	ranks := mostlyAffected(m.total.ranks)
	w := m.total.worst
	f := Finding{
		Phase: string(m.phase), Cause: string(m.cause), Second: string(w.Second),
		LostSeconds: tidy(lost), PerRank: tidy(lost / float64(max(1, len(ranks)))), Share: share(seconds(lost), seconds(whole)),
		Ranks: ranks, Intervals: m.total.count, Culprit: heaviest(m.total.culprits), Confidence: string(w.Confidence),
		Evidence: w.Evidence, Caveats: w.Caveats,
	}
	r.phrase(d, &f)
	return f, true
}

// remainder is the time of a phase that no stall explains: waits that each were too short to be judged by themselves.
func (r *Recorder) remainder(d *Document, phase detect.Phase, lost, whole float64) (Finding, bool) {
	if whole <= 0 || lost < leastLost || lost/whole < findingShare {
		return Finding{}, false
	}
	perRank := map[int]time.Duration{}
	for _, b := range r.budgets {
		perRank[b.Rank] += b.Time[phase]
	}
	ranks := mostlyAffected(perRank)
	f := Finding{
		Phase: string(phase), Cause: string(detect.CauseUnknown), LostSeconds: tidy(lost),
		PerRank: tidy(lost / float64(max(1, len(ranks)))), Share: share(seconds(lost), seconds(whole)), Ranks: ranks,
		Confidence: string(model.ConfidenceLow), Caveats: []string{"each wait was too short to be judged by itself"},
	}
	if phase == detect.PhaseCheckpoint {
		f.Cause, f.Confidence, f.Caveats = string(detect.CauseCheckpoint), string(model.ConfidenceMedium), nil
	}
	r.phrase(d, &f)
	return f, true
}

// mostlyAffected are the ranks that lost at least a fifth of what the worst one lost, sorted.
func mostlyAffected(lost map[int]time.Duration) []int {
	var most time.Duration
	for _, d := range lost {
		most = max(most, d)
	}
	ranks := []int{}
	for rank, d := range lost {
		if d > 0 && d >= most/5 {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

func heaviest(culprits map[string]time.Duration) string {
	best := ""
	for _, c := range slices.Sorted(maps.Keys(culprits)) {
		if best == "" || culprits[c] > culprits[best] {
			best = c
		}
	}
	return best
}

// phrase puts a finding into words.
func (r *Recorder) phrase(d *Document, f *Finding) {
	fig := figures{
		lost: Duration(seconds(f.PerRank)), culprit: f.Culprit, ranks: d.Shape.Ranks, workersPerRank: d.Shape.WorkersPerRank,
		workers: d.Shape.Workers,
	}
	fig.who, fig.their = affected(f.Ranks, d.Shape.Ranks)
	if d.Shape.CPUsAllowed != nil {
		fig.cpus = *d.Shape.CPUsAllowed
	}
	cause := detect.Cause(f.Cause)
	if cause == detect.CauseCheckpoint {
		fig.saves = saveFiguresOf(d)
	}
	a := adviceFor(cause)
	subject, happened := a.subject, a.happened
	if cause == detect.CauseUnknown {
		subject, happened = unknownIn(detect.Phase(f.Phase))
	}
	f.Summary = subject + ": " + happened(fig)
	if f.Second != "" {
		f.Summary += fmt.Sprintf(" (%s cannot be ruled out)", strings.ReplaceAll(f.Second, "_", " "))
	} else if f.Confidence == string(model.ConfidenceLow) && cause != detect.CauseUnknown {
		f.Summary += " (not certain)"
	}
	f.Summary += "."
	if a.try != nil {
		f.Advice = a.try(fig)
	}
}

// unknownIn says what is known of a loss without a cause: the phase.
func unknownIn(p detect.Phase) (subject string, happened func(figures) string) {
	const untold = "; the cause could not be told from here"
	switch p {
	case detect.PhaseDataWait:
		return "Data", func(f figures) string { return f.waited() + "data" + untold }
	case detect.PhaseCheckpoint:
		return "Checkpoints", func(f figures) string { return f.lostTime() + " to checkpoints" + untold }
	case detect.PhasePeerWait:
		return "Ranks", func(f figures) string { return f.waited() + "other ranks" + untold }
	}
	return "Waiting", func(f figures) string { return f.lostTime() + untold }
}

// affected names the ranks of a finding, and the pronoun that goes with it.
func affected(ranks []int, total int) (who, their string) {
	switch n := len(ranks); {
	case total <= 1 || n == 0:
		return "training", "its"
	case n == 1:
		return fmt.Sprintf("rank %d", ranks[0]), "its"
	case n == total && n == 2:
		return "both ranks", "their"
	case n >= total:
		return fmt.Sprintf("all %d ranks", total), "their"
	case n == 2:
		return fmt.Sprintf("ranks %d and %d", ranks[0], ranks[1]), "their"
	default:
		return fmt.Sprintf("%d of %d ranks", n, total), "their"
	}
}

// saveFiguresOf sums up the blocking saves. Typical is the median: the first save is often unlike the others.
func saveFiguresOf(d *Document) saveFigures {
	var out saveFigures
	var sizes, blocked, rates []float64
	places := map[string]time.Duration{}
	for _, s := range d.Checkpoints.List {
		if s.Mode != "blocking" {
			continue
		}
		sizes = append(sizes, float64(s.Bytes))
		blocked = append(blocked, s.MaxBlockedSeconds)
		if s.BytesPerSecond > 0 {
			rates = append(rates, s.BytesPerSecond)
		}
		out.ranks = max(out.ranks, len(s.Ranks))
		for _, w := range s.Ranks {
			if w.Mountpoint == "" {
				continue
			}
			places[fmt.Sprintf("%s (%s)", w.Mountpoint, w.FSType)] += seconds(w.Seconds) + 1
			out.remote = out.remote || remoteFS(w.FSType)
		}
	}
	out.count = d.Checkpoints.Blocking
	if len(sizes) == 0 {
		return saveFigures{}
	}
	if size := median(sizes); size > 0 {
		out.size = Bytes(uint64(size))
	}
	out.blocked = Duration(seconds(median(blocked)))
	if len(rates) > 0 {
		out.rate = Rate(median(rates))
	}
	out.where = heaviest(places)
	return out
}

// remoteFS says whether a file system is behind a network or a user-space server.
func remoteFS(fsType string) bool {
	for _, prefix := range [...]string{"nfs", "fuse", "cifs", "smb", "ceph", "lustre", "9p", "gpfs", "beegfs", "glusterfs", "virtiofs", "afs"} {
		if strings.HasPrefix(fsType, prefix) {
			return true
		}
	}
	return false
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return v[(len(v)-1)/2]
}
