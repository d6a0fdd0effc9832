package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
)

// Options say what to examine.
type Options struct {
	Procfs, Sysfs string
	// PID is a process of the job, 0 to examine what a job of this user would look like.
	PID int32
	// GPUs is the driver's library.
	GPUs nvml.Driver
	// Env looks up a variable; os.Getenv.
	Env func(string) string
	// Patience is how long the GPU driver and statfs may take; 10 s when 0.
	Patience time.Duration
}

// Examine looks at every source once. It returns when all have answered or their deadline has passed; the context ends the
// waiting early.
func Examine(ctx context.Context, o Options) Report {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	e := &exam{Options: o, ctx: ctx, uid: os.Geteuid(), dir: filepath.Join(o.Procfs, "self")}
	if o.PID != 0 {
		e.dir = filepath.Join(o.Procfs, strconv.Itoa(int(o.PID)))
	}
	e.caps = capabilities(o.Procfs)
	r := Report{Kernel: release(o.Procfs), UID: e.uid, PID: o.PID, Container: e.container()}
	e.kernel = r.Kernel
	for _, check := range []func() Source{
		e.processes, e.io, e.files, e.environ, e.syscalls, e.waiting, e.storageDelay, e.exits,
		e.devices, e.mounts, e.shm, e.watches, e.pressure, e.cgroup, e.cgroupPressure, e.gpus, e.otlp,
	} {
		r.Sources = append(r.Sources, check())
	}
	return r
}

// exam is what the checks share.
type exam struct {
	Options
	ctx    context.Context // an exam is one call of Examine
	uid    int
	dir    string // /proc/PID
	kernel string
	caps   uint64
}

// Numbers of capabilities, from linux/capability.h.
const (
	capDACReadSearch = 2
	capSysPtrace     = 19
)

func (e *exam) has(capability int) bool { return e.caps>>capability&1 == 1 }

// capabilities are the effective ones of this process, 0 when they cannot be told.
func capabilities(procfs string) uint64 {
	b, err := kernfile.Read(filepath.Join(procfs, "self/status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// release is the kernel's release.
func release(procfs string) string {
	b, err := kernfile.Read(filepath.Join(procfs, "sys/kernel/osrelease"))
	if err == nil {
		return strings.TrimSpace(string(b))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// atLeast compares the kernel's release. A release that cannot be read counts as old.
func (e *exam) atLeast(major, minor int) bool {
	a, rest, _ := strings.Cut(e.kernel, ".")
	b := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	x, err := strconv.Atoi(a)
	if err != nil || len(b) == 0 {
		return false
	}
	y, err := strconv.Atoi(b[0])
	return err == nil && (x > major || x == major && y >= minor)
}

// container guesses what kind of container this is, "" for none that is known.
func (e *exam) container() string {
	switch {
	case e.Env("KUBERNETES_SERVICE_HOST") != "":
		return "a Kubernetes pod"
	case e.Env("container") != "":
		return "a container (" + e.Env("container") + ")"
	}
	// The container's first process sees the engine's mark at its root.
	for file, name := range map[string]string{"1/root/.dockerenv": "a Docker container", "1/root/run/.containerenv": "a Podman container"} {
		if _, err := os.Stat(filepath.Join(e.Procfs, file)); err == nil {
			return name
		}
	}
	return ""
}

// capabilityFix names what gives a process capabilities, in each of the places where it would be written.
func capabilityFix(names ...string) string {
	var docker, quoted []string
	for _, n := range names {
		docker = append(docker, "--cap-add "+n)
		quoted = append(quoted, `"`+n+`"`)
	}
	return "docker run " + strings.Join(docker, " ") + "; Kubernetes: securityContext: {capabilities: {add: [" + strings.Join(quoted, ", ") + "]}}; elsewhere: run ptlaunch as root"
}

// text reads a small file; "" when it cannot be read.
func text(path string) string {
	b, err := kernfile.Read(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
