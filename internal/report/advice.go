package report

import (
	"fmt"
	"math"

	"github.com/ptlaunch/ptlaunch/internal/detect"
)

// figures are what a sentence about a finding may use. They are the run's own.
type figures struct {
	who            string // "both ranks", "rank 3", "training"
	their          string // its, their
	lost           string // time lost by each of them
	culprit        string // "" when not known
	ranks          int
	workersPerRank int
	workers        int
	cpus           float64 // 0 when not known
	saves          saveFigures
}

// saveFigures are the blocking saves of a run.
type saveFigures struct {
	count   int
	size    string // of one save, typically
	where   string // "/mnt/nfs (nfs4)", "" when not known
	blocked string // time each stopped training, typically
	rate    string // "" when not known
	ranks   int    // how many ranks write, at most
	remote  bool   // on a network or FUSE file system
}

// advice is what is said of a cause: what happened, and what to try.
type advice struct {
	subject  string
	happened func(figures) string
	try      func(figures) string // nil: nothing to try can be named
}

// adviceFor is the one table of what ptlaunch recommends. It is keyed by the cause alone: advice that does not follow from
// the cause is how people come to buy disks for a slow decoder. Each entry's advice attacks what its cause names, and must
// not name a remedy that the cause rules out.
func adviceFor(cause detect.Cause) advice {
	switch cause {
	case detect.CauseStorageThroughput, detect.CauseStorageLatency, detect.CauseNetwork, detect.CauseMemory:
		return supplyAdvice(cause)
	case detect.CauseTooFewWorkers, detect.CauseCPULimit, detect.CauseWorkerCPU, detect.CauseNoWorkers,
		detect.CauseSlowWorker, detect.CauseWorkerStartup:
		return workerAdvice(cause)
	}
	return rankAdvice(cause)
}

// supplyAdvice is about where the data comes from.
func supplyAdvice(cause detect.Cause) advice {
	switch cause {
	case detect.CauseStorageThroughput:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waited() + orElse(f.culprit, "storage") + ", which gives no more bytes per second"
			},
			try: func(figures) string {
				return "Try a copy of the data on local disk (or tmpfs if it fits in memory), smaller or compressed files, or a faster volume. A higher num_workers will not help."
			},
		}
	case detect.CauseStorageLatency:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waited() + "many small reads" + from(f.culprit) + ", each of which takes its time"
			},
			try: func(f figures) string {
				s := "Try packing the samples into large files (WebDataset tar shards, LMDB, TFRecord-like) or a local copy"
				if f.workersPerRank > 0 {
					s += fmt.Sprintf("; a higher num_workers (now %d) and prefetch_factor hide part of the latency", f.workersPerRank)
				}
				return s + "."
			},
		}
	case detect.CauseNetwork:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waited() + "data that comes over the network" + from(f.culprit)
			},
			try: func(f figures) string {
				s := "Try a local cache or copy of the data, larger objects per request"
				if f.workersPerRank > 0 {
					s += fmt.Sprintf(", or more requests in flight (num_workers, now %d; prefetch_factor)", f.workersPerRank)
				}
				return s + "."
			},
		}
	}
	return advice{
		subject:  "Memory",
		happened: func(f figures) string { return f.lostTime() + " because memory is short" + at(f.culprit) },
		try: func(f figures) string {
			if f.culprit == "/dev/shm" {
				return "Try a larger /dev/shm (docker --shm-size, --ipc=host, or a Kubernetes emptyDir with medium: Memory), or a lower prefetch_factor."
			}
			return "Try a higher memory limit, or less in memory at once: a lower prefetch_factor or num_workers, no copy of the dataset in every worker."
		},
	}
}

// workerAdvice is about the DataLoader's workers.
func workerAdvice(cause detect.Cause) advice {
	switch cause {
	case detect.CauseTooFewWorkers:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waitedForWorkers() + ", all of which are busy while CPUs and storage have room"
			},
			try: func(f figures) string {
				return fmt.Sprintf("Try num_workers=%d (now %d)%s.", f.moreWorkers(), f.workersPerRank, f.perRank())
			},
		}
	case detect.CauseCPULimit:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				s := f.waitedForWorkers() + ", which crowd the CPUs"
				if f.cpus > 0 {
					s = f.waitedForWorkers() + fmt.Sprintf(": %s crowd the %s allowed", plural(f.workers, "worker"), cpuCount(f.cpus))
				}
				return s
			},
			try: func(figures) string {
				return "Try more CPUs for the job (its quota, request or affinity), cheaper transforms, or decoding on the GPU. Raising num_workers will not help."
			},
		}
	case detect.CauseWorkerCPU:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waitedForWorkers() + ", which spend their time computing (decoding, augmenting) on all the CPUs there are"
			},
			try: func(figures) string {
				return "Try cheaper transforms (decode at the target size, fewer augmentations), samples prepared ahead of time, decoding on the GPU, or more CPUs. Storage is not what is waited for."
			},
		}
	case detect.CauseNoWorkers:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.lostTime() + " loading data in " + f.their + " own main thread: the DataLoader has no workers"
			},
			try: func(f figures) string {
				return fmt.Sprintf("Try num_workers=%d%s, so that loading and computing overlap; with a GPU also pin_memory=True.", f.firstWorkers(), f.perRank())
			},
		}
	case detect.CauseSlowWorker:
		return advice{
			subject: "Data",
			happened: func(f figures) string {
				return f.waited() + orElse(f.culprit, "one worker") + " while the other workers were ready"
			},
			try: func(figures) string {
				return "Look at what that worker loads: one slow shard or outsized samples. Try spreading them over the workers (shuffle, even shards), or in_order=False (PyTorch 2.6 and later) where order does not matter."
			},
		}
	}
	return advice{
		subject: "Data",
		happened: func(f figures) string {
			return f.waited() + "workers that were only just being started"
		},
		try: func(figures) string {
			return "Try persistent_workers=True, so that they are not started again every epoch, and a lighter start (imports and dataset indexes that each worker repeats)."
		},
	}
}

