package sampler

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestSamplerFollowsRealTree(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 & (sleep 0.2; exit 3) & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s, err := New(Config{Interval: 100 * time.Millisecond, Root: int32(os.Getpid()), Job: int32(cmd.Process.Pid)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 100 {
		snap, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snap.Exits {
			if e.Status != nil && e.Status.Code == 3 {
				return
			}
		}
	}
	t.Error("the subshell's exit with status 3 was not seen")
}
