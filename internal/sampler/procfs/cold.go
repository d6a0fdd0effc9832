package procfs

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what is kept of a command line: python -c and long file lists may hold megabytes.
const (
	maxArgs    = 256
	maxArgLen  = 2048
	maxCmdline = 64 << 10
)

// Cmdline reads a process's command line, redacted. It is empty for a kernel thread and for a zombie.
//
// Reading it takes the target's mmap lock, which a process that is stuck in the kernel may hold for ever: call it where
// waiting does no harm. So do Environ and PollTarget.
func (fs *FS) Cmdline(pid int32) ([]string, error) {
	b, err := fs.read(fs.PIDPath(pid, "cmdline"), maxCmdline)
	if err != nil {
		return nil, err
	}
	return ParseCmdline(b), nil
}

// ParseCmdline splits and redacts a command line. A process that wrote a title over it (setproctitle) leaves padding behind,
// which is dropped.
func ParseCmdline(b []byte) []string {
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(b, []byte{0}) {
		if len(args) == maxArgs {
			args = append(args, "…")
			break
		}
		// Redacted before it is cut: a cut secret does not look like one any more.
		args = append(args, string(arg))
	}
	args = RedactArgs(args)
	for i, a := range args {
		if len(a) > maxArgLen {
			args[i] = strings.ToValidUTF8(a[:maxArgLen], "") + "…"
		}
	}
	return args
}

// envNames and envPrefixes are the variables that say what a process is. Everything else in an environment is none of our
// business.
var envNames = []string{
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME",
	"ROLE_WORLD_SIZE", "NODE_RANK", "CROSS_RANK", "CROSS_SIZE", "NNODES", "MASTER_ADDR", "MASTER_PORT",
	"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
	"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_STEP_ID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
	"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
	"SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
	"POD_NAME", "POD_NAMESPACE", "POD_UID", "NODE_NAME", "JOB_COMPLETION_INDEX", "JOB_NAME", "HOSTNAME",
	"K8S_POD_NAME", "K8S_NAMESPACE_NAME", "K8S_POD_UID", "K8S_NODE_NAME", "K8S_CONTAINER_NAME", "K8S_JOB_NAME",
	"PTLAUNCH_JOB_ID",
}

var envPrefixes = []string{"TORCHELASTIC_", "ACCELERATE_"}

// maxEnviron bounds what is read of an environment. The kernel shows the initial one only, at most some hundred KB.
const maxEnviron = 256 << 10

// Environ reads the allow-listed part of a process's initial environment, redacted. See Cmdline about waiting.
func (fs *FS) Environ(pid int32) (map[string]string, error) {
	b, err := fs.read(fs.PIDPath(pid, "environ"), maxEnviron)
	if err != nil {
		return nil, err
	}
	return ParseEnviron(b), nil
}

// ParseEnviron picks the allow-listed variables; nil when there is none.
func ParseEnviron(b []byte) map[string]string {
	var env map[string]string
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		name, value, ok := bytes.Cut(entry, []byte{'='})
		if !ok || !AllowedEnv(string(name)) {
			continue
		}
		if env == nil {
			env = map[string]string{}
		}
		if len(value) > maxArgLen {
			value = value[:maxArgLen]
		}
		env[string(name)] = RedactText(string(value))
	}
	return env
}

// AllowedEnv reports whether a variable is on the allow-list and its name does not speak of a secret.
func AllowedEnv(name string) bool {
	if slices.Contains(envNames, name) {
		return true
	}
	for _, p := range envPrefixes {
		if strings.HasPrefix(name, p) {
			return secretName(name) == notSecret
		}
	}
	return false
}

// Exe is the path of the program that a process runs.
func (fs *FS) Exe(pid int32) (string, error) { return fs.readlink(fs.PIDPath(pid, "exe")) }

// NetNS is the link text of a process's network namespace, "net:[4026531840]".
func (fs *FS) NetNS(pid int32) (string, error) { return fs.readlink(fs.PIDPath(pid, "ns/net")) }

// Cgroup is the path of a process's control group. See ParseCgroup.
func (fs *FS) Cgroup(pid int32) (string, error) {
	b, err := fs.read(fs.PIDPath(pid, "cgroup"), maxFile)
	if err != nil {
		return "", err
	}
	return ParseCgroup(b), nil
}

// ParseCgroup picks the path that tells most: of cgroup v2 when the process is anywhere but in its root, else of the v1
// memory or cpu hierarchy, else of v2.
func ParseCgroup(b []byte) string {
	var v1, v2 string
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		parts := strings.SplitN(string(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		case slices.Contains(controllers, "memory"), v1 == "" && slices.Contains(controllers, "cpu"):
			v1 = parts[2]
		}
	}
	if v2 == "" || v2 == "/" && v1 != "" {
		return v1
	}
	return v2
}

// parseList counts the CPUs of a list like "0-3,8,10-11". Malformed parts count nothing.
func parseList(s string) int32 {
	n := int32(0)
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.ParseInt(first, 10, 20)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.ParseInt(last, 10, 20); err != nil {
				continue
			}
		}
		if b >= a && a >= 0 {
			n += int32(b - a + 1)
		}
	}
	return n
}