// rankAdvice is about the ranks themselves.
func rankAdvice(cause detect.Cause) advice {
	switch cause {
	case detect.CauseMainThread:
		return advice{
			subject: "Main thread",
			happened: func(f figures) string {
				return f.lostTime() + " in " + f.their + " own Python code while the data was ready"
			},
			try: func(figures) string {
				return "Try moving collate and transforms into the workers, pin_memory, fewer small Python steps per batch, gc.freeze() after start-up; with a GPU torch.compile or CUDA graphs. py-spy shows where it is."
			},
		}
	case detect.CauseCheckpoint:
		return advice{subject: "Checkpoints", happened: checkpointHappened, try: checkpointTry}
	case detect.CausePeer:
		return advice{
			subject:  "Ranks",
			happened: func(f figures) string { return f.waited() + orElse(f.culprit, "another rank") },
			try: func(f figures) string {
				return "See where the time of " + orElse(f.culprit, "that rank") + " goes (report.json, time.ranks): its machine, its share of the data, or its GPU."
			},
		}
	case detect.CauseOutputBlocked:
		return advice{
			subject: "Output",
			happened: func(f figures) string {
				return f.lostTime() + " writing to stdout or stderr, which nobody read" + at(f.culprit)
			},
			try: func(figures) string { return "Try writing the log to a file, or a reader that keeps up." },
		}
	case detect.CauseGPUThrottled:
		return advice{
			subject: "GPU",
			happened: func(f figures) string {
				return f.lostTime() + " because " + orElse(f.culprit, "the GPU") + " clocked itself down"
			},
			try: func(figures) string {
				return "Look at nvidia-smi -q -d PERFORMANCE for the reason: cooling, the power limit, or the power supply."
			},
		}
	case detect.CauseGPULost:
		return advice{
			subject: "GPU",
			happened: func(f figures) string {
				return f.lostTime() + " because " + orElse(f.culprit, "a GPU") + " was lost or its driver stopped answering"
			},
			try: func(figures) string {
				return "Look for Xid lines in the kernel log (dmesg), and take the machine out of use until it was reset."
			},
		}
	}
	return advice{subject: "Waiting", happened: func(f figures) string { return f.lostTime() + "; the cause could not be told from here" }}
}

func checkpointHappened(f figures) string {
	s := f.saves
	if s.count == 0 {
		return f.lostTime() + " in " + f.their + " own checkpoint writes"
	}
	text := plural(s.count, "save")
	if s.size != "" {
		text += " of " + s.size
	}
	if s.where != "" {
		text += " to " + s.where
	}
	text += " stopped training for " + s.blocked
	if s.count > 1 {
		text += " each"
	}
	if s.rate != "" {
		text += " (" + s.rate + ")"
	}
	return text
}

func checkpointTry(f figures) string {
	text := "Try "
	if f.saves.remote {
		text += "saving to local disk and copying later, "
	}
	text += "an asynchronous save (torch.distributed.checkpoint.async_save), "
	if f.ranks > 1 && f.saves.ranks == 1 {
		text += "a save that all ranks share (sharded), "
	}
	return text + "saving less often, or only what changed (LoRA adapters)."
}

// waited begins a sentence about waiting for something.
func (f figures) waited() string { return fmt.Sprintf("%s waited %s for ", f.who, f.lost) }

func (f figures) waitedForWorkers() string { return f.waited() + f.their + " workers" }

// lostTime begins a sentence about time lost to something that is no wait.
func (f figures) lostTime() string { return fmt.Sprintf("%s lost %s", f.who, f.lost) }

func (f figures) perRank() string {
	if f.ranks > 1 {
		return " per rank"
	}
	return ""
}

// moreWorkers is the next number of workers per rank that is worth a try: twice as many, within the CPUs when the present
// ones are already near them.
func (f figures) moreWorkers() int {
	n := max(2, 2*f.workersPerRank)
	if share := f.cpuShare(); share > f.workersPerRank {
		n = min(n, share)
	}
	return n
}

// firstWorkers is a number of workers to begin with.
func (f figures) firstWorkers() int {
	const usual = 4
	if share := f.cpuShare(); share > 0 {
		return max(1, min(usual, share-1))
	}
	return usual
}

// cpuShare is how many CPUs there are per rank, 0 when not known.
func (f figures) cpuShare() int {
	if f.cpus <= 0 {
		return 0
	}
	return int(f.cpus) / max(1, f.ranks)
}

func cpuCount(n float64) string {
	if n == math.Trunc(n) {
		return plural(int(n), "CPU")
	}
	return fmt.Sprintf("%.1f CPUs", n)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func from(culprit string) string {
	if culprit == "" {
		return ""
	}
	return " from " + culprit
}

func at(culprit string) string {
	if culprit == "" {
		return ""
	}
	return " (" + culprit + ")"
}
