package launcher

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// step is something that happens to a canary at a time in milliseconds.
type step struct {
	at   int
	do   string // listen, silence, arrive, report, due
	sig  syscall.Signal
	got  int              // of report: when the agent got it
	want []syscall.Signal // what is passed on
}

func TestCanary(t *testing.T) {
	const term, usr1 = syscall.SIGTERM, syscall.SIGUSR1
	tests := map[string][]step{
		"nobody listens": {{at: 0, do: "arrive", sig: term, want: []syscall.Signal{term}}},
		"supervisor alone": {
			{at: 0, do: "listen"}, {at: 10, do: "arrive", sig: term}, {at: 59, do: "due"}, {at: 60, do: "due", want: []syscall.Signal{term}},
			{at: 200, do: "due"},
		},
		"group, supervisor first": {
			{at: 0, do: "listen"}, {at: 10, do: "arrive", sig: term}, {at: 30, do: "report", got: 12, sig: term}, {at: 60, do: "due"},
		},
		"group, agent first": {
			{at: 0, do: "listen"}, {at: 10, do: "report", got: 9, sig: term}, {at: 12, do: "arrive", sig: term}, {at: 70, do: "due"},
		},
		"one report answers one signal": {
			{at: 0, do: "listen"}, {at: 10, do: "report", got: 10, sig: term}, {at: 12, do: "arrive", sig: term},
			{at: 14, do: "arrive", sig: term}, {at: 70, do: "due", want: []syscall.Signal{term}},
		},
		"another signal's report": {
			{at: 0, do: "listen"}, {at: 10, do: "report", got: 10, sig: usr1}, {at: 12, do: "arrive", sig: term},
			{at: 70, do: "due", want: []syscall.Signal{term}},
		},
		"stale report swallows nothing": {
			{at: 0, do: "listen"}, {at: 10, do: "report", got: 10, sig: term}, {at: 70, do: "arrive", sig: term},
			{at: 130, do: "due", want: []syscall.Signal{term}},
		},
		"report read late, got long ago": {
			{at: 0, do: "listen"}, {at: 100, do: "arrive", sig: term}, {at: 101, do: "report", got: 10, sig: term},
			{at: 150, do: "due", want: []syscall.Signal{term}},
		},
		"report from the future": {
			{at: 0, do: "listen"}, {at: 10, do: "report", got: 5000, sig: term}, {at: 5001, do: "arrive", sig: term},
			{at: 5060, do: "due", want: []syscall.Signal{term}},
		},
		"agent gone while a signal waits": {
			{at: 0, do: "listen"}, {at: 10, do: "arrive", sig: term}, {at: 20, do: "silence", want: []syscall.Signal{term}},
			{at: 30, do: "arrive", sig: usr1, want: []syscall.Signal{usr1}},
		},
		"not believed yet": {
			{at: 100, do: "listen"}, {at: 80, do: "report", got: 80, sig: term}, {at: 90, do: "arrive", sig: term, want: []syscall.Signal{term}},
		},
		"order is kept": {
			{at: 0, do: "listen"}, {at: 10, do: "arrive", sig: term}, {at: 11, do: "arrive", sig: usr1},
			{at: 70, do: "due", want: []syscall.Signal{term, usr1}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var c canary
			for i, s := range steps {
				at := time.Duration(s.at) * time.Millisecond
				var got []syscall.Signal
				switch s.do {
				case "listen":
					c.listen(at)
				case "silence":
					got = c.silence()
				case "arrive":
					if c.arrived(s.sig, at) {
						got = append(got, s.sig)
					}
				case "report":
					c.reported(s.sig, time.Duration(s.got)*time.Millisecond, at)
				case "due":
					got = c.due(at)
				}
				if !slices.Equal(got, s.want) {
					t.Errorf("step %d (%s at %d ms): passed on %v, want %v", i, s.do, s.at, got, s.want)
				}
			}
		})
	}
}

// TestCanaryBounded: a flood of reports takes bounded memory, and is forgotten.
func TestCanaryBounded(t *testing.T) {
	var c canary
	c.listen(1)
	for range 10 * maxHeard {
		c.reported(syscall.SIGTERM, 2, 2)
	}
	if len(c.heard) > maxHeard {
		t.Errorf("%d reports kept", len(c.heard))
	}
	c.due(time.Second)
	if _, ok := c.next(); ok || len(c.heard) != 0 {
		t.Errorf("%d reports kept after they expired", len(c.heard))
	}
}
