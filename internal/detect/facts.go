package detect

import (
	"fmt"
	"time"
)

// The keys of Facts. Shares are of the wall time of the stall (0..1) unless said.
const (
	FactWorkers        = "workers"             // DataLoader workers of the rank
	FactWorkerBusy     = "worker_busy"         // mean share in which a worker did not wait for work
	FactWorkerCPU      = "worker_cpu"          // mean share on a CPU or waiting for one
	FactWorkerStorage  = "worker_storage"      // mean share blocked in files
	FactWorkerNetwork  = "worker_network"      // mean share blocked in sockets
	FactWorkerAsleep   = "worker_asleep"       // mean share asleep in work of its own
	FactRunQueueRatio  = "run_queue_ratio"     // time waiting for a CPU relative to time on one, of the workers
	FactBusiestSlot    = "busiest_slot"        // slot of the busiest worker
	FactBusiestBusy    = "busiest_busy"        // its busy share
	FactOthersIdle     = "others_idle"         // mean share in which the others waited for work
	FactReadRate       = "read_rate"           // bytes per second the loaders asked for (rchar), all workers of the rank
	FactRequestSize    = "request_size"        // bytes per read call
	FactStorageShare   = "storage_read_share"  // bytes that came from storage, of those asked for; > 1 with mapped files
	FactMajorFaultRate = "major_fault_rate"    // major faults per second, all workers of the rank
	FactCPUsAllowed    = "cpus_allowed"        // CPUs that the job may use: affinity, cpuset and quota
	FactCPULimit       = "cpu_limit"           // the quota in CPUs
	FactFreeCPUs       = "free_cpus"           // CPUs of the allowed ones that were idle
	FactThrottled      = "throttled_periods"   // share of the scheduler's periods in which the quota ran out
	FactDeviceBusy     = "device_busy"         // of the device read most
	FactDeviceRate     = "device_read_rate"    // bytes per second read from all devices
	FactReadLimit      = "read_limit"          // bytes per second that the cgroup allows
	FactMemoryNear     = "memory_near_limit"   // share of the memory limit in use
	FactMemoryPressure = "memory_pressure"     // share in which tasks stalled for memory
	FactShmUsed        = "shm_used"            // share of /dev/shm in use
	FactRankCPU        = "rank_cpu"            // CPUs that the rank's process used
	FactGPUBusy        = "gpu_busy"            // utilisation of the rank's GPU
	FactGPUPower       = "gpu_power"           // power of its limit
	FactStartupLost    = "worker_startup_lost" // share of the lost time that was spent before new workers' first batch
	FactWriteRate      = "write_rate"          // bytes per second
	FactStorageWait    = "writer_storage"      // share of the write in which the writer waited for storage
	FactWriterCPU      = "writer_cpu"          // CPUs that the writer used
	FactPeerRank       = "peer_rank"           // the rank that was waited for
	FactSamplesOfWaits = "wait_samples"        // readings of what the workers waited in
)

func bytesText(b float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if b >= u.size {
			if b >= 10*u.size {
				return fmt.Sprintf("%.0f %s", b/u.size, u.name)
			}
			return fmt.Sprintf("%.1f %s", b/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f bytes", b)
}

func durationText(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		return d.Round(time.Minute / 10).String()
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func percent(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

func perSecond(x float64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return x / d.Seconds()
}
