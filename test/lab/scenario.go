package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Scenario is one job in one environment, and what is true about it.
type Scenario struct {
	Name  string
	Job   string // the function of jobs/*.py, where it has another name
	Ranks int    // 2: under torchrun; 0: plain python
	Env   Env
	// Causes are the right answers by phase: for a rank that spends at least a tenth of its wall time in the phase, one of
	// these has to be named as the cause. A scenario without any is a control: nothing may be reported.
	Causes map[string][]string
	// Named is a cause that has to be named in some stall, where the job cannot feel it and so has no truth of it.
	Named string
	// Blurred: kernel and GPU cannot tell the phases apart here, so the shares are printed but not held against the goal.
	Blurred string
	// Exit is the job's expected exit code.
	Exit int
	// Says is text that the report has to hold, for scenarios that end in a failure.
	Says string
}

// Env is what a scenario changes about the machine.
type Env struct {
	CPUQuota    float64 // CPUs; 0: no limit
	MemoryLimit int64   // bytes; 0: no limit
	Slow        Slow    // the file system behind $LAB_SLOW
	DiskBPS     int64   // limit of reads and of writes of that disk, bytes per second
	ShmBytes    int64   // size of a /dev/shm of its own; 0: the machine's
	FeedBPS     int64   // a server on loopback that gives so many bytes per second; its port is $LAB_PORT
	DeafOutput  bool    // nobody reads the job's output for some seconds
	GPUs        string  // lines of a fake NVML library's scenario (package nvmltest), "" for no library
}

// Slow is a kind of slow file system.
type Slow string

// The slow file systems.
const (
	SlowNone Slow = ""
	SlowFUSE Slow = "fuse" // every open takes 20 ms
	SlowDisk Slow = "disk" // ext4 on a loop device, limited to Env.DiskBPS
)

// Control says that nothing is wrong in it.
func (s Scenario) Control() bool { return len(s.Causes) == 0 && s.Says == "" && s.Named == "" }

func (s Scenario) job() string {
	if s.Job != "" {
		return s.Job
	}
	return s.Name
}

const (
	mb       = 1 << 20
	slowDisk = 20 * mb
)

func dataWait(causes ...string) map[string][]string { return map[string][]string{"data_wait": causes} }

func saveWait() map[string][]string { return map[string][]string{"checkpoint": {"checkpoint"}} }

