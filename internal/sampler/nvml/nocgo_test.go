//go:build !cgo

package nvml

import (
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/hosttest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// A build without cgo is the same program minus GPUs, and says so.
func TestWithoutCgo(t *testing.T) {
	r := New(Library(""), Options{})
	var s snapshot.Snapshot
	hosttest.Until(t, "the answer", func() bool {
		s = snapshot.Snapshot{}
		r.Read(0, &s)
		return len(s.Gaps) > 0
	})
	if s.Gaps[0].Source != "nvml" || s.Gaps[0].Reason != snapshot.GapUnsupported || s.Gaps[0].Detail != ErrNoCgo.Error() || BuiltIn {
		t.Errorf("%+v", s.Gaps)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
