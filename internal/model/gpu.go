package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// GPUUser is what is known of a rank that may use GPUs.
type GPUUser struct {
	ID        snapshot.ProcID
	NVidia    []int32 // minor numbers of the /dev/nvidiaN that it holds open; nil when that could not be seen
	LocalRank int     // None when not known
	// Visible is CUDA_VISIBLE_DEVICES, nil when it is not set or not known; Order is CUDA_DEVICE_ORDER.
	Visible *string
	Order   string
}

// GPUUse is which GPUs a rank uses and how that was decided.
type GPUUse struct {
	ID         snapshot.ProcID
	UUIDs      []string // empty: not known, or none
	How        string   // for a person: "holds /dev/nvidia3 open"
	Confidence Confidence
}

// NewGPUUser takes the facts from a process.
func NewGPUUser(info *snapshot.ProcInfo, localRank int) GPUUser {
	u := GPUUser{ID: info.ID, NVidia: info.NVidia, LocalRank: localRank, Order: info.Env["CUDA_DEVICE_ORDER"]}
	if v, ok := info.Env["CUDA_VISIBLE_DEVICES"]; ok {
		u.Visible = &v
	}
	return u
}

// gpuUse assigns the frame's GPUs to its ranks.
func gpuUse(f *Frame) []GPUUse {
	if len(f.Raw.GPUs) == 0 {
		return nil
	}
	var users []GPUUser
	for i := range f.Procs {
		if p := &f.Procs[i]; p.Role == RoleRank && p.Info != nil {
			users = append(users, NewGPUUser(p.Info, p.LocalRank))
		}
	}
	return AssignGPUs(f.Raw.GPUs, users)
}

// AssignGPUs says for each user which of the GPUs it uses. The driver's own list of processes is not asked: in a container
// it gives pids of the host, or of somebody else (NVIDIA/nvidia-docker#1483).
//
// An open device node is proof, but a process that initialised CUDA may hold the nodes of all GPUs that it may use; then
// CUDA_VISIBLE_DEVICES and the local rank decide, as the training script's torch.cuda.set_device(local_rank) does.
func AssignGPUs(gpus []snapshot.GPU, users []GPUUser) []GPUUse {
	out := make([]GPUUse, 0, len(users))
	for _, u := range users {
		use := assign(gpus, u)
		use.ID = u.ID
		out = append(out, use)
	}
	return out
}

func assign(gpus []snapshot.GPU, u GPUUser) GPUUse {
	if len(gpus) == 0 {
		return GPUUse{How: "no GPU is seen", Confidence: ConfidenceLow}
	}
	visible, set := visibleGPUs(gpus, u)
	if set && len(visible) == 0 {
		return GPUUse{How: "CUDA_VISIBLE_DEVICES names no GPU", Confidence: ConfidenceHigh}
	}
	held := heldGPUs(gpus, u.NVidia)
	switch {
	case set && len(visible) == 1 && (len(held) == 0 || holds(held, visible[0])):
		return use(ConfidenceHigh, "CUDA_VISIBLE_DEVICES="+*u.Visible, visible[0])
	case len(held) == 1 && !split(gpus, held[0]):
		return use(ConfidenceHigh, fmt.Sprintf("holds /dev/nvidia%d open", held[0].Minor), held[0])
	case len(visible) == 1 && len(held) == 0 && u.NVidia != nil:
		return GPUUse{How: "holds no GPU open", Confidence: ConfidenceMedium}
	case u.LocalRank >= 0 && u.LocalRank < len(visible):
		return byLocalRank(gpus, u, visible, held, set)
	case len(held) > 1:
		return use(ConfidenceLow, fmt.Sprintf("holds %d GPUs open", len(held)), held...)
	}
	return GPUUse{How: "neither an open device nor a local rank tells", Confidence: ConfidenceLow}
}

