package identity

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	spanID      = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + spanID + "-00"
)

func mustNew(t *testing.T, argv, environ []string, jobID string) Identity {
	t.Helper()
	id, err := New(argv, environ, jobID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestJobID: first that applies, each by its own origin, and nothing that only looks like one.
func TestJobID(t *testing.T) {
	tests := []struct {
		name       string
		argv, env  []string
		configured string
		want       string
	}{
		{name: "nothing", argv: []string{"python", "train.py"}},
		{name: "configured wins", argv: []string{"torchrun", "--rdzv-id", "a", "t.py"}, configured: "mine", want: "mine"},
		{name: "rdzv-id", argv: []string{"torchrun", "--nnodes", "2", "--rdzv-id", "a", "t.py"}, want: "torchrun:a"},
		{name: "rdzv_id joined", argv: []string{"torchrun", "--rdzv_id=a", "t.py"}, want: "torchrun:a"},
		{name: "module form", argv: []string{"python", "-m", "torch.distributed.run", "--rdzv-id=a", "t.py"}, want: "torchrun:a"},
		{name: "launcher that is a file", argv: []string{"python", "/x/torchrun.py", "--rdzv-id=a", "t.py"}, want: "torchrun:a"},
		{name: "default none", argv: []string{"torchrun", "--rdzv-id", "none", "t.py"}},
		{name: "the script's own argument", argv: []string{"python", "t.py", "--rdzv-id", "a"}},
		{name: "value missing", argv: []string{"torchrun", "--rdzv-id"}},
		{name: "elastic run id", env: []string{"TORCHELASTIC_RUN_ID=r"}, want: "torchrun:r"},
		{name: "elastic default", env: []string{"TORCHELASTIC_RUN_ID=none"}},
		{name: "slurm", env: []string{"SLURM_JOB_ID=77"}, want: "slurm:77.0"},
		{name: "slurm requeued", env: []string{"SLURM_JOB_ID=77", "SLURM_RESTART_COUNT=2"}, want: "slurm:77.2"},
		{name: "rendezvous before slurm", argv: []string{"torchrun", "--rdzv-id", "a", "t.py"}, env: []string{"SLURM_JOB_ID=77"}, want: "torchrun:a"},
		{name: "kubeflow", env: []string{"PET_RDZV_ID=job-1"}, want: "torchrun:job-1"},
		{name: "sagemaker", env: []string{"TRAINING_JOB_NAME=j"}, want: "sagemaker:j"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := JobID(tt.argv, lookup(tt.env), tt.configured); got != tt.want {
				t.Errorf("JobID = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNodesAgree: nodes that share nothing but the job id get one trace, one run and one root span, and a node span each.
func TestNodesAgree(t *testing.T) {
	argv := []string{"torchrun", "--rdzv-id", "exp-7", "train.py"}
	a, b := mustNew(t, argv, nil, ""), mustNew(t, argv, []string{"HOME=/elsewhere"}, "")
	if a.Trace.TraceID != b.Trace.TraceID || a.Trace.RootSpan != b.Trace.RootSpan || a.RunID != b.RunID {
		t.Errorf("nodes differ:\n%s", cmp.Diff(a.Trace, b.Trace))
	}
	if a.Trace.NodeSpan == b.Trace.NodeSpan {
		t.Errorf("both nodes have the node span %s", a.Trace.NodeSpan)
	}
	if c := mustNew(t, []string{"torchrun", "--rdzv-id", "exp-8", "train.py"}, nil, ""); c.Trace.TraceID == a.Trace.TraceID {
		t.Error("another job has the same trace")
	}
	if d, e := mustNew(t, nil, nil, ""), mustNew(t, nil, nil, ""); d.Trace.TraceID == e.Trace.TraceID || d.RunID == e.RunID {
		t.Error("two runs without a job id share an id")
	}
}

func TestNewRequeue(t *testing.T) {
	first := mustNew(t, nil, []string{"SLURM_JOB_ID=5"}, "")
	second := mustNew(t, nil, []string{"SLURM_JOB_ID=5", "SLURM_RESTART_COUNT=1"}, "")
	if first.Trace.TraceID == second.Trace.TraceID {
		t.Error("a requeued Slurm job continues the trace of its first attempt")
	}
}

func TestIncomingContext(t *testing.T) {
	id := mustNew(t, nil, []string{"TRACEPARENT=" + traceparent, "TRACESTATE=a=b"}, "job")
	if id.Trace.TraceID != traceID || id.Trace.Parent != spanID || id.Trace.State != "a=b" {
		t.Errorf("trace is %+v, want the incoming one", id.Trace)
	}
	other := mustNew(t, nil, []string{"TRACEPARENT=" + traceparent}, "job")
	if id.Trace.RootSpan != other.Trace.RootSpan {
		t.Error("nodes under one incoming context and one job id have different root spans")
	}
}

func TestEmitRoot(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name      string
		argv, env []string
		jobID     string
		want      *bool
	}{
		{name: "no job id", want: &yes},
		{name: "unknown node", jobID: "j"},
		{name: "node 0 by argument", jobID: "j", argv: []string{"torchrun", "--node-rank=0", "t.py"}, want: &yes},
		{name: "argument beats environment", jobID: "j", argv: []string{"torchrun", "--node_rank", "1", "t.py"}, env: []string{"NODE_RANK=0"}, want: &no},
		{name: "group rank", jobID: "j", env: []string{"GROUP_RANK=3"}, want: &no},
		{name: "slurm node", jobID: "j", env: []string{"SLURM_NODEID=0"}, want: &yes},
		{name: "not a number", jobID: "j", env: []string{"NODE_RANK=first"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustNew(t, tt.argv, tt.env, tt.jobID).Trace.EmitRoot); diff != "" {
				t.Errorf("EmitRoot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobEnv(t *testing.T) {
	environ := []string{"A=1", "DUP=x", "DUP=y", "NOEQ", "=odd", "B=\xff"}
	id := mustNew(t, nil, environ, "")
	want := append(slices.Clone(environ), "TRACEPARENT=00-"+id.Trace.TraceID+"-"+id.Trace.NodeSpan+"-01")
	if diff := cmp.Diff(want, id.JobEnv(environ)); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}

	environ = []string{"A=1", "TRACEPARENT=" + traceparent, "BAGGAGE=k=v", "TRACEPARENT=again"}
	id = mustNew(t, nil, environ, "")
	// The flag stays "not sampled": the job's own spans are the caller's decision.
	want = []string{"A=1", "TRACEPARENT=00-" + traceID + "-" + id.Trace.NodeSpan + "-00", "BAGGAGE=k=v"}
	if diff := cmp.Diff(want, id.JobEnv(environ)); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}

	environ = []string{"OTEL_SDK_DISABLED=True", "A=1"}
	if diff := cmp.Diff(environ, mustNew(t, nil, environ, "").JobEnv(environ)); diff != "" {
		t.Errorf("disabled (-want +got):\n%s", diff)
	}
}

func TestParseTraceparent(t *testing.T) {
	valid := map[string]string{
		"version 00":    traceparent,
		"later version": "01-" + traceID + "-" + spanID + "-01-what-comes-next",
	}
	for name, s := range valid {
		if tp, ok := ParseTraceparent(s); !ok || tp.TraceID != traceID || tp.SpanID != spanID {
			t.Errorf("%s: ParseTraceparent(%q) = %+v, %v", name, s, tp, ok)
		}
	}
	invalid := map[string]string{
		"empty":         "",
		"short":         traceparent[:54],
		"longer in 00":  traceparent + "-x",
		"version ff":    "ff" + traceparent[2:],
		"upper case":    strings.ToUpper(traceparent),
		"zero trace":    "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01",
		"zero span":     "00-" + traceID + "-" + strings.Repeat("0", 16) + "-01",
		"not hex":       "00-" + strings.Repeat("g", 32) + "-" + spanID + "-01",
		"wrong dashes":  strings.ReplaceAll(traceparent, "-", "_"),
		"later, no sep": "01-" + traceID + "-" + spanID + "-01x",
	}
	for name, s := range invalid {
		if tp, ok := ParseTraceparent(s); ok {
			t.Errorf("%s: ParseTraceparent(%q) = %+v, want it refused", name, s, tp)
		}
	}
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add(traceparent)
	f.Add("01-" + traceID + "-" + spanID + "-01-x")
	f.Fuzz(func(t *testing.T, s string) {
		tp, ok := ParseTraceparent(s)
		if ok && (len(tp.TraceID) != 32 || len(tp.SpanID) != 16 || len(tp.Flags) != 2) {
			t.Errorf("ParseTraceparent(%q) = %+v", s, tp)
		}
	})
}
