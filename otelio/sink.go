package otelio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
)

// Config is what a Sink needs.
type Config struct {
	Run model.Run
	// Dir is the run folder, "" to keep no files.
	Dir string
	// Lookup reads the environment, os.LookupEnv when nil. In an agent it must show the variables of the launch.
	Lookup Lookup
	// SpanRotation is the length of the pieces in which long spans are exported, 0 for none.
	SpanRotation time.Duration
	Logger       *slog.Logger // nil: discarded
	Procfs       string       // "" for /proc; tells the container
	// Wait makes Consume wait for the encoder and the files instead of dropping what they cannot take: for a replay, which
	// runs as fast as it can and has no job to disturb.
	Wait bool
}

// Bounds of what waits for a slow encoder or disk. A run makes a batch every ten seconds and at each span.
const (
	waitingBatches = 16
	waitingLines   = 32
	waitingSpans   = 16384
)

// stateReserve is what Close keeps of its budget to write down what was not sent.
const stateReserve = 150 * time.Millisecond

// Sink publishes a run. It implements the agent's interface of that name.
type Sink struct {
	cfg   Config
	set   settings
	log   *slog.Logger
	clock clock

	tracer *tracer
	spans  *spans
	meter  *meter
	events *events

	last       atomic.Bool   // Close has begun
	nextExport time.Duration // monotonic time of the next export of metrics; 0 before the first frame

	batches chan batch
	encoded chan struct{} // closed when the encoder has ended
	final   bool          // the encoder is at the last batch; its goroutine's own
	spools  [numSignals]*spool
	journal *journal // nil without a run folder
	senders []*sender
	clients []client
	closing chan struct{}      // closed when no request will be added
	cancel  context.CancelFunc // ends the senders

	mu       sync.Mutex
	problems []string
	lost     map[string]uint64 // items dropped here, by what
}

// New prepares a Sink. It reaches for no network and waits for no disk. It fails only for a Run that cannot be described;
// settings that make no sense are said in Problems and left out.
func New(ctx context.Context, cfg Config) (*Sink, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Procfs == "" {
		cfg.Procfs = "/proc"
	}
	s := &Sink{cfg: cfg, log: cfg.Logger, set: readSettings(cfg.Lookup, cfg.Run.Trace.TraceID), lost: map[string]uint64{},
		batches: make(chan batch, waitingBatches), encoded: make(chan struct{}), closing: make(chan struct{})}
	for _, p := range s.set.problems {
		s.log.Warn(p)
	}
	s.problems = append(s.problems, s.set.problems...)
	muteSDK()
	s.clock = newClock(&s.cfg.Run)
	res, err := newResource(ctx, &s.cfg, s.set)
	if err != nil {
		return nil, err
	}
	if s.tracer, err = newTracer(res, &s.cfg.Run); err != nil {
		return nil, err
	}
	s.spans = newSpans(s.tracer, &s.clock, &s.cfg.Run, cfg.SpanRotation)
	s.spans.onSpan = s.onFinding
	s.events = newEvents(res, &s.cfg.Run, s.tracer, &s.clock)
	if s.meter, err = newMeter(s.set, res, &s.cfg.Run, &s.clock, s.log); err != nil {
		return nil, err
	}
	s.meter.dropped = s.countDropped
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	routeSDKErrors(s.log)
	return s, nil
}