func byLocalRank(gpus []snapshot.GPU, u GPUUser, visible, held []snapshot.GPU, set bool) GPUUse {
	g := visible[u.LocalRank]
	if len(held) > 0 && !holds(held, g) {
		return GPUUse{How: fmt.Sprintf("LOCAL_RANK %d points to GPU %d, which is not among those it holds open", u.LocalRank, g.Index), Confidence: ConfidenceLow}
	}
	how := fmt.Sprintf("LOCAL_RANK %d of %d GPUs", u.LocalRank, len(visible))
	if set {
		how = fmt.Sprintf("LOCAL_RANK %d of CUDA_VISIBLE_DEVICES=%s", u.LocalRank, *u.Visible)
	}
	confidence := ConfidenceMedium
	if mixed(gpus) && u.Order != "PCI_BUS_ID" {
		// CUDA puts the fastest first by default, NVML goes by bus id: with unlike cards the numbers differ.
		confidence = ConfidenceLow
		how += ", in an order that CUDA may number otherwise"
	}
	return use(confidence, how, g)
}

func use(c Confidence, how string, gpus ...snapshot.GPU) GPUUse {
	out := GPUUse{How: how, Confidence: c}
	for _, g := range gpus {
		out.UUIDs = append(out.UUIDs, g.UUID)
	}
	return out
}

// visibleGPUs are the GPUs that CUDA shows to a process, in its order. set says that CUDA_VISIBLE_DEVICES narrows them.
func visibleGPUs(gpus []snapshot.GPU, u GPUUser) (visible []snapshot.GPU, set bool) {
	if u.Visible == nil {
		for _, g := range gpus {
			if !g.MIG {
				visible = append(visible, g)
			}
		}
		return visible, false
	}
	for entry := range strings.SplitSeq(*u.Visible, ",") {
		g, ok := named(gpus, strings.TrimSpace(entry))
		if !ok {
			break // CUDA ignores what follows an entry that it does not know
		}
		visible = append(visible, g)
	}
	return visible, true
}

// named finds the GPU of one entry of CUDA_VISIBLE_DEVICES: a number, "GPU-…" or "MIG-…" with a UUID that may be cut short
// as long as it is unique, or the older "MIG-GPU-UUID/1/0".
func named(gpus []snapshot.GPU, entry string) (snapshot.GPU, bool) {
	if n, err := strconv.Atoi(entry); err == nil {
		for _, g := range gpus {
			if !g.MIG && g.Index == int32(n) {
				return g, true
			}
		}
		return snapshot.GPU{}, false
	}
	if !strings.HasPrefix(entry, "GPU-") && !strings.HasPrefix(entry, "MIG-") {
		return snapshot.GPU{}, false
	}
	var found []snapshot.GPU
	for _, g := range gpus {
		if g.UUID == entry {
			return g, true
		}
		if strings.HasPrefix(g.UUID, entry) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		return snapshot.GPU{}, false
	}
	return found[0], true
}

// heldGPUs are the GPUs whose device nodes are open.
func heldGPUs(gpus []snapshot.GPU, minors []int32) []snapshot.GPU {
	var held []snapshot.GPU
	for _, g := range gpus {
		if !g.MIG && g.Minor >= 0 && slices.Contains(minors, g.Minor) {
			held = append(held, g)
		}
	}
	return held
}

// holds reports whether a GPU, or the one that a MIG instance is part of, is among those held.
func holds(held []snapshot.GPU, g snapshot.GPU) bool {
	return slices.ContainsFunc(held, func(h snapshot.GPU) bool { return h.UUID == g.UUID || g.MIG && h.UUID == g.Parent })
}

// split reports whether a GPU is divided into MIG instances: an open node does not tell which.
func split(gpus []snapshot.GPU, of snapshot.GPU) bool {
	return slices.ContainsFunc(gpus, func(g snapshot.GPU) bool { return g.MIG && g.Parent == of.UUID })
}

// mixed reports whether there are GPUs of several kinds.
func mixed(gpus []snapshot.GPU) bool {
	name := ""
	for _, g := range gpus {
		if g.MIG {
			continue
		}
		if name != "" && g.Name != name {
			return true
		}
		name = g.Name
	}
	return false
}
