package model

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

func fourGPUs(names ...string) []snapshot.GPU {
	var gpus []snapshot.GPU
	for i := range int32(4) {
		g := snapshot.GPU{UUID: fmt.Sprintf("GPU-%d%d%d%d-aaaa", i, i, i, i), Index: i, Minor: i, Name: "H100"}
		if len(names) > 0 {
			g.Name = names[i]
		}
		gpus = append(gpus, g)
	}
	return gpus
}

func TestAssignGPUs(t *testing.T) {
	str := func(s string) *string { return &s }
	uuid := func(n ...int) []string {
		var out []string
		for _, i := range n {
			out = append(out, fourGPUs()[i].UUID)
		}
		return out
	}
	// In a container that was given one of the host's four: index 0, but still /dev/nvidia3.
	contained := []snapshot.GPU{{UUID: "GPU-3333-aaaa", Index: 0, Minor: 3, Name: "H100"}}
	mig := []snapshot.GPU{
		{UUID: "GPU-0", Index: 0, Minor: 0, Name: "A100"}, {UUID: "MIG-a", MIG: true, Parent: "GPU-0"}, {UUID: "MIG-b", MIG: true, Parent: "GPU-0"},
	}
	for _, c := range []struct {
		name       string
		gpus       []snapshot.GPU
		user       GPUUser
		want       []string
		confidence Confidence
	}{
		{"one node open", fourGPUs(), GPUUser{NVidia: []int32{2}, LocalRank: 0}, uuid(2), ConfidenceHigh},
		{"one node open, in a container", contained, GPUUser{NVidia: []int32{3}, LocalRank: None}, uuid(3), ConfidenceHigh},
		{"all nodes open, local rank", fourGPUs(), GPUUser{NVidia: []int32{0, 1, 2, 3}, LocalRank: 1}, uuid(1), ConfidenceMedium},
		{"all nodes open, no local rank", fourGPUs(), GPUUser{NVidia: []int32{0, 3}, LocalRank: None}, uuid(0, 3), ConfidenceLow},
		{"descriptors hidden, local rank", fourGPUs(), GPUUser{LocalRank: 3}, uuid(3), ConfidenceMedium},
		{"one visible by number", fourGPUs(), GPUUser{Visible: str("2"), LocalRank: 0}, uuid(2), ConfidenceHigh},
		{"one visible by a short UUID", fourGPUs(), GPUUser{Visible: str("GPU-1111"), LocalRank: 0}, uuid(1), ConfidenceHigh},
		{"a UUID that fits all", fourGPUs(), GPUUser{Visible: str("GPU-"), LocalRank: 0}, nil, ConfidenceHigh},
		{"two visible, local rank", fourGPUs(), GPUUser{Visible: str("3, 1"), LocalRank: 1, NVidia: []int32{1, 3}}, uuid(1), ConfidenceMedium},
		{"what follows an unknown entry is ignored", fourGPUs(), GPUUser{Visible: str("3,9,1"), LocalRank: 0}, uuid(3), ConfidenceHigh},
		{"none visible", fourGPUs(), GPUUser{Visible: str(""), LocalRank: 0}, nil, ConfidenceHigh},
		{"none visible, the other way", fourGPUs(), GPUUser{Visible: str("-1"), LocalRank: 0, NVidia: []int32{0}}, nil, ConfidenceHigh},
		{"the local rank's GPU is not held", fourGPUs(), GPUUser{NVidia: []int32{2, 3}, LocalRank: 0}, nil, ConfidenceLow},
		{"unlike cards", fourGPUs("H100", "H100", "T4", "T4"), GPUUser{LocalRank: 2}, uuid(2), ConfidenceLow},
		{"unlike cards in bus order", fourGPUs("H100", "H100", "T4", "T4"), GPUUser{LocalRank: 2, Order: "PCI_BUS_ID"}, uuid(2), ConfidenceMedium},
		{"a local rank beyond the GPUs", fourGPUs(), GPUUser{LocalRank: 4}, nil, ConfidenceLow},
		{"nothing known", fourGPUs(), GPUUser{LocalRank: None}, nil, ConfidenceLow},
		{"no GPU", nil, GPUUser{LocalRank: 0}, nil, ConfidenceLow},
		{"one GPU, none open: a rank on the CPU", contained, GPUUser{NVidia: []int32{}, LocalRank: 0}, nil, ConfidenceMedium},
		{"a MIG instance", mig, GPUUser{Visible: str("MIG-b"), NVidia: []int32{0}, LocalRank: 0}, []string{"MIG-b"}, ConfidenceHigh},
		{"a split GPU open does not tell the instance", mig, GPUUser{NVidia: []int32{0}, LocalRank: None}, nil, ConfidenceLow},
	} {
		c.user.ID = snapshot.ProcID{PID: 5, StartTicks: 6}
		got := AssignGPUs(c.gpus, []GPUUser{c.user})
		if len(got) != 1 || got[0].ID != c.user.ID || got[0].How == "" {
			t.Fatalf("%s: %+v", c.name, got)
		}
		if diff := cmp.Diff(c.want, got[0].UUIDs); diff != "" || got[0].Confidence != c.confidence {
			t.Errorf("%s: %s (%s) %s", c.name, got[0].How, got[0].Confidence, diff)
		}
	}
}

func TestNewGPUUser(t *testing.T) {
	info := &snapshot.ProcInfo{ID: snapshot.ProcID{PID: 1}, NVidia: []int32{4}, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}}
	u := NewGPUUser(info, 2)
	if u.Visible == nil || *u.Visible != "" || u.Order != "PCI_BUS_ID" || u.LocalRank != 2 {
		t.Errorf("%+v", u)
	}
	delete(info.Env, "CUDA_VISIBLE_DEVICES")
	if u := NewGPUUser(info, 2); u.Visible != nil {
		t.Errorf("unset became %q", *u.Visible)
	}
}

func FuzzVisibleGPUs(f *testing.F) {
	f.Add("0,1", 0)
	f.Add("GPU-1,MIG-", 3)
	f.Fuzz(func(t *testing.T, visible string, local int) {
		got := AssignGPUs(fourGPUs(), []GPUUser{{Visible: &visible, LocalRank: local}})
		if len(got) != 1 || len(got[0].UUIDs) > 1 {
			t.Fatalf("%+v", got)
		}
	})
}
