package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ptlaunch/ptlaunch/test/torchenv"
)

// TestLive runs two scenarios for real, one of waiting for data and one of saves: a laboratory that nobody runs rots. The
// figures themselves are held against their goals by `make lab`, on a machine that does nothing else.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs PyTorch and half a minute")
	}
	if os.Geteuid() != 0 {
		t.Skip("mounts and cgroups need root")
	}
	if _, err := os.Stat("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device"); err != nil {
		t.Skipf("the laboratory limits disks by cgroup v1: %v", err)
	}
	python, err := torchenv.Python()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := bench{python: python, repo: repo, ptlaunch: filepath.Join(t.TempDir(), "ptlaunch")}
	if out, err := exec.Command("go", "build", "-o", b.ptlaunch, "../../cmd/ptlaunch").CombinedOutput(); err != nil {
		t.Fatalf("build ptlaunch: %v\n%s", err, out)
	}
	for _, name := range []string{"fuse", "save_fsync_slow"} {
		t.Run(name, func(t *testing.T) {
			known := scenarios()
			s := known[slices.IndexFunc(known, func(s Scenario) bool { return s.Name == name })]
			scores, err := b.scenario(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if len(scores) != 3 {
				t.Fatalf("judged %d times, want live and two replays", len(scores))
			}
			for _, sc := range scores {
				if sc.Found != sc.Saves || sc.FalseSaves > 0 || sc.Wrong > 0 || sc.Missed > 0 {
					t.Errorf("%s: %d of %d saves found, %d false; causes: %s; %v", sc.Via, sc.Found, sc.Saves, sc.FalseSaves, causeWord(sc), sc.Notes)
				}
			}
			live, again := scores[0], scores[1]
			if live.Found != again.Found || live.FalseStalls != again.FalseStalls || causeWord(live) != causeWord(again) {
				t.Errorf("the replay judges otherwise than the live run:\nlive   %v\nreplay %v", row(live), row(again))
			}
		})
	}
}