// start starts the encoder, the journal and the senders.
func (s *Sink) start(ctx context.Context) error {
	// The senders outlive ctx, which is New's: Close ends them.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.senders, s.clients = s.delivery().senders(s.set, &s.spools)
	if s.cfg.Dir != "" {
		s.journal = &journal{dir: s.cfg.Dir, log: s.log, thin: !s.set.delta.counters && !s.set.delta.histograms, spools: s.spools, lines: make(chan line, waitingLines),
			ready: make(chan struct{}), sent: make(chan struct{}), done: make(chan struct{})}
		go s.journal.run()
	}
	e, err := newEncoder(ctx, s.set.metricOptions(), s.onRequest)
	if err != nil {
		cancel()
		return err
	}
	for _, snd := range s.senders {
		go func() {
			if s.journal != nil {
				// The backlog of an earlier agent goes first, unless the disk hangs.
				sleep(running, s.journal.ready, 3*time.Second)
			}
			snd.run(running)
		}()
	}
	go func() {
		defer close(s.encoded)
		for b := range s.batches {
			s.final = b.last
			if err := e.encode(b); err != nil {
				s.log.Error("Telemetry could not be encoded", "cause", err)
			}
		}
		e.close()
	}()
	return nil
}

// delivery is what the senders share.
func (s *Sink) delivery() delivery {
	return delivery{dir: s.cfg.Dir, log: s.log, problem: s.problem, closing: s.closing}
}

// Problems returns what is wrong with the settings and the delivery, one line each, for the summary.
func (s *Sink) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// problem keeps a line, once: signals that share an endpoint share its troubles.
func (s *Sink) problem(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.problems, line) {
		s.problems = append(s.problems, line)
	}
}

// Consume takes one step. It does no I/O.
func (s *Sink) Consume(f *model.Frame, found *detect.Findings) {
	s.clock.see(f)
	s.events.runStarted(&s.cfg.Run)
	s.meter.consume(f, found)
	s.spans.consume(f, found)
	s.events.step(f, s.spans.parentOf)
	if s.nextExport == 0 {
		s.nextExport = f.Mono // the first frame is exported at once: a short run is visible too
	}
	due := f.Mono >= s.nextExport
	if due {
		s.nextExport = f.Mono - (f.Mono-s.nextExport)%s.set.interval + s.set.interval
	}
	if due || len(s.tracer.ended) > 0 || len(s.events.records) > 0 {
		s.hand(context.Background(), due, s.cfg.Wait)
	}
}

// onFinding passes a checkpoint or stall with its span on to the histograms and the log events.
func (s *Sink) onFinding(e *detect.Event, span trace.SpanID) {
	ctx := s.tracer.within(span)
	switch {
	case e.Checkpoint != nil:
		if e.Kind == detect.Closed {
			s.meter.checkpointWritten(ctx, e.Checkpoint)
			s.events.finding(e, span, s.spans.checkpointAttributes(e.Checkpoint))
		}
	case e.Kind != detect.Updated:
		if e.Kind == detect.Closed {
			s.meter.stallEnded(ctx, e.Stall)
		}
		s.events.finding(e, span, s.spans.stallAttributes(e.Stall, e.Stall.Lost, e.Stall.End-e.Stall.Start))
	}
}

// hand gives the encoder what there is. Without wait, what it has no room for stays here: spans and records up to a bound,
// totals because the next export holds them again.
func (s *Sink) hand(ctx context.Context, withMetrics, wait bool) {
	if !wait && len(s.batches) == cap(s.batches) { // nobody else fills it
		s.bound()
		return
	}
	b := batch{spans: s.tracer.take(), records: s.events.take(), last: s.isClosing()}
	if withMetrics && s.meter.frame != nil {
		rm, err := s.meter.collect()
		if err != nil {
			s.log.Error("Metrics could not be collected", "cause", err)
		}
		b.metrics = rm
	}
	select {
	case s.batches <- b:
	case <-ctx.Done():
		s.countLost("spans", len(b.spans))
		s.countLost("log records", len(b.records))
	}
}

// bound drops the oldest of what waits for the encoder.
func (s *Sink) bound() {
	if n := len(s.tracer.ended) - waitingSpans; n > 0 {
		s.tracer.ended = append(s.tracer.ended[:0:0], s.tracer.ended[n:]...)
		s.countLost("spans", n)
	}
	if n := len(s.events.records) - waitingSpans; n > 0 {
		s.events.records = append(s.events.records[:0:0], s.events.records[n:]...)
		s.countLost("log records", n)
	}
}

