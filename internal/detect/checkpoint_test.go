package detect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// trainer is one rank with two workers that are ahead, and a save from tick 100 for some ticks.
func trainer(during act, ticks int) *job {
	j := newJob(1, 2)
	j.workers(always(forIndex))
	j.rank(0).play = func(i int) act {
		if i >= 100 && i < 100+ticks {
			return during
		}
		return computing
	}
	return j
}

// tickTime is when a tick of the script begins.
func tickTime(tick int) time.Duration {
	return 100*time.Second + time.Duration(tick)*100*time.Millisecond
}

// events shows file events to the job when their time has come.
func events(all ...snapshot.FileEvent) func(from, to time.Duration) ([]snapshot.OpenFile, []snapshot.FileEvent) {
	return func(from, to time.Duration) (_ []snapshot.OpenFile, out []snapshot.FileEvent) {
		for _, e := range all {
			if e.At > from && e.At <= to {
				out = append(out, e)
			}
		}
		return nil, out
	}
}

// sights shows a file open for writing once, at a tick.
func sights(tick int, f snapshot.OpenFile) func(from, to time.Duration) ([]snapshot.OpenFile, []snapshot.FileEvent) {
	return func(from, to time.Duration) ([]snapshot.OpenFile, []snapshot.FileEvent) {
		if at := tickTime(tick); at > from && at <= to {
			f.At = at
			return []snapshot.OpenFile{f}, nil
		}
		return nil, nil
	}
}

func play(j *job, seconds int) verdict {
	j.warmUp()
	j.run(seconds)
	return j.finish()
}

func one(t *testing.T, v verdict) *detect.Checkpoint {
	t.Helper()
	if len(v.checkpoints) != 1 {
		t.Fatalf("%d checkpoints, want 1: %+v", len(v.checkpoints), v.checkpoints)
	}
	return v.checkpoints[0]
}

func near(t *testing.T, what string, got, want, tolerance time.Duration) {
	t.Helper()
	if d := got - want; d < -tolerance || d > tolerance {
		t.Errorf("%s is %v, want %v within %v", what, got, want, tolerance)
	}
}

func TestBlockingSaveByCountersAlone(t *testing.T) {
	c := one(t, play(trainer(saving, 30), 20))
	near(t, "start", c.Start, tickTime(100), 100*time.Millisecond)
	near(t, "end", c.End, tickTime(130), 100*time.Millisecond)
	if c.Background || c.Size != 600e6 || c.Path != "" || c.Blocked != c.End-c.Start {
		t.Errorf("%+v", c)
	}
	if len(c.Caveats) == 0 {
		t.Error("no caveat says that no file was seen")
	}
}

func TestBlockingSaveStallsItsRank(t *testing.T) {
	j := trainer(saving, 30)
	v := play(j, 20)
	c, s := one(t, v), v.stall(0, detect.PhaseCheckpoint)
	if s == nil {
		t.Fatal("no stall")
	}
	if s.Cause != detect.CauseCheckpoint || s.Checkpoint != c.ID {
		t.Errorf("stall %+v of checkpoint %d", s, c.ID)
	}
	near(t, "lost", s.Lost, 3*time.Second, 200*time.Millisecond)
}

func TestFileEventsBoundASave(t *testing.T) {
	j := trainer(saving, 30)
	const tmp, final = "/ckpt/step5.pt.tmp", "/ckpt/step5.pt"
	opened, closed, moved := tickTime(100)-7*time.Millisecond, tickTime(131), tickTime(131)+3*time.Millisecond
	j.files = events(
		snapshot.FileEvent{At: opened, Kind: snapshot.FileCreated, Path: tmp},
		snapshot.FileEvent{At: closed, Kind: snapshot.FileClosedWrite, Path: tmp, Size: 601e6},
		snapshot.FileEvent{At: moved, Kind: snapshot.FileMovedTo, Path: final, Size: 601e6},
	)
	c := one(t, play(j, 20))
	if c.Start != opened || c.End != moved || c.Path != final || c.Files != 1 || c.Size != 601e6 || c.FSType != "ext4" {
		t.Errorf("%+v", c)
	}
}

// TestSightOfAClosedFile: a file that was seen open before it was closed, in one frame, is one file and not two.
func TestSightOfAClosedFile(t *testing.T) {
	j := trainer(saving, 8)
	before := j.rank(0).play
	j.rank(0).play = func(i int) act { return before(i % 200) }
	const path = "/ckpt/a.pt"
	j.files = func(from, to time.Duration) (files []snapshot.OpenFile, all []snapshot.FileEvent) {
		for _, at := range []int{100, 300} {
			_, e := events(
				snapshot.FileEvent{At: tickTime(at), Kind: snapshot.FileCreated, Path: path},
				snapshot.FileEvent{At: tickTime(at + 8), Kind: snapshot.FileClosedWrite, Path: path, Size: 160e6},
			)(from, to)
			f, _ := sights(at+4, snapshot.OpenFile{ID: j.rank(0).id, FD: 9, Path: path, Flags: 0o100001, Pos: 8e7, MountID: 1})(from, to)
			files, all = append(files, f...), append(all, e...)
		}
		return files, all
	}
	v := play(j, 36)
	if len(v.checkpoints) != 2 {
		t.Fatalf("%d checkpoints", len(v.checkpoints))
	}
	for _, c := range v.checkpoints {
		if c.Files != 1 || c.Size != 160e6 {
			t.Errorf("%+v", c)
		}
	}
}

