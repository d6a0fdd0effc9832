package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// gpuWatch joins ranks with their GPUs and keeps each GPU's latest figures. Without GPU counters all of it is idle.
type gpuWatch struct {
	t    *Thresholds
	last map[string]*gpuState // by UUID
	list []*gpuState          // in the order of the snapshot
	rank map[snapshot.ProcID]*gpuState
}

// gpuState is one GPU now.
type gpuState struct {
	index, minor int32
	rank         int // the rank that uses it, None when no rank was joined
	name         string
	utilization  float64 // 0..1, -1: not known
	power        float64 // of the limit, -1: not known
	throttle     uint64
	lost, stale  bool
}

// NVML's clocks event reasons for heat, power and hardware slowdown (nvmlClocksEventReasons in nvml.h): the application clock
// setting, idle and sync boost are no slowdown.
const gpuSlowdown = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

func newGPUWatch(t *Thresholds) *gpuWatch {
	return &gpuWatch{t: t, last: map[string]*gpuState{}, rank: map[snapshot.ProcID]*gpuState{}}
}

func (g *gpuWatch) observe(f *model.Frame) {
	if f.Raw == nil || len(f.Raw.GPUs) == 0 {
		return
	}
	g.list = g.list[:0]
	for i := range f.Raw.GPUs {
		raw := &f.Raw.GPUs[i]
		s := g.last[raw.UUID]
		if s == nil {
			s = &gpuState{rank: model.None}
			g.last[raw.UUID] = s
		}
		*s = gpuState{
			index: raw.Index, minor: raw.Minor, name: raw.Name, utilization: -1, power: -1, rank: s.rank,
			lost: raw.Lost, stale: raw.Stale,
		}
		if raw.Utilization != nil && !raw.Lost && !raw.Stale {
			s.utilization = *raw.Utilization
		}
		if raw.PowerW != nil && raw.PowerLimitW != nil && *raw.PowerLimitW > 0 {
			s.power = *raw.PowerW / *raw.PowerLimitW
		}
		if raw.Throttle != nil {
			s.throttle = *raw.Throttle
		}
		g.list = append(g.list, s)
	}
}

// attach finds the GPU of a rank: the only device it holds open, else the one its LOCAL_RANK points to.
func (g *gpuWatch) attach(tl *timeline, info *snapshot.ProcInfo) {
	if s := g.find(tl, info); s != nil {
		s.rank = tl.rank
		g.rank[tl.id] = s
	}
}

func (g *gpuWatch) find(tl *timeline, info *snapshot.ProcInfo) *gpuState {
	if info != nil && len(info.NVidia) == 1 {
		for _, s := range g.list {
			if s.minor == info.NVidia[0] {
				return s
			}
		}
	}
	if tl.local >= 0 && tl.local < len(g.list) {
		return g.list[tl.local]
	}
	if len(g.list) == 1 {
		return g.list[0]
	}
	return nil
}

// busy is the utilisation of a rank's GPU, 0 when there is none or it is not known.
func (g *gpuWatch) busy(tl *timeline, info *snapshot.ProcInfo) float64 {
	if s := g.find(tl, info); s != nil {
		return max(0, s.utilization)
	}
	return 0
}

func (g *gpuWatch) of(tl *timeline) *gpuState { return g.rank[tl.id] }

// spinning says whether a GPU is busy with waiting: a collective's kernel reads 100 %, at the power of an idle device.
func (g *gpuWatch) spinning(s *gpuState) bool {
	return s != nil && s.utilization >= g.t.GPUSpin && s.power >= 0 && s.power < g.t.GPUSpinPower
}

// correct lets the GPU have its say about a slice. Only exposed time counts: what the host waits for while its GPU works
// is hidden. And an idle GPU under a busy host is a loss that the host's counters alone cannot show.
func (g *gpuWatch) correct(tl *timeline, s *slice) {
	gpu := g.of(tl)
	if gpu != nil && gpu.lost { // nothing computes any more; a rank asleep in nothing we can name waits for it
		d := min(s.parts[inCompute], s.blocked)
		s.parts[inCompute] -= d
		s.parts[inOther] += d
	}
	if gpu == nil || gpu.utilization < 0 {
		return
	}
	if g.spinning(gpu) && s.around.multi {
		s.parts[inPeer] += s.parts[inCompute]
		s.parts[inCompute] = 0
		s.peer = g.culprit(tl)
		return
	}
	length := s.length() - s.parts[inStartup]
	lost := s.parts[inData] + s.parts[inCheckpoint] + s.parts[inOther] + s.parts[inPeer]
	idle := time.Duration((1 - min(1, gpu.utilization)) * float64(length))
	if lost > idle {
		for _, i := range lossPhases {
			d := s.parts[i] - scale(s.parts[i], idle, lost)
			s.parts[i] -= d
			s.parts[inCompute] += d
		}
		return
	}
	if gpu.utilization < g.t.GPUIdle && s.run > length/2 {
		d := min(s.parts[inCompute], idle-lost)
		s.parts[inCompute] -= d
		s.parts[inOther] += d
	}
}

// culprit is the rank whose GPU is not spinning while the others' are.
func (g *gpuWatch) culprit(tl *timeline) int {
	for _, s := range g.list {
		if s.rank != model.None && s.rank != tl.rank && !g.spinning(s) {
			return s.rank
		}
	}
	return model.None
}
