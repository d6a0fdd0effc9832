package otelio

import (
	"strings"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func TestResource(t *testing.T) {
	get := func(change func(*Config)) map[string]string {
		cfg := Config{Run: testRun(), Procfs: t.TempDir()}
		change(&cfg)
		res, err := newResource(t.Context(), &cfg, readSettings(cfg.Lookup, ""))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, kv := range res.Attributes() {
			out[string(kv.Key)] = kv.Value.String()
		}
		return out
	}
	plain := get(func(c *Config) { c.Lookup = env() })
	for key, want := range map[string]string{
		"service.name": "train.py", "service.instance.id": "01234567-89ab-cdef-0123-456789abcdef", "host.name": "node1", "os.type": "linux",
		"process.command_args": `["python","train.py"]`, "ptlaunch.run.id": testRun().ID, "ptlaunch.version": "0.1.0",
	} {
		if plain[key] != want {
			t.Errorf("%s is %q, want %q", key, plain[key], want)
		}
	}
	if _, ok := plain["pytorch.job.id"]; ok {
		t.Error("a job id although there is none")
	}
	for _, name := range []string{"", "p"} { // NODE_NAME and JOB_NAME are Jenkins's, too
		got := get(func(c *Config) {
			c.Lookup = env("POD_NAME", name, "NODE_NAME", "n", "JOB_NAME", "j", "K8S_NAMESPACE", "ns")
		})
		if inPod := name != ""; (got["k8s.node.name"] == "n") != inPod || (got["k8s.job.name"] == "j") != inPod || got["k8s.namespace.name"] != "ns" {
			t.Errorf("pod %q: %v", name, got)
		}
	}
	told := get(func(c *Config) {
		c.Lookup = env("OTEL_SERVICE_NAME", "mine", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,host.name=h%20x,team=vision", "K8S_POD_NAME", "pod-1")
		c.Run.Env = map[string]string{"K8S_NODE_NAME": "n1"}
	})
	for key, want := range map[string]string{"service.name": "mine", "host.name": "h x", "team": "vision", "k8s.pod.name": "pod-1", "k8s.node.name": "n1"} {
		if told[key] != want {
			t.Errorf("%s is %q, want %q", key, told[key], want)
		}
	}
}

func TestContainerID(t *testing.T) {
	id := strings.Repeat("0123abcd", 8)
	for name, c := range map[string]struct{ cgroup, mounts, want string }{
		"host":          {"0::/user.slice/user-0.slice/session-1.scope\n", "", ""},
		"docker v1":     {"12:cpu,cpuacct:/docker/" + id + "\n", "", id},
		"systemd scope": {"0::/system.slice/docker-" + id + ".scope\n", "", id},
		"containerd":    {"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n", "", id},
		"nested":        {"0::/docker/" + id + "/init\n", "", id},
		"v2 private":    {"0::/\n", "620 613 254:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/vda1 rw\n", id},
		"podman":        {"0::/\n", "620 613 0:1 /containers/storage/overlay-containers/" + id + "/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw\n", id},
		"host's mounts": {"0::/\n", "620 613 0:1 / /var/lib/docker/containers/" + id + "/mounts/shm rw - tmpfs shm rw\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseContainerID(c.cgroup)
			if got == "" {
				got = parseContainerIDMounts(c.mounts)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestLogEvents(t *testing.T) {
	dir := runOf(t, nil, func(s *Sink) {
		s.Consume(fullFrame(3), fullFindings(detect.Opened))
		f := fullFrame(4)
		dead := snapshot.ExitStatus{Signal: 7}
		stopped := snapshot.ExitStatus{Signal: 15}
		worker := model.Identity{Role: model.RoleWorker, Rank: 0, LocalRank: 0, Slot: 1, OfRank: rank0}
		f.Ended = []model.Ended{
			{ID: worker0, Identity: worker, Status: &dead},
			{ID: worker0, Identity: worker, Status: &stopped},
			{ID: worker0, Identity: worker},
			{ID: rank0, Identity: model.Identity{Role: model.RoleRank}, Status: &snapshot.ExitStatus{Code: 1}},
			{ID: rank0, Identity: model.Identity{Role: model.RoleHelper}, Status: &snapshot.ExitStatus{Code: 1}},
		}
		s.Consume(f, fullFindings(detect.Closed))
	}, outcome(5, snapshot.ExitStatus{}))
	stall := finals(t, dir)[spanStall]
	var got []string
	for _, m := range readRequests(t, dir, logs) {
		for _, r := range m.(*collogs.ExportLogsServiceRequest).ResourceLogs[0].ScopeLogs[0].LogRecords {
			got = append(got, r.EventName+": "+r.Body.GetStringValue())
			if r.EventName == eventStallClosed && string(r.SpanId) != string(stall.SpanId) {
				t.Error("the stall's event is not in its span")
			}
		}
	}
	want := []string{
		"ptlaunch.run.started: train.py started",
		"pytorch.stall.opened: rank 0 began to lose time: checkpoint",
		"ptlaunch.source.lost: nvml cannot be read (unsupported)",
		"pytorch.checkpoint.written: checkpoint of 1073741824 bytes written in 2.0 s",
		"pytorch.stall.closed: rank 0 lost 1.0 s: checkpoint",
		"pytorch.dataloader.worker.died: worker 1 of rank 0 died: killed by signal 7",
		"pytorch.rank.died: rank 0 died: exit code 1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
