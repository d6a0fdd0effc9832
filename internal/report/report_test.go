package report

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name. On a mismatch it leaves a .got file beside it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		_ = os.WriteFile(path+".got", []byte(got), 0o666)
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

const (
	startMono = 1000 * time.Second
	second    = time.Second
)

var startWall = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// story is a run to be told: frames and findings made by hand.
type story struct {
	ranks, workers int
	length         time.Duration
	cpus           float64 // quota
	launcher       bool
	budget         map[detect.Phase]float64 // shares, of every rank
	stalls         []detect.Stall
	saves          []detect.Checkpoint
	ended          []model.Ended
	outcome        model.Outcome
	last           func(*model.Frame)
	noFrames       bool
	untold         bool // nobody says how it ended
	gaps           []snapshot.Gap
}

func rankID(n int) snapshot.ProcID { return snapshot.ProcID{PID: int32(100 + n), StartTicks: 5} }

var rootID = snapshot.ProcID{PID: 99, StartTicks: 4}

// recorder feeds the story to a Recorder.
func (s story) recorder() *Recorder {
	r := NewRecorder(Options{Run: model.Run{
		ID: strings.Repeat("ab", 16), Name: "train.py", Command: []string{"python", "train.py"}, Version: "v0", Host: "node1",
		Root: rootID, Start: startWall, StartMono: startMono, Trace: model.Trace{TraceID: strings.Repeat("cd", 16)},
	}})
	if s.noFrames {
		return r
	}
	const steps = 20
	for i := range steps + 1 {
		part := s.length * time.Duration(i) / steps
		f := s.frame(i, part)
		found := &detect.Findings{Budgets: s.budgets(part)}
		if i == steps {
			f.Ended = s.ended
			for i := range s.stalls {
				found.Events = append(found.Events, detect.Event{Kind: detect.Closed, At: f.Mono, Stall: &s.stalls[i]})
			}
			for i := range s.saves {
				found.Events = append(found.Events, detect.Event{Kind: detect.Closed, At: f.Mono, Checkpoint: &s.saves[i]})
			}
			if s.last != nil {
				s.last(f)
			}
		}
		r.Consume(f, found)
	}
	return r
}

func (s story) frame(i int, at time.Duration) *model.Frame {
	host := &snapshot.Host{CPUs: 64, MemTotal: 256 << 30}
	raw := &snapshot.Snapshot{
		Seq: uint64(i + 1), Mono: startMono + at, Interval: snapshot.Milliseconds(s.length / 20 / time.Millisecond), Host: host, Gaps: s.gaps,
		Self: &snapshot.Self{CPU: at / 250, RSS: 23e6},
	}
	if s.cpus > 0 {
		raw.Cgroup = &snapshot.Cgroup{CPU: &snapshot.CgroupCPU{Limit: &s.cpus}}
	}
	f := &model.Frame{Seq: raw.Seq, Wall: startWall.Add(at), Mono: raw.Mono, Raw: raw}
	if i > 0 {
		f.Elapsed = s.length / 20
	}
	if s.launcher {
		f.Totals = append(f.Totals, model.Total{Series: model.Series{Role: model.RoleLauncher}, Procs: 1})
	}
	for n := range s.ranks {
		f.Ranks = append(f.Ranks, model.Rank{ID: rankID(n), Rank: n, Start: startMono, Workers: s.workers})
		f.Totals = append(f.Totals, model.Total{
			Series: model.Series{Role: model.RoleRank, Rank: n}, Procs: 1, User: at / 2, RChar: 6e6, WChar: 5.4e9, HasIO: true,
		})
		for w := range s.workers {
			f.Totals = append(f.Totals, model.Total{
				Series: model.Series{Role: model.RoleWorker, Rank: n, Slot: w}, Procs: 1, User: at / 3, RChar: 12e9, ReadBytes: 3e8,
				HasIO: true, WorkerStarts: 1,
			})
		}
	}
	return f
}

func (s story) budgets(part time.Duration) []detect.Budget {
	var out []detect.Budget
	for n := range s.ranks {
		b := detect.Budget{Rank: n, OfRank: rankID(n), Time: map[detect.Phase]time.Duration{}}
		rest := part
		for _, p := range detect.Phases {
			d := time.Duration(float64(part) * s.budget[p])
			b.Time[p] = d
			rest -= d
		}
		b.Time[detect.PhaseCompute] += rest
		out = append(out, b)
	}
	return out
}

