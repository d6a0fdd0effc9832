//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ptlaunch/ptlaunch/test/otlpread"
)

// TestOneTraceOverNodes: two nodes, each a network namespace of its own, train together through torchrun's rendezvous. They share
// nothing but the rendezvous id, and make one trace with one root. A second attempt under Slurm's restart count is another one.
func TestOneTraceOverNodes(t *testing.T) {
	nodes := makeNodes(t, 2)
	first := trainOn(t, nodes, "exp-1")
	checkOneTrace(t, first)

	second := trainOn(t, nodes, "exp-2")
	checkOneTrace(t, second)
	if first[0].traceID(t) == second[0].traceID(t) {
		t.Error("another rendezvous id continues the first one's trace")
	}
}

func checkOneTrace(t *testing.T, runs []launched) {
	t.Helper()
	var roots []otlpread.Span
	for i, run := range runs {
		if got, want := run.traceID(t), runs[0].traceID(t); got != want {
			t.Errorf("node %d is in trace %s, node 0 in %s", i, got, want)
		}
		for _, s := range run.named("training.run") {
			if s.Final() {
				roots = append(roots, s)
			}
		}
	}
	if len(roots) != 1 {
		t.Fatalf("%d nodes exported a final training.run, want one", len(roots))
	}
	for i, run := range runs {
		ranks := 0
		for _, s := range run.spans {
			switch {
			case s.Name == "training.node" && s.ParentID != roots[0].SpanID:
				t.Errorf("node %d: training.node is below %q, the root is %s", i, s.ParentID, roots[0].SpanID)
			case s.Name == "training.rank" && s.Final():
				ranks++
			}
		}
		if ranks != 1 {
			t.Errorf("node %d has %d ranks, want 1", i, ranks)
		}
	}
}

// trainOn runs one rank per node and returns the runs, node 0 first.
func trainOn(t *testing.T, nodes []string, rendezvous string) []launched {
	t.Helper()
	runs := make([]launched, len(nodes))
	outs := make([]string, len(nodes))
	errs := make([]error, len(nodes))
	texts := make([][]byte, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		outs[i] = t.TempDir()
		args := []string{"netns", "exec", node, ptlaunch, "--out", outs[i], "--"}
		args = append(args, ddp(t, "--nnodes", fmt.Sprint(len(nodes)), "--node_rank", fmt.Sprint(i), "--nproc_per_node", "1",
			"--rdzv_id", rendezvous, "--rdzv_backend", "static", "--rdzv_endpoint", nodeAddress(0)+":29400",
			"--master_addr", nodeAddress(0), "--master_port", "29400")...)
		cmd := exec.Command("ip", args...)
		cmd.Dir = outs[i]
		cmd.Env = append(os.Environ(), "GLOO_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=1")
		wg.Go(func() { texts[i], errs[i] = cmd.CombinedOutput() })
	}
	wg.Wait()
	for i := range nodes {
		if errs[i] != nil {
			t.Fatalf("node %d: %v\n%s", i, errs[i], tail(string(texts[i]), 3000))
		}
		runs[i] = readRun(t, filepath.Join(outs[i], "latest"), string(texts[i]))
	}
	return runs
}

func nodeAddress(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// makeNodes makes network namespaces that see each other over a bridge, and nothing else.
func makeNodes(t *testing.T, n int) []string {
	t.Helper()
	const prefix = "ptl-e2e"
	bridge := prefix + "-br"
	remove := func() {
		for i := range n {
			exec.Command("ip", "netns", "del", fmt.Sprintf("%s-%d", prefix, i)).Run()
		}
		exec.Command("ip", "netns", "del", bridge).Run()
	}
	remove() // what a killed test left
	t.Cleanup(remove)
	// The bridge lives in a namespace of its own: this machine's network is left alone.
	ip(t, "netns add "+bridge)
	ip(t, "-n "+bridge+" link add br0 type bridge")
	ip(t, "-n "+bridge+" link set br0 up")
	var nodes []string
	for i := range n {
		node := fmt.Sprintf("%s-%d", prefix, i)
		ip(t, "netns add "+node)
		ip(t, fmt.Sprintf("-n %s link add eth0 type veth peer name port%d netns %s", node, i, bridge))
		ip(t, fmt.Sprintf("-n %s link set port%d master br0 up", bridge, i))
		ip(t, fmt.Sprintf("-n %s addr add %s/24 dev eth0", node, nodeAddress(i)))
		ip(t, "-n "+node+" link set eth0 up")
		ip(t, "-n "+node+" link set lo up")
		nodes = append(nodes, node)
	}
	return nodes
}

func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}
