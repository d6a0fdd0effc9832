package otelio

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// newResource describes the job, not ptlaunch: the SDK's process detectors would tell of the agent. What
// OTEL_RESOURCE_ATTRIBUTES says wins over what is found, and OTEL_SERVICE_NAME over both.
func newResource(ctx context.Context, cfg *Config, set settings) (*resource.Resource, error) {
	run := &cfg.Run
	attrs := map[string]attribute.KeyValue{}
	put := func(key, value string) {
		if value != "" {
			attrs[key] = attribute.String(key, validText(value))
		}
	}
	put("service.name", run.Name)
	put("service.instance.id", instanceID(run.ID))
	put("host.name", run.Host)
	put("host.id", readLine("/etc/machine-id"))
	put("os.type", "linux")
	put("container.id", containerID(cfg.Procfs))
	put("ptlaunch.run.id", run.ID)
	put("ptlaunch.version", run.Version)
	put("pytorch.job.id", run.Trace.JobID)
	kubernetes(cfg, put)
	if len(run.Command) > 0 {
		args := make([]string, len(run.Command))
		for i, a := range run.Command {
			args[i] = validText(a)
		}
		attrs["process.command_args"] = attribute.StringSlice("process.command_args", args)
	}
	for _, kv := range set.resource {
		put(kv.key, kv.value)
	}
	put("service.name", set.service)
	if _, ok := attrs["service.name"]; !ok {
		put("service.name", "unknown_service")
	}
	list := make([]attribute.KeyValue, 0, len(attrs))
	for _, kv := range attrs {
		list = append(list, kv)
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(list...), resource.WithSchemaURL(semconv.SchemaURL))
	if res == nil {
		return nil, fmt.Errorf("describe the run: %v", err)
	}
	return res, nil // an error beside a resource tells of schema URLs that differ; ours is right
}

// instanceID writes a run id of 32 hex digits as a UUID, which is what the conventions ask of an instance's id.
func instanceID(run string) string {
	if len(run) != 32 {
		return run
	}
	return run[:8] + "-" + run[8:12] + "-" + run[12:16] + "-" + run[16:20] + "-" + run[20:]
}

// kubernetes tells the pod from the variables that the downward API is commonly given, the service account's folder and
// the cgroup path.
func kubernetes(cfg *Config, put func(key, value string)) {
	get := func(names ...string) string {
		for _, n := range names {
			if v := cfg.Run.Env[n]; v != "" {
				return v
			}
			if cfg.Lookup != nil {
				if v, ok := cfg.Lookup(n); ok && v != "" {
					return v
				}
			}
		}
		return ""
	}
	cgroups := readFile(filepath.Join(cfg.Procfs, "self/cgroup")) + readFile(filepath.Join(cfg.Procfs, "self/mountinfo"))
	uid := get("K8S_POD_UID", "POD_UID")
	if m := podUID.FindStringSubmatch(cgroups); uid == "" && m != nil {
		uid = strings.ReplaceAll(m[1], "_", "-")
	}
	inCluster := get("KUBERNETES_SERVICE_HOST") != "" || uid != ""
	pod, namespace := get("K8S_POD_NAME", "POD_NAME"), get("K8S_NAMESPACE_NAME", "K8S_POD_NAMESPACE", "K8S_NAMESPACE", "POD_NAMESPACE")
	if inCluster && pod == "" {
		pod = get("HOSTNAME") // Kubernetes names a pod's host after the pod, unless told otherwise
	}
	if inCluster && namespace == "" {
		namespace = readLine("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	}
	// Others use these names as well, Jenkins for one: without a pod they say nothing of Kubernetes.
	inPod := func(name string) string {
		if inCluster || pod != "" {
			return name
		}
		return ""
	}
	put("k8s.pod.uid", uid)
	put("k8s.pod.name", pod)
	put("k8s.namespace.name", namespace)
	put("k8s.node.name", get("K8S_NODE_NAME", inPod("NODE_NAME")))
	put("k8s.container.name", get("K8S_CONTAINER_NAME", inPod("CONTAINER_NAME")))
	put("k8s.job.name", get("K8S_JOB_NAME", inPod("JOB_NAME")))
	put("k8s.cluster.name", get("K8S_CLUSTER_NAME"))
}

// podUID finds a pod in a cgroup path: kubepods/burstable/pod<uid>, or kubepods-burstable-pod<uid with _>.slice.
var podUID = regexp.MustCompile(`kubepods[^\s]*?pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})`)

// containerID finds the id of the container that ptlaunch runs in, "" outside of one.
func containerID(procfs string) string {
	if id := parseContainerID(readFile(filepath.Join(procfs, "self/cgroup"))); id != "" {
		return id
	}
	// With a private cgroup namespace the path is "/": the mounts of /etc/hostname and the like still name it.
	return parseContainerIDMounts(readFile(filepath.Join(procfs, "self/mountinfo")))
}

var (
	containerInCgroup = regexp.MustCompile(`(?m)^\d+:[^:]*:.*[/:-]([0-9a-f]{64})(?:\.scope)?(?:/.*)?$`)
	containerInMounts = regexp.MustCompile(`(?:/containers/|/overlay-containers/|/sandboxes/|/pods/[^ ]*/)([0-9a-f]{64})/`)
)

// parseContainerID reads /proc/self/cgroup.
func parseContainerID(cgroup string) string {
	if m := containerInCgroup.FindStringSubmatch(cgroup); m != nil {
		return m[1]
	}
	return ""
}

// parseContainerIDMounts reads /proc/self/mountinfo. Only mounts onto a container's own files count: a host shows the
// mounts of all its containers.
func parseContainerIDMounts(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] != "/etc/hostname" && f[4] != "/etc/hosts" && f[4] != "/etc/resolv.conf" {
			continue
		}
		if m := containerInMounts.FindStringSubmatch(f[3]); m != nil {
			return m[1]
		}
	}
	return ""
}

// readFile returns a small file, "" when it cannot be read: what it would tell is optional.
func readFile(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

func readLine(name string) string {
	line, _, _ := strings.Cut(readFile(name), "\n")
	return strings.TrimSpace(line)
}
