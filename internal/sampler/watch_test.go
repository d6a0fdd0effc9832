package sampler

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
)

func event(name string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, 7)
	b = binary.NativeEndian.AppendUint32(b, watchMask)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	return append(b, name...)
}

func TestParseEvents(t *testing.T) {
	var names []string
	parseEvents(append(event("a.pt\x00\x00\x00\x00"), event("")...), func(wd int32, _ uint32, name string) {
		if wd != 7 {
			t.Errorf("watch %d, want 7", wd)
		}
		names = append(names, name)
	})
	if len(names) != 2 || names[0] != "a.pt" || names[1] != "" {
		t.Errorf("names %q", names)
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add(event("a.pt\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseEvents(b, func(_ int32, _ uint32, name string) {
			if len(name) > len(b) {
				t.Error("name longer than the buffer")
			}
		})
	})
}

// TestPatientGivesUp: reads that hang are left behind, a few of them; then everything is refused until they come back.
func TestPatientGivesUp(t *testing.T) {
	w := newPatient("/proc", 5*time.Millisecond)
	defer w.close()
	release := make(chan struct{})
	for range maxStuck {
		if w.do(func(*procfs.FS) { <-release }) {
			t.Fatal("a read that hangs came back")
		}
	}
	if w.do(func(*procfs.FS) {}) {
		t.Error("a read was tried although too many hang")
	}
	close(release)
	for w.stuck.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	if !w.do(func(*procfs.FS) {}) && !w.do(func(*procfs.FS) { time.Sleep(0) }) {
		t.Error("a read was refused after the others had come back")
	}
}