// tell ends the story and returns its document.
func (s story) tell(t *testing.T) *Document {
	t.Helper()
	r := s.recorder()
	o := s.outcome
	if o.EndMono == 0 {
		o.EndMono = startMono + s.length
	}
	o.End = startWall.Add(o.EndMono - startMono)
	if o.Status == nil && o.StartError == "" && !o.Detached && !s.untold {
		o.Status = &snapshot.ExitStatus{}
	}
	line := r.Conclude(o)
	d := r.Document()
	if line != d.Verdict.Line || line == "" {
		t.Errorf("Conclude = %q, want the verdict's line %q", line, d.Verdict.Line)
	}
	return d
}

func text(d *Document) string {
	return Text(d, TextOptions{Path: "ptlaunch-runs/20261130T120000Z-train.py/report.json"})
}

var stallID uint64

func stall(rank int, phase detect.Phase, cause detect.Cause, lost time.Duration, culprit string, evidence ...string) detect.Stall {
	stallID++
	return detect.Stall{
		Interval: detect.Interval{ID: stallID, Rank: rank, OfRank: rankID(rank), Start: startMono + 60*second, End: startMono + 700*second, Evidence: evidence},
		Phase:    phase, Cause: cause, Lost: lost, Culprit: culprit, Confidence: model.ConfidenceHigh,
	}
}

func write(n uint64, at time.Duration) detect.Checkpoint {
	return detect.Checkpoint{
		Interval: detect.Interval{ID: 1000 + n, Rank: 0, OfRank: rankID(0), Start: startMono + at, End: startMono + at + 9600*time.Millisecond},
		Save:     n, Writer: rankID(0), WriterRole: model.RoleRank, Path: "/mnt/nfs/ck.pt", Files: 1, Size: 1.8e9,
		Blocked: 9600 * time.Millisecond, FSType: "nfs4", Mountpoint: "/mnt/nfs",
	}
}

func heldBack() story {
	s := story{
		ranks: 2, workers: 4, length: 724 * second, cpus: 4, launcher: true,
		budget: map[detect.Phase]float64{detect.PhaseDataWait: 0.27, detect.PhaseCheckpoint: 0.08, detect.PhasePeerWait: 0.03, detect.PhaseOtherWait: 0.01},
		gaps:   []snapshot.Gap{{Source: "nvml", Reason: snapshot.GapUnsupported, Detail: "no library"}},
	}
	for rank := range 2 {
		s.stalls = append(s.stalls,
			stall(rank, detect.PhaseDataWait, detect.CauseCPULimit, 195*second, "", "workers waited for a CPU 45% of the time", "storage is idle"),
			stall(rank, detect.PhaseCheckpoint, detect.CauseCheckpoint, 58*second, ""))
	}
	for n := range 6 {
		s.saves = append(s.saves, write(uint64(n+1), time.Duration(100*(n+1))*second))
	}
	return s
}