// TestCollectivesBetweenSaves: gloo writes to sockets all the time. That must not tie the saves of a job together.
func TestCollectivesBetweenSaves(t *testing.T) {
	gloo := act{run: 1, wchar: 20e6, writes: 100}
	j := newJob(1, 2)
	j.workers(always(forIndex))
	j.rank(0).play = func(i int) act {
		if i >= 100 && i%40 < 4 {
			return saving
		}
		return gloo
	}
	var all []snapshot.FileEvent
	for i := 120; i < 240; i += 40 {
		path := "/ckpt/" + string(rune('a'+i/40)) + ".distcp"
		all = append(all,
			snapshot.FileEvent{At: tickTime(i), Kind: snapshot.FileCreated, Path: path},
			snapshot.FileEvent{At: tickTime(i + 4), Kind: snapshot.FileClosedWrite, Path: path, Size: 80e6})
	}
	j.files = events(all...)
	v := play(j, 17)
	if len(v.checkpoints) != 3 {
		t.Fatalf("%d checkpoints, want 3: %+v", len(v.checkpoints), v.checkpoints)
	}
	for i, c := range v.checkpoints {
		if c.Size != 80e6 || c.Start != tickTime(120+40*i) || c.End != tickTime(124+40*i) {
			t.Errorf("%+v", c)
		}
	}
}

func TestSlowSmallSaveIsFoundByItsFile(t *testing.T) {
	slow := act{run: 1, wchar: 3e6, wb: 3e6, writes: 3}
	j := trainer(slow, 20)
	j.files = events(
		snapshot.FileEvent{At: tickTime(100), Kind: snapshot.FileCreated, Path: "/ckpt/lora.safetensors"},
		snapshot.FileEvent{At: tickTime(120), Kind: snapshot.FileClosedWrite, Path: "/ckpt/lora.safetensors", Size: 6e6},
	)
	if c := one(t, play(j, 20)); c.Size != 6e6 || c.Start != tickTime(100) || c.End != tickTime(120) {
		t.Errorf("%+v", c)
	}
}

func TestSyncBelongsToTheSaveAndMakesItDurable(t *testing.T) {
	j := trainer(saving, 20)
	before := j.rank(0).play
	j.rank(0).play = func(i int) act {
		if i >= 120 && i < 150 {
			return syncing
		}
		return before(i)
	}
	c := one(t, play(j, 20))
	near(t, "end", c.End, tickTime(150), 100*time.Millisecond)
	if c.Durable == nil || !*c.Durable {
		t.Errorf("durable: %v", c.Durable)
	}
	if !strings.Contains(strings.Join(c.Evidence, "\n"), "synced") {
		t.Errorf("evidence: %q", c.Evidence)
	}
}

func TestUnsyncedSaveIsNotOnDiskYet(t *testing.T) {
	j := trainer(saving, 20)
	j.change = func(f *model.Frame) {
		if f.Mono > tickTime(120) {
			f.Host.Dirty = 400e6
		}
	}
	if c := one(t, play(j, 20)); c.Durable == nil || *c.Durable {
		t.Errorf("durable: %v", c.Durable)
	}
}

func TestThreadSavesInTheBackground(t *testing.T) {
	moving := act{run: 1, otherCPU: 0.8, wchar: 100e6, wb: 100e6, writes: 20}
	v := play(trainer(moving, 50), 25)
	if c := one(t, v); !c.Background || c.Blocked != 0 {
		t.Errorf("%+v", c)
	}
	if s := v.stall(0, detect.PhaseCheckpoint); s != nil {
		t.Errorf("a background save stalls: %+v", s)
	}
}

func TestBackgroundSaveWhileTheRankWaitsForData(t *testing.T) {
	moving := forData
	moving.wchar, moving.wb, moving.writes = 100e6, 100e6, 20
	if c := one(t, play(trainer(moving, 50), 25)); !c.Background {
		t.Errorf("%+v", c)
	}
}

// child adds a process below rank 0 that writes from tick 100 to 130.
func child(j *job) *fake {
	p := &fake{
		id: snapshot.ProcID{PID: 300, StartTicks: 11000}, role: model.RoleHelper, slot: model.None, of: j.rank(0).id, start: j.now,
		play: func(i int) act {
			if i >= 100 && i < 130 {
				return saving
			}
			return collective
		},
	}
	j.procs = append(j.procs, p)
	return p
}