func (s *Sink) countLost(what string, n int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	first := s.lost[what] == 0
	s.lost[what] += uint64(n)
	s.mu.Unlock()
	if first {
		s.log.Warn("Telemetry is lost: it is made faster than it can be encoded or written", "what", what)
	}
}

// countDropped reports what was lost, for ptlaunch.self.dropped.
func (s *Sink) countDropped(count func(what string, items uint64)) {
	for sig, sp := range s.spools {
		if sp == nil {
			continue
		}
		if _, dropped, _ := sp.state(); dropped > 0 {
			count("otlp."+signal(sig).String(), dropped)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range s.lost {
		count("otlp."+strings.ReplaceAll(what, " ", "_"), n)
	}
}

// onRequest takes an encoded request, on the encoder's goroutine.
func (s *Sink) onRequest(sig signal, m proto.Message) {
	body, err := marshal(m)
	if err != nil {
		s.log.Error("Telemetry could not be encoded", "signal", sig.String(), "cause", err)
		return
	}
	l := line{sig: sig, message: m, last: s.final}
	if sp := s.spools[sig]; sp != nil && (sig != traces || !s.set.dropSpans) {
		l.entry = sp.add(body)
	}
	if s.journal == nil {
		return
	}
	if s.cfg.Wait || s.isClosing() {
		s.journal.lines <- l // the disk may hang: Close does not wait for this goroutine beyond its deadline
		return
	}
	select {
	case s.journal.lines <- l:
	default:
		s.countLost("lines", 1)
	}
}

// isClosing reports whether Close has handed over the last batch.
func (s *Sink) isClosing() bool { return s.last.Load() }

// Close exports the end of the run and delivers what is left, within the context's deadline. All signals are sent at the
// same time, each with all of what remains. What could not be delivered is in the run folder; the error says so. Without a
// deadline it waits until all is delivered.
func (s *Sink) Close(ctx context.Context, out model.Outcome) error {
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.Add(-min(stateReserve, time.Until(d)/4)))
		defer cancel()
	}
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	s.last.Store(true)
	s.events.runStarted(&s.cfg.Run)
	s.spans.finish(&out)
	s.hand(ctx, true, true)
	close(s.batches)
	waitFor(ctx, s.encoded)
	close(s.closing)
	for _, snd := range s.senders {
		<-snd.done // they end with ctx
	}
	if s.journal != nil {
		close(s.journal.sent)
		if isDone(s.encoded) {
			close(s.journal.lines)
		}
		grace, cancel := context.WithTimeout(context.Background(), stateReserve)
		if ctx.Err() == nil {
			waitFor(ctx, s.journal.done)
		}
		waitFor(grace, s.journal.done)
		cancel()
	}
	s.cancel()
	for _, c := range s.clients {
		c.close()
	}
	return s.undelivered()
}

// undelivered says what the endpoint did not take.
func (s *Sink) undelivered() error {
	text := undelivered(s.spools, s.cfg.Dir)
	if text == "" {
		return nil
	}
	s.log.Warn(text)
	s.problem(text)
	return errors.New(text)
}

// undelivered is one line about what is left in the spools, "" when they are empty.
func undelivered(spools [numSignals]*spool, dir string) string {
	var parts []string
	why := ""
	for sig, sp := range spools {
		if sp == nil {
			continue
		}
		if left, dropped, _ := sp.state(); left > 0 || dropped > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", left+int(dropped), signal(sig)))
			if t := sp.lastTrouble(); why == "" && t != "" {
				why = " (" + t + ")"
			}
		}
	}
	switch {
	case len(parts) == 0:
		return ""
	case dir == "":
		return "OTLP requests not delivered: " + strings.Join(parts, ", ") + why + "; they are lost, because there is no run folder"
	}
	return "OTLP requests not delivered: " + strings.Join(parts, ", ") + why + "; send them later with: ptlaunch replay --otlp " + dir
}

// waitFor waits for a channel to be closed, or the context.
func waitFor(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