// TestText holds the words on the terminal for runs that end in different ways.
func TestText(t *testing.T) {
	failed := func(code, sig int32) model.Outcome {
		return model.Outcome{Status: &snapshot.ExitStatus{Code: code, Signal: sig}}
	}
	died := func(role model.Role, rank, slot int, sig, code int32, at time.Duration) model.Ended {
		id := rankID(rank)
		if role == model.RoleWorker {
			id.PID += 500 + int32(slot)
		}
		return model.Ended{
			ID: id, Identity: model.Identity{Role: role, Rank: rank, Slot: slot}, At: startMono + at,
			Status: &snapshot.ExitStatus{Signal: sig, Code: code},
		}
	}
	tests := map[string]func() story{
		"held_back": heldBack,
		"healthy": func() story {
			return story{ranks: 1, workers: 4, length: 300 * second, budget: map[detect.Phase]float64{detect.PhaseDataWait: 0.01}}
		},
		"crowded": func() story {
			return story{ranks: 2, workers: 4, length: 300 * second, cpus: 1.5, last: func(f *model.Frame) {
				for i := range f.Totals {
					f.Totals[i].HasSched, f.Totals[i].RunQueue = true, 90*second
				}
				cpu := f.Raw.Cgroup.CPU
				cpu.Periods, cpu.Throttled, cpu.File = 3000, 2400, "/sys/fs/cgroup/cpu.stat"
			}}
		},
		"short":     func() story { return story{ranks: 1, length: 200 * time.Millisecond} },
		"no_frames": func() story { return story{length: 50 * time.Millisecond, noFrames: true} },
		"no_python": func() story {
			return story{length: 30 * second, last: func(f *model.Frame) {
				f.Totals = []model.Total{{Series: model.Series{Role: model.RoleOther}, Procs: 1, User: second, RChar: 4096, HasIO: true}}
			}}
		},
		"not_started": func() story {
			return story{noFrames: true, outcome: model.Outcome{StartError: "command not found", Status: &snapshot.ExitStatus{Code: 127}}}
		},
		"rank_killed_hidden": func() story {
			return story{ranks: 4, workers: 2, length: 721 * second, launcher: true, outcome: failed(0, 0),
				ended: []model.Ended{died(model.RoleRank, 3, 0, 9, 0, 720*second)}}
		},
		"rank_oom": func() story {
			return story{ranks: 2, workers: 2, length: 721 * second, launcher: true, outcome: failed(1, 0),
				ended: []model.Ended{died(model.RoleRank, 1, 0, 9, 0, 700*second), died(model.RoleRank, 0, 0, 15, 0, 701*second)},
				last: func(f *model.Frame) {
					limit := uint64(16e9)
					f.Raw.Cgroup = &snapshot.Cgroup{Memory: &snapshot.CgroupMemory{Limit: &limit, Events: map[string]uint64{"oom_kill": 1}}}
					f.Cgroup = &model.CgroupRate{Cgroup: f.Raw.Cgroup, NewEvents: map[string]uint64{"oom_kill": 1}}
				}}
		},
		"impatient_launcher": func() story {
			s := story{ranks: 2, length: 300 * second, launcher: true, outcome: failed(1, 0),
				ended: []model.Ended{died(model.RoleRank, 0, 0, 9, 0, 300*second)}}
			s.outcome.Signals = []model.SignalSeen{{Signal: 15, At: startMono + 270*second}}
			cut := write(1, 295*second)
			cut.End, cut.CutShort = startMono+300*second, "its writer was killed"
			s.saves = []detect.Checkpoint{cut}
			return s
		},
		"worker_bus_error": func() story {
			return story{ranks: 1, workers: 2, length: 40 * second, outcome: failed(1, 0),
				ended: []model.Ended{died(model.RoleWorker, 0, 1, 7, 0, 39*second)}}
		},
		"survivors": func() story {
			return story{ranks: 1, length: 60 * second, outcome: failed(0, 15), last: func(f *model.Frame) {
				f.Procs = []model.Proc{{ID: rankID(0), Identity: model.Identity{Role: model.RoleRank}, Start: startMono, Raw: &snapshot.Proc{State: 'R'}}}
			}}
		},
		"end_unknown": func() story { return story{ranks: 1, length: 60 * second, untold: true} },
		"detached": func() story {
			return story{ranks: 1, length: 60 * second, outcome: model.Outcome{Detached: true}}
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			s := make()
			got := text(s.tell(t))
			if n := strings.Count(got, "\n"); n > maxLines {
				t.Errorf("%d lines, at most %d wanted", n, maxLines)
			}
			golden(t, name+".txt", got)
		})
	}
}

// TestCauses: every cause has its words and, unknown apart, its advice.
func TestCauses(t *testing.T) {
	var all strings.Builder
	for _, cause := range causes {
		for _, culprit := range []string{"", "/mnt/data (nfs4)"} {
			s := story{ranks: 2, workers: 4, length: 724 * second, cpus: 16}
			s.stalls = []detect.Stall{stall(0, detect.PhaseDataWait, cause, 200*second, culprit), stall(1, detect.PhaseDataWait, cause, 190*second, culprit)}
			d := s.tell(t)
			if len(d.Findings) != 1 || d.Verdict.Kind != KindHeldBack {
				t.Fatalf("%s: findings %+v, verdict %+v", cause, d.Findings, d.Verdict)
			}
			f := d.Findings[0]
			if (f.Advice == "") != (cause == detect.CauseUnknown) {
				t.Errorf("%s: advice %q", cause, f.Advice)
			}
			fmt.Fprintf(&all, "%s\n  %s\n  %s\n", cause, f.Summary, f.Advice)
		}
	}
	golden(t, "causes.txt", all.String())
}