// scenarios is the laboratory's programme, in the order in which it runs.
func scenarios() []Scenario {
	throttled := Env{Slow: SlowDisk, DiskBPS: slowDisk}
	return []Scenario{
		{Name: "healthy"},
		{Name: "healthy_sleep"},
		{Name: "no_workers", Causes: dataWait("no_workers"), Blurred: "the rank is on the CPU whether it loads or computes"},
		{Name: "no_workers_cheap"},
		{Name: "no_workers_disk", Env: throttled, Causes: dataWait("no_workers", "storage_throughput")},
		{Name: "too_few_workers", Causes: dataWait("too_few_workers")},
		{Name: "too_few_workers_asleep", Causes: dataWait("too_few_workers")},
		{Name: "worker_cpu", Causes: dataWait("worker_cpu")},
		{Name: "slow_worker_cpu", Causes: dataWait("slow_worker")},
		{Name: "slow_worker_asleep", Causes: dataWait("slow_worker")},
		{Name: "slow_worker_disk", Env: Env{Slow: SlowFUSE}, Causes: dataWait("slow_worker", "storage_latency")},
		{Name: "cpu_quota", Env: Env{CPUQuota: 0.5}, Causes: dataWait("cpu_limit")},
		{Name: "crowded", Causes: dataWait("cpu_limit")},
		{Name: "restart", Causes: dataWait("worker_startup")},
		{Name: "restart_persistent"},
		{Name: "fuse", Env: Env{Slow: SlowFUSE}, Causes: dataWait("storage_latency")},
		{Name: "fuse_control"},
		{Name: "disk", Env: throttled, Causes: dataWait("storage_throughput")},
		{Name: "cold_warm", Env: throttled, Causes: dataWait("storage_throughput")},
		{Name: "mapped", Env: throttled, Causes: dataWait("storage_throughput", "storage_latency")},
		{Name: "lmdb_cold", Env: throttled, Causes: dataWait("storage_throughput", "storage_latency")},
		{Name: "network", Env: Env{FeedBPS: 2 * mb}, Causes: dataWait("network")},
		// Both are true: the files do not fit into the memory limit, and are therefore read from the disk again and again.
		{Name: "memory", Env: Env{Slow: SlowDisk, DiskBPS: 2 * slowDisk, MemoryLimit: 340 * mb}, Causes: dataWait("memory", "storage_throughput")},
		{Name: "shm_full", Env: Env{ShmBytes: 24 * mb}, Exit: 1, Says: "SIGBUS"},
		{Name: "main_thread", Causes: map[string][]string{"other_wait": {"main_thread"}},
			Blurred: "the rank is on the CPU whether it collates or computes"},
		{Name: "output_blocked", Env: Env{DeafOutput: true}, Causes: map[string][]string{"other_wait": {"output_blocked"}}},
		{Name: "logs"},
		{Name: "save_blocking", Causes: saveWait()},
		{Name: "save_overwrite", Causes: saveWait()},
		{Name: "save_rename", Causes: saveWait()},
		{Name: "save_fsync_slow", Env: throttled, Causes: saveWait()},
		{Name: "save_thread", Env: throttled},
		{Name: "save_child", Env: throttled},
		{Name: "save_small"},
		{Name: "ddp_healthy", Ranks: 2},
		{Name: "straggler", Ranks: 2, Causes: map[string][]string{"peer_wait": {"peer"}}},
		{Name: "gc_pauses", Ranks: 2, Causes: map[string][]string{"peer_wait": {"peer"}, "other_wait": {"main_thread"}},
			Blurred: "a full collection looks like any other Python"},
		{Name: "sharded_save", Ranks: 2, Causes: map[string][]string{"checkpoint": {"checkpoint"}, "peer_wait": {"peer"}}},
		{Name: "rank0_saves", Ranks: 2, Env: throttled,
			Causes: map[string][]string{"checkpoint": {"checkpoint"}, "peer_wait": {"peer"}}},
		{Name: "stopped", Ranks: 2, Causes: map[string][]string{"peer_wait": {"peer"}, "other_wait": {"unknown"}}},
		{Name: "gpu_busy", Job: "healthy", Env: Env{GPUs: gpu(0, 95, 600)}},
		{Name: "gpu_starved", Job: "too_few_workers_asleep", Env: Env{GPUs: gpu(0, 20, 150)}, Causes: dataWait("too_few_workers")},
		{Name: "gpu_no_workers", Job: "no_workers", Env: Env{GPUs: gpu(0, 40, 300)}, Causes: dataWait("no_workers")},
		{Name: "gpu_spinning", Job: "straggler", Ranks: 2, Env: Env{GPUs: gpu(0, 100, 120) + gpu(1, 95, 600)},
			Causes: map[string][]string{"peer_wait": {"peer"}}},
		{Name: "gpu_throttled", Job: "healthy", Env: Env{GPUs: gpu(0, 95, 600) + "4 0 throttle 64\n4 0 sm_clock 700\n"},
			Named: "gpu_throttled"},
		{Name: "gpu_lost", Job: "healthy_sleep", Env: Env{GPUs: gpu(0, 95, 600) + gpuLost(8)}, Named: "gpu_lost"},
	}
}

// gpu is the lines of one healthy GPU of 700 W that is so busy (percent) and draws so many watts.
func gpu(index, busy, watts int) string {
	return strings.NewReplacer("#", strconv.Itoa(index), "BUSY", strconv.Itoa(busy), "MILLIWATTS", strconv.Itoa(watts*1000),
		"COUNT", strconv.Itoa(index+1)).Replace(`0 - count COUNT
0 # name NVIDIA H100 80GB HBM3
0 # uuid GPU-#
0 # minor #
0 # utilization BUSY
0 # memory_utilization 30
0 # memory_total 85899345920
0 # memory_used 1073741824
0 # power MILLIWATTS
0 # power_limit 700000
0 # temperature 55
0 # sm_clock 1700
0 # max_sm_clock 1980
0 # throttle 4
`)
}

// gpuLost makes every call about GPU 0 fail with "GPU is lost" from that second on.
func gpuLost(second int) string {
	var lines strings.Builder
	for _, key := range strings.Fields("name uuid minor utilization memory_utilization memory_total memory_used power power_limit " +
		"temperature sm_clock max_sm_clock throttle") {
		fmt.Fprintf(&lines, "%d 0 %s error 15\n", second, key)
	}
	return lines.String()
}
