package otelio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// SendConfig is what Send needs.
type SendConfig struct {
	Dir    string // the run folder
	Lookup Lookup // as in Config
	Logger *slog.Logger
	// All sends the files from their beginning, also what an endpoint has taken already.
	All bool
}

// Sent is what Send did.
type Sent struct {
	Requests int      // delivered
	Left     int      // not delivered when the context ended
	Problems []string // one line each, for a person
}

// Send delivers the telemetry of a run folder to the endpoint that the OTEL_* variables name: what the run could not
// deliver, or all of it. What has been delivered is noted in the folder. The files are sent as they are; a run that should
// be judged again by today's rules is replayed into a Sink instead. It returns an error when there is no endpoint, no file,
// or something is left.
func Send(ctx context.Context, cfg SendConfig) (Sent, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var mu sync.Mutex // the senders run side by side
	var out Sent
	set := readSettings(cfg.Lookup, "")
	out.Problems = set.problems
	closing := make(chan struct{})
	close(closing) // nothing is added any more
	d := delivery{dir: cfg.Dir, log: cfg.Logger, closing: closing, problem: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(out.Problems, line) {
			out.Problems = append(out.Problems, line)
		}
	}}
	var spools [numSignals]*spool
	senders, clients := d.senders(set, &spools)
	if len(senders) == 0 {
		return out, errors.New("send run folder: no OTEL_EXPORTER_OTLP_ENDPOINT is set, or it cannot be used")
	}
	saved := readState(cfg.Dir)
	total, files := 0, 0
	for sig, sp := range spools {
		if sp == nil {
			continue
		}
		var from int64
		if !cfg.All {
			from = saved[signal(sig).String()]
		}
		n, err := sp.fill(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		total += n
		files++
	}
	if files == 0 {
		return out, fmt.Errorf("send run folder: no telemetry files in %s", cfg.Dir)
	}
	for _, s := range senders {
		go s.run(ctx)
	}
	for _, s := range senders {
		<-s.done
		left, _, sent := s.spool.state()
		out.Left += left
		saved[s.sig.String()] = max(sent, saved[s.sig.String()])
	}
	for _, c := range clients {
		c.close()
	}
	out.Requests = total - out.Left
	err := writeState(cfg.Dir, saved)
	if text := undelivered(spools, cfg.Dir); text != "" {
		err = errors.Join(errors.New(text), err)
	}
	return out, err
}

// fill puts the lines of the run folder's file from an offset on into the spool.
func (s *spool) fill(from int64) (int, error) {
	f, err := os.Open(filepath.Join(s.dir, s.sig.wire().file))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	entries, _, err := scanLines(f, from)
	if err != nil {
		return 0, fmt.Errorf("read %s: %v", f.Name(), err)
	}
	s.resume(from, entries)
	return len(entries), nil
}