// TestAdviceFollowsFromTheCause: a remedy that the cause rules out is never recommended, however the run looks.
func TestAdviceFollowsFromTheCause(t *testing.T) {
	banned := map[detect.Cause]string{
		detect.CauseCPULimit:          `(?i)more workers|num_workers=|faster (disk|volume|storage)|local copy`,
		detect.CauseWorkerCPU:         `(?i)more workers|num_workers=|faster (disk|volume|storage)|local copy|copy of the data`,
		detect.CauseStorageThroughput: `(?i)more workers|num_workers=|more CPUs`,
		detect.CauseTooFewWorkers:     `(?i)faster (disk|volume|storage)|more CPUs|fewer`,
		detect.CauseMainThread:        `(?i)more workers|num_workers=|faster (disk|volume|storage)`,
		detect.CauseSlowWorker:        `(?i)more workers|num_workers=|faster (disk|volume|storage)`,
		detect.CauseMemory:            `(?i)more workers|num_workers=|faster (disk|volume|storage)`,
		detect.CausePeer:              `(?i)worker|disk|storage`,
		detect.CauseCheckpoint:        `(?i)worker`,
	}
	for cause, pattern := range banned {
		for workers := range 9 {
			s := story{ranks: 1 + workers%3, workers: workers, length: 724 * second, cpus: float64(workers)}
			s.stalls = []detect.Stall{stall(0, detect.PhaseDataWait, cause, 400*second, "")}
			f := s.tell(t).Findings[0]
			if m := regexp.MustCompile(pattern).FindString(f.Advice); m != "" {
				t.Errorf("%s with %d workers recommends %q: %s", cause, workers, m, f.Advice)
			}
		}
	}
}

// TestColdFirstEpoch: the verdict rests on the steady part, and the cold start is said apart.
func TestColdFirstEpoch(t *testing.T) {
	s := story{ranks: 1, workers: 2, length: 600 * second}
	r := s.recorder()
	// The same run told again by hand, its waits in the first 100 s only.
	r = NewRecorder(r.opts)
	for i := range 61 {
		at := time.Duration(i) * 10 * second
		f := s.frame(i, at)
		wait := min(at, 100*second) * 8 / 10
		pool := model.Pool{OfRank: rankID(0), Generation: 0, End: 0}
		if at > 100*second {
			pool.End = startMono + 100*second
			f.Pools = append(f.Pools, model.Pool{OfRank: rankID(0), Generation: 1})
		}
		f.Pools = append(f.Pools, pool)
		r.Consume(f, &detect.Findings{Budgets: []detect.Budget{{OfRank: rankID(0), Time: map[detect.Phase]time.Duration{
			detect.PhaseDataWait: wait, detect.PhaseCompute: at - wait,
		}}}})
	}
	r.Conclude(model.Outcome{EndMono: startMono + 600*second, Status: &snapshot.ExitStatus{}})
	d := r.Document()
	if d.Verdict.Kind != KindHealthy {
		t.Errorf("verdict %+v, want healthy: only the first epoch waited", d.Verdict)
	}
	if d.Time.FirstEpoch == nil || d.Time.FirstEpoch.ToSeconds != 100 {
		t.Fatalf("first epoch %+v, want its end at 100 s", d.Time.FirstEpoch)
	}
	golden(t, "cold.txt", text(d))
}

// TestBounded: a long run leaves a bounded document, with exact totals.
func TestBounded(t *testing.T) {
	const n = 5000
	s := story{ranks: 1, length: 724 * second}
	r := s.recorder()
	for i := range n {
		st := stall(0, detect.PhaseDataWait, detect.CauseNoWorkers, second, "")
		ck := write(uint64(i+1), time.Duration(i)*second)
		r.Consume(s.frame(30, 700*second), &detect.Findings{Events: []detect.Event{
			{Kind: detect.Opened, Stall: &st}, {Kind: detect.Closed, Stall: &st}, {Kind: detect.Closed, Checkpoint: &ck},
		}})
	}
	r.Conclude(model.Outcome{EndMono: startMono + s.length, Status: &snapshot.ExitStatus{}})
	d := r.Document()
	if len(d.Stalls.List) > maxStalls || len(d.Stalls.List)+d.Stalls.Omitted != n || d.Stalls.Count != n || d.Stalls.LostSeconds != n {
		t.Errorf("stalls: %d listed, %d omitted, %d counted, %v s", len(d.Stalls.List), d.Stalls.Omitted, d.Stalls.Count, d.Stalls.LostSeconds)
	}
	c := d.Checkpoints
	if len(c.List) > maxSaves || len(c.List)+c.Omitted != n || c.Saves != n || c.Bytes != n*1.8e9 || c.BlockedSeconds != n*9.6 {
		t.Errorf("saves: %d listed, %d omitted, %d counted, %d B, %v s", len(c.List), c.Omitted, c.Saves, c.Bytes, c.BlockedSeconds)
	}
}

