package detect_test

import (
	"strings"
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// waitingRank waits for data half of its time.
var waitingRank = pattern(turn{computing, 4}, turn{forData, 5}, turn{computing, 1})

// scenario is a job whose rank 0 loses time in a phase for a cause. The same is played with the system calls denied: the
// cause must then be the same, or unknown.
type scenario struct {
	name    string
	build   func() *job
	phase   detect.Phase
	cause   detect.Cause
	culprit string
	says    string // in the evidence
}

func loaders(ranks, workers int, play func(int) act) func() *job {
	return func() *job {
		j := newJob(ranks, workers)
		for r := range ranks {
			j.rank(r).play = waitingRank
		}
		j.workers(play)
		return j
	}
}

func with(build func() *job, change func(*job)) func() *job {
	return func() *job {
		j := build()
		change(j)
		return j
	}
}

func alone(play func(int) act) func() *job {
	return func() *job {
		j := newJob(1, 0)
		j.rank(0).play = play
		return j
	}
}

var scenarios = []scenario{
	{
		name: "large reads from a throttled disk", build: loaders(1, 4, always(readDisk)),
		phase: detect.PhaseDataWait, cause: detect.CauseStorageThroughput, says: "wait for files",
	},
	{
		name: "small reads from a slow disk", build: loaders(1, 4, always(readSmall)),
		phase: detect.PhaseDataWait, cause: detect.CauseStorageLatency, says: "small",
	},
	{
		name: "opens on a FUSE mount", build: loaders(1, 4, always(openFuse)),
		phase: detect.PhaseDataWait, cause: detect.CauseStorageLatency, culprit: "/mnt/data (fuse.gcsfuse)", says: "opening",
	},
	{
		name: "random faults in a mapped file", build: loaders(1, 2, always(faulting)),
		phase: detect.PhaseDataWait, cause: detect.CauseStorageLatency, says: "page faults",
	},
	{
		name: "decoding with CPUs free", build: loaders(1, 2, always(decoding)),
		phase: detect.PhaseDataWait, cause: detect.CauseTooFewWorkers, says: "idle meanwhile",
	},
	{
		name: "asleep in work of their own", build: loaders(1, 2, always(asleep)),
		phase: detect.PhaseDataWait, cause: detect.CauseTooFewWorkers, says: "asleep",
	},
	{
		name: "decoding on all CPUs", build: with(loaders(1, 4, always(decoding)), func(j *job) { j.idle = 0.1 }),
		phase: detect.PhaseDataWait, cause: detect.CauseWorkerCPU, says: "at work",
	},
	{
		name: "crowded CPUs", build: with(loaders(1, 8, always(crowded)), func(j *job) { j.idle = 0 }),
		phase: detect.PhaseDataWait, cause: detect.CauseCPULimit, says: "wait for a CPU",
	},
	{
		name: "quota with idle CPUs beside it", build: with(loaders(1, 8, always(crowded)), func(j *job) { j.change = quota(2) }),
		phase: detect.PhaseDataWait, cause: detect.CauseCPULimit, culprit: "CPU limit 2.0", says: "throttled",
	},
	{
		name: "one slow worker", build: with(loaders(1, 4, always(forIndex)), func(j *job) { j.worker(0, 3).play = always(decoding) }),
		phase: detect.PhaseDataWait, cause: detect.CauseSlowWorker, culprit: "worker 3", says: "keeps the order",
	},
	{
		name: "one worker asleep", build: with(loaders(1, 3, always(forIndex)), func(j *job) { j.worker(0, 0).play = always(asleep) }),
		phase: detect.PhaseDataWait, cause: detect.CauseSlowWorker, culprit: "worker 0",
	},
	{
		name: "sockets", build: loaders(1, 4, always(fromSocket)),
		phase: detect.PhaseDataWait, cause: detect.CauseNetwork,
	},
	{
		name: "no workers, slow disk", build: alone(pattern(turn{computing, 5}, turn{readDisk, 5})),
		phase: detect.PhaseDataWait, cause: detect.CauseNoWorkers, says: "main thread loads",
	},
	{
		name: "memory limit", build: with(loaders(1, 4, always(faulting)), func(j *job) { j.change = memoryLimit }),
		phase: detect.PhaseDataWait, cause: detect.CauseMemory, says: "stalled for memory",
	},
	{
		name: "pin thread burns the CPU", build: with(loaders(1, 4, always(forIndex)), func(j *job) {
			busy := forPin
			busy.otherCPU = 1
			j.rank(0).play = pattern(turn{computing, 4}, turn{busy, 5}, turn{computing, 1})
			j.rank(0).threads = []string{"python3", "pt_data_pin"}
		}),
		phase: detect.PhaseDataWait, cause: detect.CauseMainThread, says: "Python is busy",
	},
	{
		name: "nobody reads the output", build: with(loaders(1, 2, always(forIndex)), func(j *job) {
			j.rank(0).play = pattern(turn{computing, 20}, turn{forStdout, 60})
		}),
		phase: detect.PhaseOtherWait, cause: detect.CauseOutputBlocked,
	},
	{
		name: "straggler asleep", build: func() *job {
			j := newJob(2, 0)
			j.rank(0).play = pattern(turn{computing, 3}, turn{collective, 5})
			j.rank(1).play = pattern(turn{computing, 3}, turn{asleep, 5})
			return j
		},
		phase: detect.PhasePeerWait, cause: detect.CausePeer, culprit: "rank 1", says: "asleep",
	},
	{
		name: "peer stopped", build: func() *job {
			j := newJob(2, 0)
			j.rank(0).play = pattern(turn{computing, 10}, turn{collective, 100})
			j.rank(1).play = pattern(turn{computing, 10}, turn{stopped, 100})
			return j
		},
		phase: detect.PhasePeerWait, cause: detect.CausePeer, culprit: "rank 1", says: "other_wait",
	},
	{
		name: "peer with slow data", build: func() *job {
			j := newJob(2, 2)
			j.rank(0).play = pattern(turn{computing, 3}, turn{collective, 12})
			j.rank(1).play = pattern(turn{computing, 3}, turn{forData, 12})
			j.workers(always(forIndex))
			j.worker(1, 0).play, j.worker(1, 1).play = always(readDisk), always(readDisk)
			return j
		},
		phase: detect.PhasePeerWait, cause: detect.CausePeer, culprit: "rank 1", says: "data_wait",
	},
}

func quota(limit float64) func(*model.Frame) {
	return func(f *model.Frame) {
		used := limit
		f.Cgroup = &model.CgroupRate{
			Cgroup:         &snapshot.Cgroup{CPU: &snapshot.CgroupCPU{File: "cpu.max", Limit: &limit}},
			ThrottledShare: 0.6, PeriodsShare: 0.9, CPUs: &used,
		}
	}
}

func memoryLimit(f *model.Frame) {
	limit := uint64(600 << 20)
	f.Cgroup = &model.CgroupRate{
		Cgroup: &snapshot.Cgroup{Memory: &snapshot.CgroupMemory{Limit: &limit, Usage: 599 << 20}}, NewEvents: map[string]uint64{"max": 30},
	}
	f.Pressure = []model.PressureRate{{Pressure: snapshot.Pressure{Scope: "cgroup", Resource: "memory", Kind: "some"}, Share: 0.4}}
}

func TestCauses(t *testing.T) {
	for _, s := range scenarios {
		for _, blind := range []bool{false, true} {
			name := s.name
			if blind {
				name += " without system calls"
			}
			t.Run(name, func(t *testing.T) {
				j := s.build()
				j.blind = blind
				j.warmUp()
				j.run(30)
				v := j.finish()
				st := v.stall(0, s.phase)
				if st == nil {
					if blind {
						return // not visible without system calls, and nothing wrong was said
					}
					t.Fatalf("no stall in %s; budgets %v", s.phase, v.budgets)
				}
				if st.Cause != s.cause && (!blind || st.Cause != detect.CauseUnknown) {
					t.Errorf("cause %s, want %s\n%q\n%v", st.Cause, s.cause, st.Evidence, st.Facts)
				}
				if blind {
					if len(st.Caveats) == 0 {
						t.Error("no caveat names the missing system calls")
					}
					return
				}
				if s.culprit != "" && st.Culprit != s.culprit {
					t.Errorf("culprit %q, want %q", st.Culprit, s.culprit)
				}
				if all := strings.Join(st.Evidence, "\n"); !strings.Contains(all, s.says) {
					t.Errorf("evidence does not say %q:\n%s", s.says, all)
				}
			})
		}
	}
}

// TestControls are jobs in which nothing is wrong: no stall and no checkpoint may be reported.
func TestControls(t *testing.T) {
	steady := pattern(turn{computing, 19}, turn{forData, 1})
	controls := map[string]func() *job{
		"healthy": with(loaders(1, 4, always(forIndex)), func(j *job) { j.rank(0).play = steady }),
		"asleep on the GPU, workers ahead": with(loaders(1, 2, always(forIndex)), func(j *job) {
			j.rank(0).play = pattern(turn{asleep, 9}, turn{computing, 1})
		}),
		"waits in the CUDA driver's lock": with(loaders(1, 2, always(forIndex)), func(j *job) {
			j.rank(0).play = pattern(turn{collective, 9}, turn{computing, 1})
		}),
		"equal ranks in collectives": func() *job {
			j := newJob(2, 0)
			j.rank(0).play = pattern(turn{computing, 7}, turn{collective, 3})
			j.rank(1).play = pattern(turn{computing, 6}, turn{collective, 4})
			return j
		},
		"collectives over TCP": func() *job {
			j := newJob(2, 0)
			for r := range 2 {
				j.rank(r).play = pattern(turn{act{run: 1, wchar: 300e6, writes: 300}, 2}, turn{computing, 3}, turn{collective, 1})
			}
			return j
		},
		"logs":    alone(always(logging)),
		"offload": alone(always(offloading)),
		"reaped children": func() *job {
			j := newJob(1, 2)
			j.workers(always(forIndex))
			j.rank(0).play = func(i int) act {
				if i%100 == 77 {
					j.rank(0).inherits = 500e6
				}
				return computing
			}
			return j
		},
	}
	for name, build := range controls {
		for _, blind := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				j := build()
				j.blind = blind
				j.warmUp()
				j.run(40)
				v := j.finish()
				for _, s := range v.stalls {
					t.Errorf("stall %s %s of %s (blind %v): %q", s.Phase, s.Cause, s.Lost, blind, s.Evidence)
				}
				for _, c := range v.checkpoints {
					t.Errorf("checkpoint %+v", c)
				}
			})
		}
	}
}
