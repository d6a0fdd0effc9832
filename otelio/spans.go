package otelio

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// The spans.
const (
	spanRun        = "training.run"
	spanNode       = "training.node"
	spanRank       = "training.rank"
	spanPool       = "dataloader.pool"
	spanCheckpoint = "checkpoint.write"
	spanStall      = "training.stall"
)

// open is a span that goes on. Times are monotonic; startWall is what they are turned into, fixed when it was opened, so
// that a step of the wall clock cannot make it negative.
type open struct {
	id        trace.SpanID
	start     time.Duration
	startWall time.Time
	pieceFrom time.Duration // end of the last piece, start before the first
}

// wall is a moment of the span in wall time.
func (o *open) wall(mono time.Duration) time.Time { return o.startWall.Add(mono - o.start) }

type openRank struct {
	open
	rank model.Rank
}

type openPool struct {
	open
	pool model.Pool
	told model.Pool // as of the last piece
}

type poolKey struct {
	rank               snapshot.ProcID
	loader, generation int
}

type openStall struct {
	open
	stall detect.Stall
	told  time.Duration // lost time in pieces so far
}

// spans keeps the open spans of a run and exports them when they end, and long ones in pieces. It belongs to one goroutine.
type spans struct {
	tracer   *tracer
	clock    *clock
	run      *model.Run
	rotation time.Duration

	begun     bool
	runSpan   open
	nodeSpan  open
	emitRoot  bool
	rootPiece bool          // the run's sequence-0 piece is out
	boundary  time.Duration // the last one that was seen
	world     int
	last      time.Duration // of the latest frame

	ranks       map[snapshot.ProcID]*openRank
	ranksDone   map[snapshot.ProcID]*openRank // ended, for what still belongs to them
	pools       map[poolKey]*openPool
	stalls      map[uint64]*openStall
	checkpoints map[uint64]trace.SpanID
	recent      []uint64 // keys of checkpoints, oldest first
	onSpan      func(e *detect.Event, span trace.SpanID)
}

// keptCheckpoints is how many checkpoints' span ids are remembered for the stalls that they caused.
const keptCheckpoints = 1024

func newSpans(t *tracer, c *clock, run *model.Run, rotation time.Duration) *spans {
	s := &spans{
		tracer: t, clock: c, run: run, rotation: rotation, boundary: run.StartMono, last: run.StartMono,
		ranks: map[snapshot.ProcID]*openRank{}, ranksDone: map[snapshot.ProcID]*openRank{}, pools: map[poolKey]*openPool{},
		stalls: map[uint64]*openStall{}, checkpoints: map[uint64]trace.SpanID{},
	}
	s.runSpan = open{id: t.run, start: run.StartMono, startWall: run.Start, pieceFrom: run.StartMono}
	s.nodeSpan = open{id: t.node, start: run.StartMono, startWall: run.Start, pieceFrom: run.StartMono}
	// Without an id that the nodes share there is nobody else who could export the root.
	s.emitRoot = run.Trace.JobID == ""
	if run.Trace.EmitRoot != nil {
		s.emitRoot = *run.Trace.EmitRoot
	}
	return s
}

// begin exports the zero-length pieces that make a run visible as soon as it starts.
func (s *spans) begin() {
	if !s.begun {
		s.begun = true
		s.piece(spanNode, &s.nodeSpan, s.nodeParent(), 0, s.run.StartMono, s.nodeAttributes())
	}
	if s.emitRoot && !s.rootPiece {
		s.rootPiece = true
		s.piece(spanRun, &s.runSpan, s.tracer.parent, 0, s.run.StartMono, nil)
	}
}

// nodeParent is the run, whoever exports it.
func (s *spans) nodeParent() trace.SpanID { return s.tracer.run }

func (s *spans) nodeAttributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("host.name", s.run.Host)}
}

// consume takes one step.
func (s *spans) consume(f *model.Frame, found *detect.Findings) {
	s.last = f.Mono
	for i := range f.Ranks {
		s.seeRank(&f.Ranks[i])
	}
	s.begin()
	for i := range f.Pools {
		s.seePool(&f.Pools[i])
	}
	if found != nil {
		for i := range found.Events {
			s.event(&found.Events[i])
		}
	}
	s.rotate(f.Mono)
}

func (s *spans) open(start time.Duration, what string, numbers ...uint64) open {
	return open{id: s.tracer.derive(what, numbers...), start: start, startWall: s.clock.wall(start), pieceFrom: start}
}

func (s *spans) seeRank(r *model.Rank) {
	s.world = max(s.world, r.WorldSize)
	if s.run.Trace.EmitRoot == nil && r.Rank == 0 {
		s.emitRoot = true
	}
	if s.ranksDone[r.ID] != nil {
		return
	}
	o := s.ranks[r.ID]
	if o == nil {
		o = &openRank{open: s.open(r.Start, spanRank, uint64(r.ID.PID), r.ID.StartTicks)}
		s.ranks[r.ID] = o
	}
	o.rank = *r
	if r.End != 0 {
		s.endRank(o, r.End)
	}
}

