package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
	"github.com/ptlaunch/ptlaunch/otelio"
)

func newReplay() *cobra.Command {
	var send, asJSON bool
	c := &cobra.Command{
		Use:   "replay [flags] RUN",
		Short: "judge a recorded run again, with today's rules",
		Long: "Takes a run's recording through the same steps as the live run and prints the verdict. The run folder stays\n" +
			"as it is.\n\n" + runHelp,
		Example: "  ptlaunch replay latest\n  ptlaunch replay --thresholds mine.json --json latest\n" +
			"  OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317 ptlaunch replay --otlp latest",
		Args: exactly("RUN"),
	}
	c.Flags().BoolVar(&send, "otlp", false, "send metrics and spans to the endpoint of the OTEL_* variables")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	load := bindConfig(c, "out", "thresholds", "flush-timeout", "span-rotation")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if send && !endpointSet() {
			return usageError{errors.New("replay: --otlp needs an endpoint: set OTEL_EXPORTER_OTLP_ENDPOINT")}
		}
		dir, err := runfolder.Find(cfg.Out, args[0])
		if err != nil {
			return err
		}
		r := replay{dir: dir, budget: max(cfg.FlushTimeout, sendBudget), rotation: cfg.SpanRotation, send: send}
		if cfg.Thresholds != "" {
			t, err := loadThresholds(cfg.Thresholds, ".")
			if err != nil {
				return err
			}
			r.thresholds = &t
		}
		var notes []string
		if send && r.thresholds == nil {
			sent, err := sendLeft(c.Context(), dir)
			if err != nil {
				return err
			}
			if sent > 0 {
				r.send = false // the endpoint has the rest already
				notes = append(notes, fmt.Sprintf("Sent what the run could not deliver: %d OTLP requests.", sent))
			}
		}
		doc, more, err := r.run(c.Context())
		if err != nil {
			return err
		}
		notes = append(notes, more...)
		if asJSON {
			data, err := doc.Encode()
			if err == nil {
				_, err = c.OutOrStdout().Write(data)
			}
			return err
		}
		fmt.Fprint(c.OutOrStdout(), report.Text(doc, report.TextOptions{Notes: notes}))
		return nil
	}
	return c
}

// sendBudget is how long a replay may take to deliver: nothing waits for it but a person.
const sendBudget = time.Minute

// sendLeft sends what the live run could not deliver, as it was, and says how many requests that were: 0 when the endpoint had
// got everything, or nothing of the run was kept to be sent.
func sendLeft(ctx context.Context, dir string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sendBudget)
	defer cancel()
	sent, err := otelio.Send(ctx, otelio.SendConfig{Dir: dir, Lookup: os.LookupEnv})
	if err != nil && (sent.Requests > 0 || sent.Left > 0) {
		return sent.Requests, err
	}
	return sent.Requests, nil
}

// endpointSet says whether a variable names where to send.
func endpointSet() bool {
	for _, signal := range [...]string{"", "TRACES_", "METRICS_", "LOGS_"} {
		if os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"ENDPOINT") != "" {
			return true
		}
	}
	return false
}

// replay is a recorded run to be judged again.
type replay struct {
	dir        string
	thresholds *detect.Thresholds // nil: those of the run
	budget     time.Duration
	rotation   time.Duration
	send       bool
}

func (r replay) run(ctx context.Context) (*report.Document, []string, error) {
	m, err := runfolder.Read(r.dir)
	if err != nil {
		return nil, nil, err
	}
	reader, err := snapshot.NewReader(filepath.Join(r.dir, runfolder.RecordingName))
	if err != nil {
		return nil, nil, fmt.Errorf("replay %s: %v", r.dir, err)
	}
	defer reader.Close()
	run, offset := m.Run(""), m.BootOffset
	p := plan{
		run: run, bootOffset: offset, thresholds: r.rules(m), log: slog.New(slog.DiscardHandler),
		source: reader, budget: r.budget, blind: func() []string { return m.Blind },
	}
	var otel *otelio.Sink
	if r.send {
		otel, err = otelio.New(ctx, otelio.Config{Run: run, Lookup: os.LookupEnv, SpanRotation: r.rotation, Wait: true})
		if err != nil {
			return nil, nil, fmt.Errorf("open OpenTelemetry: %v", err)
		}
		p.sinks = []agent.Sink{otel}
	}
	a, recorder, err := compose(p)
	if err != nil {
		return nil, nil, err
	}
	a.Now = nil // the clock of the recording is another one
	if outcome, ok := m.Outcome(); ok {
		a.Recorded = &outcome
	}
	result := a.Run(ctx)
	notes := append([]string(nil), result.Undelivered...)
	if otel != nil {
		notes = append(notes, otel.Problems()...)
	}
	for _, d := range reader.Damage() {
		notes = append(notes, "The recording is damaged: "+d+".")
	}
	return recorder.Document(), notes, nil
}

// rules are the thresholds to judge by. A recorded set that cannot be read was written by another version: today's own then.
func (r replay) rules(m *runfolder.Manifest) detect.Thresholds {
	if r.thresholds != nil {
		return *r.thresholds
	}
	if len(m.Thresholds) == 0 {
		return detect.Default()
	}
	return parseThresholds(m.Thresholds)
}

// rebuild makes a report from the recording: of a run whose agent was killed, or that still runs.
func rebuild(dir string) (*report.Document, []byte, error) {
	doc, _, err := replay{dir: dir, budget: time.Second}.run(context.Background())
	if err != nil {
		return nil, nil, err
	}
	data, err := doc.Encode()
	return doc, data, err
}

// writeCSV prints the recording as rows of figures.
func writeCSV(w io.Writer, dir string) error {
	m, err := runfolder.Read(dir)
	if err != nil {
		return err
	}
	reader, err := snapshot.NewReader(filepath.Join(dir, runfolder.RecordingName))
	if err != nil {
		return fmt.Errorf("read the recording of %s: %v", dir, err)
	}
	defer reader.Close()
	builder := model.NewBuilder(model.BuilderConfig{Root: m.Root, BootOffset: m.BootOffset})
	rows := report.NewCSV(w, m.Start, m.StartMono)
	for {
		snap, err := reader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return rows.Flush()
		}
		if err != nil {
			return fmt.Errorf("read the recording of %s: %v", dir, err)
		}
		if err := rows.Add(builder.Add(snap)); err != nil {
			return err
		}
	}
}
