package nvml

import (
	"math"
	"testing"
	"time"
)

func TestBusyFromSamples(t *testing.T) {
	var b busy
	if _, ok := b.addSamples([]sample{{at: 1_000_000, share: 1}}); ok || b.total != 0 {
		t.Fatalf("the first sample covers no time: %v", b.total)
	}
	mean, ok := b.addSamples([]sample{{at: 500_000, share: 1}, {at: 1_500_000, share: 1}, {at: 2_500_000, share: 0.25}})
	if want := 750 * time.Millisecond; !ok || math.Abs(mean-0.5) > 1e-9 || b.total != want {
		t.Errorf("mean %v, total %v, want 0.5 and %v", mean, b.total, want)
	}
	if _, ok := b.addSamples([]sample{{at: 2_500_000, share: 1}}); ok || b.total != 750*time.Millisecond {
		t.Errorf("a sample counted twice: %v", b.total)
	}
	// Unread for a minute, or a wild time stamp: nothing is known of that time.
	if _, ok := b.addSamples([]sample{{at: 62_500_000, share: 1}, {at: math.MaxUint64, share: 1}}); ok || b.total != 750*time.Millisecond {
		t.Errorf("a hole was filled: %v", b.total)
	}
}

func TestBusyFromLevels(t *testing.T) {
	var b busy
	b.addLevel(10*time.Second, 1)
	b.addLevel(11*time.Second, 0.5)
	b.addLevel(100*time.Second, 1)
	b.addLevel(101*time.Second, 1)
	if b.total != 1500*time.Millisecond {
		t.Errorf("total %v, want 1.5s", b.total)
	}
}