func (s *spans) endRank(o *openRank, end time.Duration) {
	r := &o.rank
	attrs := append(s.common(r.ID, r.Rank), attribute.Int("process.pid", int(r.ID.PID)))
	attrs, failed := exitAttributes(attrs, r.Status)
	s.final(spanRank, &o.open, s.tracer.node, end, attrs, failed)
	delete(s.ranks, r.ID)
	s.ranksDone[r.ID] = o
}

// common are the attributes of everything that belongs to a rank.
func (s *spans) common(id snapshot.ProcID, rank int) []attribute.KeyValue {
	var kv []attribute.KeyValue
	if rank != model.None {
		kv = append(kv, attribute.Int("pytorch.rank", rank))
	}
	if r := s.rank(id); r != nil && r.rank.LocalRank != model.None {
		kv = append(kv, attribute.Int("pytorch.local_rank", r.rank.LocalRank))
	}
	return kv
}

func (s *spans) rank(id snapshot.ProcID) *openRank {
	if o := s.ranks[id]; o != nil {
		return o
	}
	return s.ranksDone[id]
}

// parentOf is the rank's span, or the node's where the rank is not known.
func (s *spans) parentOf(id snapshot.ProcID) trace.SpanID {
	if r := s.rank(id); r != nil {
		return r.id
	}
	return s.tracer.node
}

func (s *spans) seePool(p *model.Pool) {
	key := poolKey{p.OfRank, p.Loader, p.Generation}
	o := s.pools[key]
	if o == nil {
		o = &openPool{open: s.open(p.Start, spanPool, uint64(p.OfRank.PID), p.OfRank.StartTicks, uint64(p.Loader), uint64(p.Generation))}
		s.pools[key] = o
	}
	o.pool = *p
	if p.End != 0 {
		s.endPool(key, o, p.End)
	}
}

func (s *spans) endPool(key poolKey, o *openPool, end time.Duration) {
	s.final(spanPool, &o.open, s.parentOf(o.pool.OfRank), end, s.poolAttributes(&o.pool, model.Pool{}), "")
	delete(s.pools, key)
}

func (s *spans) poolAttributes(p *model.Pool, since model.Pool) []attribute.KeyValue {
	kv := append(s.common(p.OfRank, p.Rank),
		attribute.Int("pytorch.dataloader.id", p.Loader),
		attribute.Int("pytorch.dataloader.workers", p.Workers),
		attribute.Int("pytorch.dataloader.generation", p.Generation),
		attribute.Int64("pytorch.io.read_bytes", int64(p.ReadBytes-min(p.ReadBytes, since.ReadBytes))),
		attribute.Int64("pytorch.io.storage_read_bytes", int64(p.StorageRead-min(p.StorageRead, since.StorageRead))))
	return putString(kv, "pytorch.dataloader.start_method", p.StartMethod)
}

// event takes a change of a checkpoint or a stall.
func (s *spans) event(e *detect.Event) {
	switch {
	case e.Checkpoint != nil:
		c := e.Checkpoint
		id := s.checkpointID(c)
		if e.Kind == detect.Closed {
			o := open{id: id, start: c.Start, startWall: s.clock.wall(c.Start)}
			s.final(spanCheckpoint, &o, s.parentOf(c.OfRank), c.End, s.checkpointAttributes(c), c.CutShort)
		}
		s.onSpan(e, id)
	case e.Stall != nil:
		st := e.Stall
		o := s.stalls[st.ID]
		if o == nil {
			o = &openStall{open: s.open(st.Start, spanStall, st.ID, uint64(st.OfRank.PID), st.OfRank.StartTicks, uint64(st.Start))}
			s.stalls[st.ID] = o
		}
		o.stall = *st
		id := o.id
		if e.Kind == detect.Closed {
			s.endStall(o)
		}
		s.onSpan(e, id)
	}
}

// checkpointID returns the span id of a checkpoint, made when it is first heard of.
func (s *spans) checkpointID(c *detect.Checkpoint) trace.SpanID {
	if id, ok := s.checkpoints[c.ID]; ok {
		return id
	}
	id := s.tracer.derive(spanCheckpoint, c.ID, uint64(c.OfRank.PID), c.OfRank.StartTicks, uint64(c.Start))
	s.checkpoints[c.ID] = id
	if s.recent = append(s.recent, c.ID); len(s.recent) > keptCheckpoints {
		delete(s.checkpoints, s.recent[0])
		s.recent = s.recent[1:]
	}
	return id
}

func (s *spans) endStall(o *openStall) {
	// The start may have been refined since it was opened.
	o.startWall, o.start = o.wall(o.stall.Start), o.stall.Start
	s.exportStall(o, o.stall.End, o.stall.Lost, nil)
	delete(s.stalls, o.stall.ID)
}

// exportStall exports the final span, or a piece when sequence is given.
func (s *spans) exportStall(o *openStall, end, lost time.Duration, sequence *int) {
	from := o.start
	if sequence != nil {
		from = o.pieceFrom
	}
	f := finished{
		name: spanStall, id: o.id, parent: s.parentOf(o.stall.OfRank), start: o.wall(from), end: o.wall(end),
		attributes: s.stallAttributes(&o.stall, lost, end-from), link: s.checkpoints[o.stall.Checkpoint],
	}
	s.send(f, sequence)
}