// TestDocumentRoundTrip: what report.json holds renders the same text.
func TestDocumentRoundTrip(t *testing.T) {
	d := heldBack().tell(t)
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(d), text(back)); diff != "" {
		t.Errorf("the text after a round trip (-before +after):\n%s", diff)
	}
	if _, err := Decode([]byte(strings.Replace(string(data), Schema, "ptlaunch.report/9", 1))); err == nil {
		t.Error("a report of an unknown schema was accepted")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range keys {
		if !strings.Contains(string(manual), "`"+key+"`") {
			t.Errorf("docs/report.md does not describe %q", key)
		}
	}
}

// TestSaveFails: a report that cannot be written is an error of Close, not of the verdict.
func TestSaveFails(t *testing.T) {
	r := NewRecorder(Options{Save: func([]byte) error { return errors.New("disk full") }})
	if line := r.Conclude(model.Outcome{}); line == "" {
		t.Error("no verdict")
	}
	if err := r.Close(context.Background(), model.Outcome{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Close = %v, want the reason", err)
	}
}

func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"999 B": Bytes(999), "1.0 kB": Bytes(1000), "1.0 MB": Bytes(999_999), "48 GB": Bytes(48.2e9), "1.8 GB": Bytes(1.8e9),
		"0.2s": Duration(200 * time.Millisecond), "9.6s": Duration(9600 * time.Millisecond), "12m04s": Duration(724 * second),
		"1m00s": Duration(59900 * time.Millisecond), "3h05m": Duration(185 * time.Minute), "2d04h": Duration(52 * time.Hour),
		"0%": Percent(0), "<0.1%": Percent(0.0001), "0.4%": Percent(0.004), "27%": Percent(0.27), "188 MB/s": Rate(188e6),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCSV: a row per step and role that did something, rates over the step, unknown left empty.
func TestCSV(t *testing.T) {
	var out strings.Builder
	c := NewCSV(&out, startWall, startMono)
	step := func(at time.Duration, elapsed time.Duration, rank, worker uint64) {
		f := &model.Frame{Mono: startMono + at, Elapsed: elapsed, Totals: []model.Total{
			{Series: model.Series{Role: model.RoleRank}, Procs: 1, User: at, RSS: 1 << 20},
			{Series: model.Series{Role: model.RoleWorker}, Procs: 2, RChar: worker, ReadBytes: worker / 2, HasIO: true},
		}}
		if err := c.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	step(0, 0, 0, 0)
	step(2*second, 2*second, 0, 4000)
	step(3*second, second, 0, 4000)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	golden(t, "rows.csv", out.String())
}

// TestWorkerDeath: who killed a worker is said as far as it is known, and /dev/shm with its size.
func TestWorkerDeath(t *testing.T) {
	none, one := uint64(0), uint64(1)
	code := func(n int32) *int32 { return &n }
	worker := Exit{Role: "dataloader_worker", Rank: new(0), Worker: new(2), Known: true, AtSeconds: 70}
	for _, tc := range []struct {
		name   string
		signal int32
		kills  *uint64
		shm    *Shm
		want   string
	}{
		{"killed by hand", sigKILL, &none, nil, "not by the kernel for lack of memory"},
		{"killed by the kernel", sigKILL, &one, nil, "most likely by the kernel for lack of memory"},
		{"nobody counts", sigKILL, nil, nil, "could not be counted"},
		{"bus error", sigBUS, &none, &Shm{SizeBytes: 24e6, MostUsed: 23e6}, "/dev/shm was full (23 MB of 24 MB used at most when looked at)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worker
			w.Signal, w.Code = tc.signal, code(128+tc.signal)
			d := &Document{Exits: []Exit{w}, OOMKills: tc.kills, Machine: Machine{Shm: tc.shm}}
			if got := workerDeath(d); !strings.Contains(got, tc.want) {
				t.Errorf("said %q, want %q in it", got, tc.want)
			}
		})
	}
}
