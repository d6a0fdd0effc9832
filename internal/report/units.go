package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Bytes writes a size with SI units: 999 B, 1.2 kB, 31 MB, 48.2 GB.
func Bytes(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range [...]string{"kB", "MB", "GB", "TB", "PB"} {
		v /= 1000
		// 999.95 would be written as 1000: it belongs to the next unit.
		if v < 999.5 || unit == "PB" {
			if v < 9.95 {
				return fmt.Sprintf("%.1f %s", v, unit)
			}
			return fmt.Sprintf("%.0f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.0f PB", v) // not reached
}

// Rate writes a throughput.
func Rate(bytesPerSecond float64) string {
	if !(bytesPerSecond > 0) || math.IsInf(bytesPerSecond, 0) {
		return "0 B/s"
	}
	return Bytes(uint64(bytesPerSecond+0.5)) + "/s"
}

// Duration writes a duration as a person says it: 0.2s, 9.6s, 43s, 12m04s, 3h05m, 2d04h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d.Round(time.Second) < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d.Round(time.Minute) < 24*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// seconds converts to a duration what a document holds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Percent writes a share: 0%, 0.4%, 27%. A share above zero is never written as zero.
func Percent(share float64) string {
	p := share * 100
	switch {
	case !(p > 0):
		return "0%"
	case p < 0.1:
		return "<0.1%"
	case p < 0.95:
		return fmt.Sprintf("%.1f%%", p)
	}
	return fmt.Sprintf("%.0f%%", p)
}

// plural writes a count with its noun: 1 rank, 8 ranks, 2 processes.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list joins words: a, b and c.
func list(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