// final exports the span that covers a whole life.
func (s *spans) final(name string, o *open, parent trace.SpanID, end time.Duration, attrs []attribute.KeyValue, failed string) {
	s.send(finished{name: name, id: o.id, parent: parent, start: o.startWall, end: o.wall(end), attributes: attrs, failed: failed}, nil)
}

// piece exports what has passed of a span since its last piece.
func (s *spans) piece(name string, o *open, parent trace.SpanID, sequence int, end time.Duration, attrs []attribute.KeyValue) {
	s.send(finished{name: name, id: o.id, parent: parent, start: o.wall(o.pieceFrom), end: o.wall(end), attributes: attrs}, &sequence)
	o.pieceFrom = end
}

// send marks a span as final or as a piece, which has an id of its own, and exports it.
func (s *spans) send(f finished, sequence *int) {
	f.attributes = append(f.attributes, attribute.Bool("ptlaunch.span.final", sequence == nil))
	if sequence != nil {
		f.attributes = append(f.attributes, attribute.Int("ptlaunch.span.sequence", *sequence))
		f.id = s.tracer.derive("piece "+hexSpan(f.id), uint64(*sequence))
	}
	s.tracer.export(f)
}

// rotate exports a piece of every span that has been open for a rotation or longer, at each boundary. The boundaries count
// from the run's start; when several have passed at once, one piece ends at the last.
func (s *spans) rotate(now time.Duration) {
	if s.rotation <= 0 || now-s.boundary < s.rotation {
		return
	}
	s.boundary += (now - s.boundary) / s.rotation * s.rotation
	at := s.boundary
	due := func(o *open) (sequence int, ok bool) {
		return int((at - o.start) / s.rotation), at-o.start >= s.rotation && at > o.pieceFrom
	}
	if n, ok := due(&s.runSpan); ok && s.emitRoot {
		s.piece(spanRun, &s.runSpan, s.tracer.parent, n, at, s.worldAttributes(nil))
	}
	if n, ok := due(&s.nodeSpan); ok {
		s.piece(spanNode, &s.nodeSpan, s.nodeParent(), n, at, s.nodeAttributes())
	}
	for _, o := range s.ranks {
		if n, ok := due(&o.open); ok {
			s.piece(spanRank, &o.open, s.tracer.node, n, at, append(s.common(o.rank.ID, o.rank.Rank), attribute.Int("process.pid", int(o.rank.ID.PID))))
		}
	}
	for _, o := range s.pools {
		if n, ok := due(&o.open); ok {
			s.piece(spanPool, &o.open, s.parentOf(o.pool.OfRank), n, at, s.poolAttributes(&o.pool, o.told))
			o.told = o.pool
		}
	}
	for _, o := range s.stalls {
		if n, ok := due(&o.open); ok {
			s.exportStall(o, at, max(0, o.stall.Lost-o.told), &n)
			o.pieceFrom, o.told = at, o.stall.Lost
		}
	}
}

// finish exports everything that is still open.
func (s *spans) finish(out *model.Outcome) {
	end := out.EndMono
	if end == 0 {
		end = max(s.last, s.run.StartMono)
	}
	s.begin()
	for _, o := range s.stalls {
		s.endStall(o)
	}
	for key, o := range s.pools {
		s.endPool(key, o, max(end, o.start))
	}
	for _, o := range s.ranks {
		s.endRank(o, max(end, o.start))
	}
	attrs, failed := exitAttributes(s.nodeAttributes(), out.Status)
	if out.StartError != "" {
		failed = "the command could not be started: " + out.StartError
	}
	s.final(spanNode, &s.nodeSpan, s.nodeParent(), end, attrs, failed)
	if s.emitRoot {
		attrs, _ = exitAttributes(s.worldAttributes(nil), out.Status)
		s.final(spanRun, &s.runSpan, s.tracer.parent, end, putString(attrs, "ptlaunch.verdict", out.Verdict), failed)
	}
}

func (s *spans) worldAttributes(kv []attribute.KeyValue) []attribute.KeyValue {
	if s.world > 0 {
		kv = append(kv, attribute.Int("pytorch.world_size", s.world))
	}
	return kv
}

// exitAttributes adds how a process ended, and says why that is a failure, "" when it is none or not known.
func exitAttributes(kv []attribute.KeyValue, st *snapshot.ExitStatus) (_ []attribute.KeyValue, failed string) {
	switch {
	case st == nil:
		return kv, ""
	case st.Signal != 0:
		return append(kv, attribute.Int("process.exit.code", 128+int(st.Signal)), attribute.Int("ptlaunch.exit.signal", int(st.Signal))),
			fmt.Sprintf("killed by signal %d", st.Signal)
	case st.Code != 0:
		return append(kv, attribute.Int("process.exit.code", int(st.Code))), fmt.Sprintf("exit code %d", st.Code)
	}
	return append(kv, attribute.Int("process.exit.code", 0)), ""
}
