package model

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// treeProc is a line of testdata/trees.jsonl: see testdata/README.md.
type treeProc struct {
	Job     string            `json:"job"`
	PID     int32             `json:"pid"`
	PPID    int32             `json:"ppid"`
	Start   uint64            `json:"start"`
	First   float64           `json:"first"`
	End     float64           `json:"end"`
	SID     int32             `json:"sid"`
	Comms   [][2]any          `json:"comms"`
	Cmd     []string          `json:"cmd"`
	Exe     string            `json:"exe"`
	Env     map[string]string `json:"env"`
	Threads []string          `json:"threads"`
	SigCgt  uint64            `json:"sigcgt"`
	Pipes   []string          `json:"pipes"`

	Role   Role `json:"role"`
	Rank   *int `json:"rank"`
	Loader *int `json:"loader"`
	Slot   *int `json:"slot"`
	Gen    *int `json:"gen"`
}

func (p *treeProc) id() snapshot.ProcID { return snapshot.ProcID{PID: p.PID, StartTicks: p.Start} }

func (p *treeProc) commAt(t float64) string {
	comm := p.Comms[0][1].(string)
	for _, c := range p.Comms {
		if c[0].(float64) <= t {
			comm = c[1].(string)
		}
	}
	return comm
}

// settled is when the process's own code runs: before that its facts are those of what it was forked from, or of an
// interpreter that still imports.
func (p *treeProc) settled() float64 {
	t := p.First + 0.5
	if strings.Contains(strings.Join(p.Cmd, " "), "multiprocessing.") {
		t = p.First + 0.6*(p.End-p.First)
	}
	return max(t, p.Comms[len(p.Comms)-1][0].(float64))
}

func loadTrees(t testing.TB) map[string][]*treeProc {
	f, err := os.Open("testdata/trees.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs := map[string][]*treeProc{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := new(treeProc)
		if err := json.Unmarshal(sc.Bytes(), p); err != nil {
			t.Fatal(err)
		}
		jobs[p.Job] = append(jobs[p.Job], p)
	}
	return jobs
}

// play makes the snapshots of a job, step seconds apart, the first at phase.
func play(procs []*treeProc, step, phase float64) []*snapshot.Snapshot {
	last := 0.0
	base := procs[0].Start
	for _, p := range procs {
		last = max(last, p.End)
		base = min(base, p.Start)
	}
	offset := float64(base)/100 - procs[0].First
	known := map[snapshot.ProcID]string{}
	var out []*snapshot.Snapshot
	for t := phase; t <= last+2*step; t += step {
		mono := time.Duration((t + offset) * float64(time.Second))
		s := &snapshot.Snapshot{Seq: uint64(len(out)), Wall: time.Unix(1e9, 0).Add(mono), Mono: mono}
		for _, p := range procs {
			if p.First > t || p.End <= t {
				if p.End <= t && p.End > t-step && known[p.id()] != "" {
					s.Exits = append(s.Exits, snapshot.Exit{ID: p.id(), At: mono})
				}
				continue
			}
			in := snapshot.ProcInfo{
				ID: p.id(), PPID: p.PPID, SID: p.SID, Comm: p.commAt(t), Cmdline: p.Cmd, Exe: p.Exe, Env: p.Env, Pipes: p.Pipes,
			}
			var st *snapshot.Status
			if t >= p.settled() {
				in.Threads = p.Threads
				st = &snapshot.Status{SigCgt: p.SigCgt}
			}
			if key := in.Comm + strings.Join(in.Threads, ","); known[p.id()] != key+"." {
				known[p.id()] = key + "."
				s.Infos = append(s.Infos, in)
			}
			s.Procs = append(s.Procs, snapshot.Proc{ID: p.id(), At: mono, PPID: p.PPID, State: 'S', Status: st})
		}
		slices.SortFunc(s.Procs, func(x, y snapshot.Proc) int { return int(x.ID.PID - y.ID.PID) })
		out = append(out, s)
	}
	return out
}

func TestRecordedTrees(t *testing.T) {
	for job, procs := range loadTrees(t) {
		t.Run(job, func(t *testing.T) {
			for _, phase := range []float64{0.1, 0.35, 0.6, 0.85} {
				if t.Failed() {
					return
				}
				checkTree(t, procs, play(procs, 1, phase))
			}
		})
	}
}

func checkTree(t *testing.T, procs []*treeProc, snaps []*snapshot.Snapshot) {
	t.Helper()
	last := map[snapshot.ProcID]Identity{}
	b := NewBuilder(BuilderConfig{})
	for _, s := range snaps {
		f := b.Add(s)
		for _, p := range f.Procs {
			last[p.ID] = p.Identity
		}
		for _, e := range f.Ended {
			last[e.ID] = e.Identity
		}
	}
	for _, p := range procs {
		got, ok := last[p.id()]
		if !ok {
			continue // lived between two snapshots
		}
		want := Identity{Role: p.Role, Rank: None, Loader: None, Slot: None, Generation: None}
		for _, x := range []struct {
			from *int
			to   *int
		}{{p.Rank, &want.Rank}, {p.Loader, &want.Loader}, {p.Slot, &want.Slot}, {p.Gen, &want.Generation}} {
			if x.from != nil {
				*x.to = *x.from
			}
		}
		if got.Role != want.Role || got.Rank != want.Rank || got.Loader != want.Loader || got.Slot != want.Slot || got.Generation != want.Generation {
			t.Errorf("%d %.60q:\n got %+v\nwant %+v", p.PID, p.Cmd, got, want)
		}
	}
}
