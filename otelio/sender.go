package otelio

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
)

// Waiting between attempts: short enough that an outage is followed by little more blindness, long enough not to be a load.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = 5 * time.Second
	// repairWait is between attempts at an endpoint that would take nothing until somebody repairs it.
	repairWait = 30 * time.Second
	// closingWait is the longest wait once the run is over and the flush budget runs.
	closingWait = 500 * time.Millisecond
	// longestAsked bounds what a Retry-After may ask for.
	longestAsked = 5 * time.Minute
)

// sender delivers one signal's spool, in order of age.
type sender struct {
	sig      signal
	spool    *spool
	client   client
	endpoint string
	log      *slog.Logger
	problem  func(string) // called at the first failure of each kind, for the summary

	closing <-chan struct{} // closed when nothing will be added any more
	done    chan struct{}

	failingSince time.Time // zero while the endpoint answers
	failures     int       // in a row
	told         map[string]bool
}

// delivery is what the senders of a run share.
type delivery struct {
	dir     string // the run folder, "" without one
	log     *slog.Logger
	problem func(string)
	closing <-chan struct{}
}

// senders makes a spool and a sender for each signal that has a target. Signals with the same gRPC target share a
// connection.
func (d delivery) senders(set settings, spools *[numSignals]*spool) (senders []*sender, clients []client) {
	shared := map[string]client{}
	for sig := range numSignals {
		t := set.targets[sig]
		if t == nil {
			continue
		}
		key := fmt.Sprint(*t)
		c := shared[key]
		if c == nil || t.protocol != "grpc" {
			var err error
			if c, err = newClient(t); err != nil {
				d.log.Warn("Telemetry is not sent", "signal", sig.String(), "cause", err)
				d.problem(fmt.Sprintf("%s are not sent: %v", sig, err))
				continue
			}
			shared[key] = c
			clients = append(clients, c)
		}
		spools[sig] = newSpool(sig, d.dir)
		senders = append(senders, &sender{sig: sig, spool: spools[sig], client: c, endpoint: t.shown(), log: d.log,
			problem: d.problem, closing: d.closing, done: make(chan struct{}), told: map[string]bool{}})
	}
	return senders, clients
}

// run delivers until the spool is empty after closing, or the context ends.
func (s *sender) run(ctx context.Context) {
	defer close(s.done)
	for ctx.Err() == nil {
		e := s.spool.head()
		if e == nil {
			select {
			case <-s.closing:
				if s.spool.head() == nil {
					return
				}
			case <-s.spool.wake:
			case <-ctx.Done():
			}
			continue
		}
		body, err := s.spool.load(e)
		if err != nil {
			s.tell("load", slog.LevelWarn, "A request could not be read back and is given up", "cause", err)
			s.spool.pop(e)
			continue
		}
		s.settle(ctx, e, body, s.client.send(ctx, s.sig, body))
	}
}

// settle does what an answer asks for.
func (s *sender) settle(ctx context.Context, e *entry, body []byte, a answer) {
	switch a.fate {
	case delivered:
		s.recovered()
		if a.rejected > 0 || a.message != "" {
			s.tell("partial", slog.LevelWarn, "OTLP endpoint took a request but not all of it", "rejected", a.rejected, "answer", validText(a.message))
		}
		s.spool.pop(e)
	case refused:
		s.recovered()
		if parts := halves(s.sig, e, body); parts != nil {
			s.spool.replace(e, parts...)
			return
		}
		s.tell("refused", slog.LevelWarn, "OTLP endpoint refuses an item; the others are delivered without it", "cause", a.err)
		s.spool.pop(e)
	default:
		if ctx.Err() != nil { // our own deadline, perhaps not the endpoint's fault
			if s.failingSince.IsZero() {
				s.spool.setTrouble(s.endpoint + " did not answer before the end")
			}
			return
		}
		s.failed(a)
		s.wait(ctx, a)
	}
}

// halves splits a refused request, so that one bad item does not take the others with it; nil when it is a single one.
func halves(sig signal, e *entry, body []byte) []*entry {
	m := sig.wire().request()
	if proto.Unmarshal(body, m) != nil {
		return nil
	}
	n := countItems(m)
	if n < 2 {
		return nil
	}
	var parts []*entry
	for _, r := range [][2]int{{0, n / 2}, {n / 2, n}} {
		b, err := marshal(keepItems(m, r[0], r[1]))
		if err != nil {
			return nil
		}
		parts = append(parts, &entry{body: b})
	}
	parts[1].end = e.end
	return parts
}

// failed counts a failure and says it when it is the first of an outage.
func (s *sender) failed(a answer) {
	s.failures++
	s.spool.setTrouble(fmt.Sprintf("%s: %v", s.endpoint, a.err))
	if !s.failingSince.IsZero() {
		return
	}
	s.failingSince = time.Now()
	msg := "OTLP endpoint does not answer; its telemetry is kept and tried again"
	if a.fate == misaddressed {
		msg = "OTLP endpoint takes nothing as it is addressed; its telemetry is kept and tried again"
	}
	s.log.Warn(msg, "signal", s.sig.String(), "endpoint", s.endpoint, "cause", a.err)
	s.remember("away", fmt.Sprintf("OTLP endpoint %s was away at times: %v", s.endpoint, a.err))
}

// recovered ends an outage.
func (s *sender) recovered() {
	if !s.failingSince.IsZero() {
		s.log.Info("OTLP endpoint answers again", "signal", s.sig.String(), "endpoint", s.endpoint,
			"after", time.Since(s.failingSince).Round(time.Millisecond), "attempts", s.failures+1)
	}
	s.failingSince, s.failures = time.Time{}, 0
	s.spool.setTrouble("")
}

// tell logs what is said once per signal.
func (s *sender) tell(what string, level slog.Level, msg string, args ...any) {
	if s.told[what] {
		return
	}
	s.log.Log(context.Background(), level, msg, append([]any{"signal", s.sig.String(), "endpoint", s.endpoint}, args...)...)
	line := s.sig.String() + ": " + msg + " (" + s.endpoint
	if len(args) > 0 { // the cause comes last
		line += fmt.Sprintf(": %v", args[len(args)-1])
	}
	s.remember(what, line+")")
}

func (s *sender) remember(what, line string) {
	if s.told[what] {
		return
	}
	s.told[what] = true
	s.problem(line)
}

// wait pauses after a failed attempt, less once the run is over.
func (s *sender) wait(ctx context.Context, a answer) {
	pause := min(firstWait<<min(s.failures-1, 8), longestWait)
	if a.fate == misaddressed {
		pause = repairWait
	}
	pause = time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64())) // all nodes of a job fail at once: do not return at once
	asked := min(a.after, longestAsked)
	select {
	case <-s.closing: // the budget runs already
		sleep(ctx, nil, max(asked, min(pause, closingWait)))
	default:
		// An end of the run cuts the wait short, but not what the endpoint asked for.
		sleep(ctx, nil, asked)
		sleep(ctx, s.closing, max(0, pause-asked))
	}
}

// sleep waits for d, the context or the channel, whichever is first.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stop:
	}
}
