package inherited

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzSplitEnviron(f *testing.F) {
	f.Add("A=1\x00B=2\x00")
	f.Add("\x00\x00")
	f.Add("NOEND")
	f.Fuzz(func(t *testing.T, block string) {
		got := splitEnviron(block)
		joined := strings.Join(got, "\x00") + "\x00"
		if len(got) == 0 {
			joined = ""
		}
		if strings.TrimSuffix(joined, "\x00") != strings.TrimSuffix(block, "\x00") {
			t.Errorf("%q became %q", block, got)
		}
	})
}

// TestEnviron: where nothing is odd, it is what the standard library says.
func TestEnviron(t *testing.T) {
	if diff := cmp.Diff(os.Environ(), Environ()); diff != "" {
		t.Error(diff)
	}
}

func TestSet(t *testing.T) {
	s := Set(1<<0 | 1<<63)
	for sig, want := range map[syscall.Signal]bool{1: true, 2: false, 64: true, 0: false, 65: false, -1: false} {
		if s.Has(sig) != want {
			t.Errorf("Has(%d) = %v", sig, !want)
		}
	}
}