func TestChildSaves(t *testing.T) {
	forChild := act{state: 'S', channel: "do_wait", call: call(61, 300)}
	for name, during := range map[string]struct {
		act        act
		background bool
	}{"while its rank trains": {computing, true}, "while its rank waits for it": {forChild, false}} {
		t.Run(name, func(t *testing.T) {
			j := trainer(during.act, 30)
			p := child(j)
			c := one(t, play(j, 20))
			if c.Background != during.background || c.Writer != p.id || c.WriterRole != model.RoleHelper || c.Rank != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestLauncherSavesForTheJob(t *testing.T) {
	j := trainer(computing, 30)
	p := child(j)
	p.role, p.rank, p.of = model.RoleLauncher, model.None, snapshot.ProcID{}
	if c := one(t, play(j, 20)); c.Rank != model.None || c.WriterRole != model.RoleLauncher || !c.Background {
		t.Errorf("%+v", c)
	}
}

func TestShardsOfOneSave(t *testing.T) {
	j := newJob(2, 0)
	for r := range 2 {
		j.rank(r).play = func(i int) act {
			if k := i % 100; i >= 100 && k >= 10*r && k < 30 {
				return saving
			}
			return computing
		}
	}
	v := play(j, 23)
	if len(v.checkpoints) != 4 {
		t.Fatalf("%d checkpoints, want 4: %+v", len(v.checkpoints), v.checkpoints)
	}
	saves := map[uint64][]int{}
	for _, c := range v.checkpoints {
		saves[c.Save] = append(saves[c.Save], c.Rank)
	}
	if len(saves) != 2 {
		t.Errorf("saves %v, want 2 of 2 ranks", saves)
	}
}

func TestVictimOfASaveNamesTheSaver(t *testing.T) {
	j := newJob(2, 0)
	during := func(a act) func(int) act {
		return func(i int) act {
			if i >= 100 && i < 150 {
				return a
			}
			return computing
		}
	}
	j.rank(0).play, j.rank(1).play = during(saving), during(collective)
	v := play(j, 20)
	s := v.stall(1, detect.PhasePeerWait)
	if s == nil {
		t.Fatal("no stall of the waiting rank")
	}
	if s.Cause != detect.CausePeer || s.Culprit != "rank 0" || !strings.Contains(strings.Join(s.Evidence, "\n"), "checkpoint") {
		t.Errorf("%+v", s)
	}
	if v.stall(1, detect.PhaseCheckpoint) != nil || v.stall(0, detect.PhaseCheckpoint) == nil {
		t.Error("the save is not the saver's alone")
	}
}

func TestKilledWhileWriting(t *testing.T) {
	j := trainer(saving, 200)
	j.files = sights(105, snapshot.OpenFile{ID: j.rank(0).id, FD: 9, Path: "/ckpt/a.pt", Flags: 0o100001, Pos: 1e8, MountID: 1})
	j.warmUp()
	j.run(7)
	j.kill(j.rank(0))
	j.run(2)
	if c := one(t, j.finish()); !strings.Contains(c.CutShort, "signal 9") {
		t.Errorf("cut short: %q", c.CutShort)
	}
}

func TestFullFileSystemCutsASaveShort(t *testing.T) {
	j := trainer(saving, 20)
	j.files = sights(105, snapshot.OpenFile{ID: j.rank(0).id, FD: 9, Path: "/ckpt/a.pt", Flags: 0o100001, Pos: 1e8, MountID: 1})
	j.change = func(f *model.Frame) { f.Raw.Mounts[0].Space = &snapshot.Space{Total: 1e9} }
	if c := one(t, play(j, 20)); !strings.Contains(c.CutShort, "full") {
		t.Errorf("cut short: %q", c.CutShort)
	}
}

func TestWhatIsNoCheckpoint(t *testing.T) {
	file := func(path string, flags uint32) func(*job) {
		return func(j *job) {
			j.files = sights(105, snapshot.OpenFile{ID: j.rank(0).id, FD: 9, Path: path, Flags: flags, Pos: 1e8, MountID: 1})
		}
	}
	cases := map[string]struct {
		during act
		change func(*job)
	}{
		"a dataset cache reads as it writes": {act{run: 1, wchar: 50e6, wb: 50e6, writes: 50, read: 50e6, calls: 50}, file("/data/cache.arrow", 0o100001)},
		"a database in place":                {saving, file("/data/index", 0o100002)},
		"many small writes":                  {act{run: 1, wchar: 40e6, wb: 40e6, writes: 10000}, nil},
		"a log":                              {act{run: 1, wchar: 20e6, wb: 20e6, writes: 20}, file("/out/train.log", 0o102001)},
		"a download": {act{run: 1, wchar: 50e6, wb: 50e6, writes: 50}, func(j *job) {
			j.change = func(f *model.Frame) {
				f.Network = []model.NetworkRate{{NetIO: &snapshot.NetIO{}, RxBPS: 50e6}}
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			j := trainer(c.during, 30)
			if c.change != nil {
				c.change(j)
			}
			for _, cp := range play(j, 20).checkpoints {
				t.Errorf("checkpoint %+v", cp)
			}
		})
	}
}
