package detect

import (
	"fmt"
	"sort"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
)

// opinion is one candidate for the cause of a stall. weight is 0..1: how much of what was seen the candidate explains.
type opinion struct {
	cause    Cause
	weight   float64
	culprit  string
	evidence []string
	caveats  []string
	low      bool // the mechanism was not fully visible: never more than low confidence
}

// judge gives an open stall its cause. Each phase has its own candidates; the one that explains most is the cause, another
// one close behind is named as well. Nothing that explains at least half of what was seen: unknown.
func (d *stalls) judge(w *rankWatch, o *ongoing) {
	st := &o.stall
	st.Facts = d.facts(o)
	st.Evidence = []string{fmt.Sprintf("lost %s of %s", durationText(st.Lost), durationText(st.End-st.Start))}
	st.Caveats, st.Second, st.Culprit = nil, "", ""
	var opinions []opinion
	switch st.Phase {
	case PhaseDataWait:
		opinions = d.dataCauses(w, o)
	case PhaseCheckpoint:
		opinions = d.checkpointCauses(w, o)
	case PhasePeerWait:
		opinions = d.peerCauses(o)
	default:
		opinions = d.otherCauses(o)
	}
	sort.SliceStable(opinions, func(i, j int) bool { return opinions[i].weight > opinions[j].weight })
	if len(opinions) == 0 || opinions[0].weight < d.t.Dominant {
		st.Cause, st.Confidence = CauseUnknown, model.ConfidenceLow
		if len(opinions) > 0 {
			st.Second = opinions[0].cause
			st.Evidence = append(st.Evidence, opinions[0].evidence...)
			st.Caveats = append(opinions[0].caveats, "no single cause explains half of what was seen")
		}
		d.missing(o)
		return
	}
	best := &opinions[0]
	st.Cause, st.Culprit = best.cause, best.culprit
	st.Evidence = append(st.Evidence, best.evidence...)
	st.Caveats = best.caveats
	st.Confidence = d.confidence(o, best)
	if len(opinions) > 1 && best.weight-opinions[1].weight < d.t.CloseCandidates && opinions[1].weight >= d.t.Dominant/2 {
		st.Second, st.Confidence = opinions[1].cause, model.ConfidenceLow
		st.Evidence = append(st.Evidence, opinions[1].evidence...)
		st.Caveats = append(st.Caveats, fmt.Sprintf("%s explains nearly as much", opinions[1].cause))
	}
	d.missing(o)
}

// confidence is high after enough lost time with the needed signals there.
func (d *stalls) confidence(o *ongoing, best *opinion) model.Confidence {
	switch {
	case best.low:
		return model.ConfidenceLow
	case o.stall.Lost >= seconds(d.t.ConfidentStallSeconds) && !d.blind:
		return model.ConfidenceHigh
	case o.stall.Lost >= 3*time.Second || best.weight > 0.9:
		return model.ConfidenceMedium
	}
	return model.ConfidenceLow
}

// missing says which signals could not be had.
func (d *stalls) missing(o *ongoing) {
	if d.blind && d.seen {
		o.stall.Caveats = append(o.stall.Caveats,
			"system calls of the ranks and workers were not readable (kernel.yama.ptrace_scope?): judged by states and wait channels alone")
	}
	if !o.amb.hasHost {
		o.stall.Caveats = append(o.stall.Caveats, "the machine's idle CPUs were not known")
	}
}

// facts are the figures that the evidence and the advice rest on.
func (d *stalls) facts(o *ongoing) map[string]float64 {
	a := &o.amb
	f := map[string]float64{}
	all := o.crew.workers()
	if o.crew.live > 0 || len(o.crew.slots) > 0 {
		f[FactWorkers] = float64(max(o.crew.live, len(o.crew.slots)))
		f[FactWorkerBusy] = 1 - idleShare(all)
		f[FactWorkerCPU] = all.computing()
		f[FactWorkerStorage] = all.storage()
		f[FactWorkerNetwork] = all.share(waitSocket)
		f[FactWorkerAsleep] = asleepShare(all)
		f[FactRunQueueRatio] = ratio(all.queue, all.run)
		f[FactSamplesOfWaits] = float64(all.samples)
	}
	reader := all
	if len(o.crew.slots) == 0 {
		reader = &o.crew.rank
	}
	if reader.hasIO && a.elapsed > 0 {
		f[FactReadRate] = float64(reader.rchar) / a.elapsed
		f[FactMajorFaultRate] = float64(reader.majFaults) / a.elapsed
		if reader.syscr > 0 {
			f[FactRequestSize] = float64(reader.rchar) / float64(reader.syscr)
		}
		if reader.rchar > 0 {
			f[FactStorageShare] = float64(reader.readBytes) / float64(reader.rchar)
		}
	}
	f[FactRankCPU] = ratio(o.crew.rank.cpu, o.crew.rank.elapsed)
	if a.hasHost {
		f[FactCPUsAllowed], f[FactFreeCPUs] = a.cpus, a.freeCPUs()
	}
	if a.quota > 0 {
		f[FactCPULimit], f[FactThrottled] = a.quota, a.ofCgroup(a.periods)
	}
	if a.devName != "" {
		f[FactDeviceBusy], f[FactDeviceRate] = a.mean(a.devBusy), a.mean(a.readBytes)
	}
	if a.readLimit > 0 {
		f[FactReadLimit] = a.readLimit
	}
	if a.memLimit > 0 {
		f[FactMemoryNear] = a.memNear
	}
	if a.hasPSI {
		f[FactMemoryPressure] = a.mean(a.memStalled)
	}
	if a.shmUsed >= 0 {
		f[FactShmUsed] = a.shmUsed
	}
	if o.gpu.n > 0 {
		f[FactGPUBusy], f[FactGPUPower] = o.gpu.busy/o.gpu.n, o.gpu.power/o.gpu.n
	}
	f[FactStartupLost] = ratio(o.startupLost, o.stall.Lost)
	return f
}

// asleepKinds are waits of a worker for nothing that we can name: work of its own.
var asleepKinds = []waitKind{waitSleep, waitOther, waitUntimedFutex, waitTimedFutex, waitFutex, waitOpenMP}

func asleepShare(t *tally) float64 { return t.share(asleepKinds...) }

// idleShare is the share in which a worker waited for work, or for its rank to take what it has.
func idleShare(t *tally) float64 { return min(1, t.idle()+t.share(waitPipeWrite)) }
