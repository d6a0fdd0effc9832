package model

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// facts are what the rules want to know of a process, worked out of its ProcInfo once per change.
type facts struct {
	python bool // runs a Python interpreter
	// titled: the command line is not one that was executed but a title that the process gave itself (setproctitle). It
	// overwrites the environment's memory as well.
	titled bool
	// bare: it had ended, or could not be read, when its facts were looked for: only its name is known.
	bare     bool
	program  string // base name of the script, module or program that runs, without ".py"
	launcher bool   // program starts ranks: torchrun, accelerate, srun, …
	wrapper  bool   // program runs one other command: sh, conda, numactl, …

	tracker    bool // multiprocessing's resource_tracker
	forkserver bool // multiprocessing's forkserver or a child of it: they share the command line
	spawned    bool // started by multiprocessing's spawn method
	compile    bool // inductor's compile worker
	shmManager bool
	service    string // a logging or monitoring service, "" when none

	training bool // has threads that only a training process has
	nvidia   bool

	rank, localRank, world, restart int // from the environment, None when not there
}

// distributed are the programs that start ranks.
var distributed = []string{
	"torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
	"accelerate", "accelerate.commands.launch", "accelerate.commands.accelerate_cli", "accelerate-launch",
	"deepspeed", "ds", "deepspeed.launcher.launch", "deepspeed.launcher.runner", "deepspeed.launcher.multinode_runner",
	"horovodrun", "horovod.runner.launch", "colossalai", "composer", "composer.cli.launcher", "torchx", "tune", "fabric",
	"srun", "slurmstepd", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prted", "orted", "hydra_pmi_proxy", "hydra_bstrap_proxy",
	"prun", "aprun", "jsrun", "pdsh", "dsh", "flux",
}

// wrappers are the programs that run another command and do no work of their own.
var wrappers = []string{
	"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox", "env", "nice", "ionice", "chrt", "taskset", "numactl", "time", "timeout", "nohup",
	"setsid", "stdbuf", "unbuffer", "xargs", "script", "sudo", "su", "runuser", "gosu", "chroot", "unshare", "nsenter", "setpriv", "prlimit", "systemd-run",
	"tini", "dumb-init", "catatonit", "s6-svscan", "supervisord", "make", "parallel", "watch", "flock", "tee",
	"conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "uv", "uvx", "pixi", "hatch", "rye", "direnv",
	"singularity", "apptainer", "enroot", "docker", "podman", "starter-suid", "starter", "pyxis",
	"wandb", "nsys", "ncu", "nvprof", "perf", "strace", "ltrace", "gdb", "valgrind", "py-spy", "scalene", "memray", "viztracer", "ddtrace-run", "opentelemetry-instrument",
}

// services are programs that train or load nothing, and live beside a rank.
var services = []string{
	"wandb-core", "wandb-service", "wandb", "tensorboard", "mlflow", "aim", "neptune", "clearml-agent", "comet", "raylet",
	"nvidia-smi", "dcgmi", "prometheus", "node_exporter",
}

func factsOf(in *snapshot.ProcInfo) facts {
	f := facts{
		rank:      envInt(in.Env, "RANK"),
		localRank: envInt(in.Env, "LOCAL_RANK"),
		world:     envInt(in.Env, "WORLD_SIZE"),
		restart:   envInt(in.Env, "TORCHELASTIC_RESTART_COUNT"),
		nvidia:    len(in.NVidia) > 0,
	}
	argv := in.Cmdline
	arg0 := ""
	if len(argv) > 0 {
		arg0 = argv[0]
	}
	exe := strings.TrimSuffix(in.Exe, " (deleted)")
	switch {
	case exe != "":
		f.python = isPython(exe)
		f.titled = f.python && arg0 != "" && !isPython(arg0)
	case arg0 != "":
		f.python = isPython(arg0)
	default:
		f.bare = true
		f.python = isPython(in.Comm) || in.Comm == "pt_data_worker"
	}
	f.program = program(argv, f.python && !f.titled)
	if f.program == "" {
		f.program = path.Base(in.Comm)
	}
	f.launcher = isDistributed(f.program) || in.Comm == "pt_elastic"
	f.wrapper = slices.Contains(wrappers, f.program)
	for _, a := range argv {
		if !f.python {
			break
		}
		switch {
		case strings.Contains(a, "multiprocessing.resource_tracker"), strings.Contains(a, "multiprocessing.semaphore_tracker"):
			f.tracker = true
		case strings.Contains(a, "multiprocessing.forkserver"):
			f.forkserver = true
		case strings.Contains(a, "multiprocessing.spawn"), a == "--multiprocessing-fork":
			f.spawned = true
		case strings.Contains(a, "torch/_inductor/compile_worker"), strings.Contains(a, "torch._inductor.compile_worker"):
			f.compile = true
		}
	}
	f.shmManager = f.program == "torch_shm_manager" || path.Base(exe) == "torch_shm_manager"
	if slices.Contains(services, f.program) {
		f.service = f.program
	}
	for _, t := range in.Threads {
		if strings.HasPrefix(t, "pt_autograd") || strings.HasPrefix(t, "pt_nccl") || strings.HasPrefix(t, "pt_gloo") {
			f.training = true
		}
	}
	return f
}

func isDistributed(program string) bool {
	// torchrun is copied and wrapped under names of its own: torchrun_shim.py, torchrun-3.11.
	return strings.HasPrefix(program, "torchrun") || slices.Contains(distributed, program)
}

// isPython reports whether a program is a Python interpreter by its name: python3, python3.13t, pypy3, python3-config not.
func isPython(name string) bool {
	base := path.Base(name)
	rest, ok := strings.CutPrefix(base, "python")
	if !ok {
		rest, ok = strings.CutPrefix(base, "pypy")
	}
	if !ok {
		rest, ok = strings.CutPrefix(base, "pt_main_thread")
	}
	return ok && strings.Trim(rest, "0123456789.dtum") == ""
}

func envInt(env map[string]string, name string) int {
	if s, ok := env[name]; ok {
		if n, err := strconv.Atoi(s); err == nil && n >= 0 {
			return n
		}
	}
	return None
}

// The signal bits of SigCgt that tell a DataLoader worker. PyTorch installs C handlers for BUS, SEGV, FPE and TERM in its
// workers; an elastic agent catches TERM too, but QUIT and more with it, and faulthandler brings ABRT.
const (
	workerSignals = 0x44c0 // BUS, FPE, SEGV, TERM
	otherSignals  = 0x0024 // QUIT, ABRT
	childSignal   = 0x10000
)

func catchesLikeWorker(st *snapshot.Status) bool {
	return st != nil && st.SigCgt&workerSignals == workerSignals && st.SigCgt&otherSignals == 0
}
