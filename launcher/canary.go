package launcher

import (
	"slices"
	"syscall"
	"time"
)

// canaryWindow is how far apart the supervisor's and the agent's copy of one signal may arrive, and how long a signal waits
// for the agent's report before it is passed on. It is long against the wake-up of a low-priority process on a busy machine,
// short against two signals that a person or a scheduler sends one after the other.
const canaryWindow = 50 * time.Millisecond

// maxHeard bounds the memory that a flood of reports can take.
const maxHeard = 256

// canary decides which signals the job has already. It is pure: all times are CLOCK_MONOTONIC and come from the caller.
//
// A signal is held until the agent reports the same one (the job has it too: drop it) or the window is over (it was for the
// supervisor alone: pass it on). A report may also come first; it then waits for the supervisor's copy for one window and
// expires, so that a stale report never swallows a later signal. While the agent is not known to listen, everything is passed
// on at once: nothing is lost, and a signal for the whole group may arrive twice.
type canary struct {
	listening bool
	since     time.Duration // reports from before this are worth nothing: the agent was stopped when the signal was sent
	held      []arrival     // the supervisor's copies, oldest first
	heard     []arrival     // the agent's, waiting for the supervisor's
}

type arrival struct {
	sig syscall.Signal
	at  time.Duration
}

// listen says that the agent reports from now on.
func (c *canary) listen(at time.Duration) {
	c.listening, c.since = true, at
	c.heard = nil
}

// silence says that the agent does not report any more, and returns the signals that waited for it.
func (c *canary) silence() []syscall.Signal {
	var out []syscall.Signal
	for _, h := range c.held {
		out = append(out, h.sig)
	}
	*c = canary{}
	return out
}

// arrived takes the supervisor's copy of a signal and reports whether to pass it on at once.
func (c *canary) arrived(sig syscall.Signal, at time.Duration) bool {
	if !c.listening || at < c.since {
		return true
	}
	for i, h := range c.heard {
		if h.sig == sig && near(h.at, at) {
			c.heard = append(c.heard[:i], c.heard[i+1:]...)
			return false
		}
	}
	c.held = append(c.held, arrival{sig, at})
	return false
}

// reported takes the agent's copy, which it says it got at that time.
func (c *canary) reported(sig syscall.Signal, at, now time.Duration) {
	if !c.listening || at < c.since {
		return
	}
	for i, h := range c.held {
		if h.sig == sig && near(h.at, at) {
			c.held = append(c.held[:i], c.held[i+1:]...)
			return
		}
	}
	if len(c.heard) < maxHeard && near(at, now) {
		c.heard = append(c.heard, arrival{sig, at})
	}
}

// due forgets what has expired and returns the signals to pass on now.
func (c *canary) due(now time.Duration) []syscall.Signal {
	var out []syscall.Signal
	for len(c.held) > 0 && now-c.held[0].at >= canaryWindow {
		out = append(out, c.held[0].sig)
		c.held = c.held[1:]
	}
	c.heard = slices.DeleteFunc(c.heard, func(h arrival) bool { return !near(h.at, now) })
	return out
}

// next is the moment at which due has something to do.
func (c *canary) next() (time.Duration, bool) {
	var at time.Duration
	if len(c.held) > 0 {
		at = c.held[0].at + canaryWindow
	}
	if len(c.heard) > 0 && (at == 0 || c.heard[0].at+canaryWindow < at) {
		at = c.heard[0].at + canaryWindow
	}
	return at, at != 0
}

func near(a, b time.Duration) bool { return max(a, b)-min(a, b) < canaryWindow }
