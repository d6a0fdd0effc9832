package identity

import (
	"path"
	"strconv"
	"strings"
)

// jobVariables are the environment variables in which schedulers and training services give every node of a job the same
// id, beside the ones that JobID treats by itself.
var jobVariables = [...]struct{ name, scope string }{
	{"PET_RDZV_ID", "torchrun"},        // torchrun reads every option from PET_*; the Kubeflow trainer sets them
	{"TRAINING_JOB_NAME", "sagemaker"}, // Amazon SageMaker
	{"AZUREML_RUN_ID", "azureml"},      // Azure Machine Learning
	{"CLOUD_ML_JOB_ID", "vertex"},      // Google Vertex AI
	{"PBS_JOBID", "pbs"},               // PBS, OpenPBS, Torque
	{"LSB_JOBID", "lsf"},               // IBM Spectrum LSF
	{"FLUX_JOB_ID", "flux"},            // Flux
}

// JobID finds the id that all nodes of a job share, "" when there is none: what was configured, torchrun's rendezvous id
// (in the arguments or, for a program started below torchrun, in the environment), Slurm's job with its restart count, or
// what another training service sets. Ids of different origin never meet: each is prefixed with it.
func JobID(argv []string, env func(string) string, configured string) string {
	if configured != "" {
		return configured
	}
	// "none" is torchrun's default: every job without an id would share it.
	if v := launcherOption(argv, "rdzv-id"); v != "" && v != "none" {
		return "torchrun:" + v
	}
	if v := env("TORCHELASTIC_RUN_ID"); v != "" && v != "none" {
		return "torchrun:" + v
	}
	if v := env("SLURM_JOB_ID"); v != "" {
		restarts := env("SLURM_RESTART_COUNT")
		if restarts == "" {
			restarts = "0" // unset before the first requeue
		}
		return "slurm:" + v + "." + restarts
	}
	for _, jv := range jobVariables {
		if v := env(jv.name); v != "" && v != "none" {
			return jv.scope + ":" + v
		}
	}
	return ""
}

// emitRoot says whether this node exports training.run: without a shared job id always, with one on node 0 only, and nil when
// the node's number is not known (the node that sees RANK 0 does it then).
func emitRoot(jobID string, argv []string, env func(string) string) *bool {
	yes := true
	if jobID == "" {
		return &yes
	}
	candidates := []string{launcherOption(argv, "node-rank")}
	for _, name := range []string{"GROUP_RANK", "NODE_RANK", "PET_NODE_RANK", "SLURM_NODEID"} {
		candidates = append(candidates, env(name))
	}
	for _, c := range candidates {
		if n, err := strconv.Atoi(c); err == nil {
			yes = n == 0
			return &yes
		}
	}
	return nil
}

// launcherOption is the value of an option of the launcher in a command's arguments, written with dashes or underscores,
// joined by "=" or not. Arguments from the training script on are the script's own and are not looked at.
func launcherOption(argv []string, name string) string {
	for i, arg := range argv {
		if isScript(arg) {
			return ""
		}
		option, ok := strings.CutPrefix(arg, "--")
		if !ok {
			continue
		}
		option, value, joined := strings.Cut(option, "=")
		if strings.ReplaceAll(option, "_", "-") != name {
			continue
		}
		if joined {
			return value
		}
		if i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

// isScript reports whether an argument is the training script, as opposed to a launcher that is itself a Python file.
func isScript(arg string) bool {
	switch path.Base(arg) {
	case "run.py", "launch.py", "torchrun.py":
		return false
	}
	return strings.HasSuffix(arg, ".py")
}
