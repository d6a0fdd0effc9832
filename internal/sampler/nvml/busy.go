package nvml

import "time"

// sample is one entry of the driver's buffer: the mean of the time since the entry before it.
type sample struct {
	at    uint64 // microseconds, of the driver's clock
	share float64
}

// busy integrates utilisation over time.
type busy struct {
	total time.Duration
	last  uint64 // time of the newest sample, 0 before the first
	mono  time.Duration
}

// widest is how much time one sample may stand for. Drivers keep some 20 s of them; where they have gone by unread, or the
// driver slept, nothing is known of that time, and a guess would be wrong in a counter for ever.
const widest = 5 * time.Second

// addSamples takes samples newer than the last, oldest first, and returns the mean share over the time they cover. ok is
// false when they cover none: the first reading only sets the clock.
func (b *busy) addSamples(samples []sample) (mean float64, ok bool) {
	var covered, active time.Duration
	for _, s := range samples {
		if s.at <= b.last {
			continue
		}
		if b.last != 0 {
			// In microseconds first: a wild time stamp must not overflow.
			if us := s.at - b.last; us <= uint64(widest/time.Microsecond) {
				d := time.Duration(us) * time.Microsecond
				covered += d
				active += time.Duration(s.share * float64(d))
			}
		}
		b.last = s.at
	}
	b.total += active
	if covered == 0 {
		return 0, false
	}
	return float64(active) / float64(covered), true
}

// addLevel takes a momentary share, where the driver keeps no samples: it stands for the time since the last reading.
func (b *busy) addLevel(now time.Duration, share float64) {
	if d := now - b.mono; b.mono != 0 && d > 0 && d <= widest {
		b.total += time.Duration(share * float64(d))
	}
	b.mono = now
}
