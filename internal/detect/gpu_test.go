package detect_test

import (
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// gpus gives rank N the GPU N with these figures.
func gpus(all ...snapshot.GPU) func(*model.Frame) {
	return func(f *model.Frame) {
		for i, g := range all {
			g.UUID, g.Index, g.Minor = "GPU-"+string(rune('a'+i)), int32(i), int32(i)
			limit := 400.0
			g.PowerLimitW = &limit
			f.Raw.GPUs = append(f.Raw.GPUs, g)
		}
	}
}

func gpu(busy, watts float64) snapshot.GPU { return snapshot.GPU{Utilization: &busy, PowerW: &watts} }

func TestBusyGPUHidesTheWaitOfItsHost(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	j.change = gpus(gpu(1, 390))
	v := play(j, 40)
	if len(v.stalls) != 0 {
		t.Errorf("only exposed time counts: %+v", v.stalls[0])
	}
	if s := v.share(0, detect.PhaseCompute); s < 0.8 {
		t.Errorf("compute %.2f", s)
	}
}

func TestStarvedGPU(t *testing.T) {
	j := loaders(1, 4, always(readDisk))()
	j.change = gpus(gpu(0.5, 200))
	s := ptr(play(j, 40)).stall(0, detect.PhaseDataWait)
	if s == nil || s.Cause != detect.CauseStorageThroughput || s.Facts[detect.FactGPUBusy] != 0.5 {
		t.Errorf("%+v", s)
	}
}

func ptr(v verdict) *verdict { return &v }

// TestSpinningGPUWaitsForTheOddOne: NVIDIA/nccl#968. 100 % busy at the power of an idle device is a wait in a collective; the
// GPU that does not spin belongs to the culprit.
func TestSpinningGPUWaitsForTheOddOne(t *testing.T) {
	j := newJob(3, 0)
	for r := range 3 {
		j.rank(r).play = always(computing)
	}
	j.change = gpus(gpu(1, 70), gpu(0, 60), gpu(1, 72))
	v := play(j, 40)
	for _, r := range []int{0, 2} {
		if s := v.stall(r, detect.PhasePeerWait); s == nil || s.Culprit != "rank 1" {
			t.Errorf("rank %d: %+v", r, s)
		}
	}
	if s := v.stall(1, detect.PhasePeerWait); s != nil {
		t.Errorf("the culprit waits: %+v", s)
	}
}

func TestBusyGPUAtFullPowerIsHealthy(t *testing.T) {
	j := newJob(2, 0)
	j.rank(0).play, j.rank(1).play = always(collective), always(computing) // a CUDA synchronisation looks like a collective
	j.change = gpus(gpu(1, 390), gpu(1, 385))
	if v := play(j, 40); len(v.stalls) != 0 {
		t.Errorf("%+v", v.stalls[0])
	}
}

func TestGPUCauses(t *testing.T) {
	slow, lost, host := gpu(0.2, 390), gpu(0.2, 60), gpu(0.1, 90)
	heat := uint64(0x40)
	slow.Throttle, lost.Lost = &heat, true
	for name, c := range map[string]struct {
		gpu   snapshot.GPU
		cause detect.Cause
		says  string
	}{
		"throttled":  {slow, detect.CauseGPUThrottled, "clocked itself down"},
		"host-bound": {host, detect.CauseMainThread, "own threads"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(1, 2)
			j.workers(always(forIndex))
			j.rank(0).play = always(computing)
			j.change = gpus(c.gpu)
			s := ptr(play(j, 40)).stall(0, detect.PhaseOtherWait)
			if s == nil || s.Cause != c.cause || !strings.Contains(strings.Join(s.Evidence, "\n"), c.says) {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("lost", func(t *testing.T) {
		j := newJob(1, 2)
		j.workers(always(forIndex))
		j.rank(0).play = pattern(turn{computing, 100}, turn{collective, 300})
		j.change = gpus(lost)
		if s := ptr(play(j, 40)).stall(0, detect.PhaseOtherWait); s == nil || s.Cause != detect.CauseGPULost {
			t.Errorf("%+v", s)
		}
	})
}

func TestWorkersRestartedEveryEpoch(t *testing.T) {
	j := newJob(1, 2)
	j.workers(always(forIndex))
	j.warmUp()
	rank := j.rank(0)
	for range 5 {
		rank.play = always(computing)
		j.workers(always(forIndex))
		j.run(4)
		for slot := range 2 {
			j.kill(j.worker(0, slot))
		}
		for slot := range 2 {
			w := j.hire(rank, slot)
			w.play = always(computing)
		}
		rank.play = always(forData)
		j.run(3)
	}
	rank.play = always(computing)
	j.run(5)
	v := j.finish()
	s := v.stall(0, detect.PhaseDataWait)
	if s == nil || s.Cause != detect.CauseWorkerStartup {
		t.Fatalf("%+v", s)
	}
	if got := v.share(0, detect.PhaseDataWait); got < 0.3 || got > 0.4 { // 15 of 46 seconds
		t.Errorf("data_wait %.2f", got)
	}
}
