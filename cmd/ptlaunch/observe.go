package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/config"
	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// observation is a job to observe, started by us or not.
type observation struct {
	cfg        config.Config
	command    []string // raw: redacted before it goes anywhere
	environ    []string // of the launch, or of the target of an attach: tells where the run belongs
	launchEnv  []string // where the OTEL_* variables are; nil for our own
	dir        string   // the job's working directory: --out and --thresholds are relative to it
	runID      string
	trace      model.Trace
	start      time.Time
	startMono  time.Duration
	generation int
	version    string
	attached   bool

	root      int32 // discovery is rooted here
	job       int32 // the job's first process, 0 when it could not be started
	unstarted string

	notices <-chan agent.Notice
	over    func(*model.Frame) (model.Outcome, bool)
	budget  time.Duration
}

// observe does the whole work on one job, and returns what to print.
func observe(ctx context.Context, o observation) string {
	run := o.run()
	var notes []string
	folder, err := o.openFolder(run)
	switch {
	case err != nil:
		notes = append(notes, "Nothing could be kept: "+err.Error()+".")
	case folder != nil && folder.Trouble != "":
		notes = append(notes, folder.Trouble+": the run is in "+folder.Path+".")
	}
	log, closeLog := openLog(folder, o.cfg.LogLevel)
	defer closeLog()
	log.Info("observing", "run", run.ID, "name", run.Name, "job", o.job, "agent", o.generation, "version", o.version)
	thresholds, err := loadThresholds(o.cfg.Thresholds, o.dir)
	if err != nil {
		notes = append(notes, "The default thresholds were used: "+err.Error()+".")
		log.Error("read the thresholds", "err", err)
	}

	k := &keeper{folder: folder, log: log}
	if folder != nil {
		run.Dir = folder.Path
	}
	offset := bootOffset()
	k.begin(&run, o, offset, thresholds)

	exam := examine(ctx, o)
	defer exam.close()
	live := openSource(o, log)
	recorded, err := startRecording(folder, o, live.meter, log)
	if err != nil {
		notes = append(notes, "The run is not recorded: "+err.Error()+".")
		log.Error("start the recording", "err", err)
	}
	sinks := openSinks(ctx, o, run, log)
	notes = append(notes, sinks.notes...)

	a, recorder, err := compose(plan{
		run: run, bootOffset: offset, thresholds: thresholds, log: log,
		source: recorded, resume: recorded.resumed(), sinks: append(live.sinks(thresholds, log), sinks.list...), saveReport: k.saveReport(), blind: exam.blind,
		notices: o.withStartError(), over: o.over, budget: o.budget,
	})
	if err != nil {
		log.Error("compose", "err", err)
		return ""
	}
	result := a.Run(ctx)
	if !result.SourceHangs { // else both are still in use, and the end of the process releases them
		notes = append(notes, recorded.close(log)...)
		live.close()
	}
	k.end(result.Outcome, exam.blind())
	notes = append(notes, sinks.problems(result.Undelivered)...)
	log.Info("done", "frames", result.Frames, "verdict", result.Outcome.Verdict)
	return report.Text(recorder.Document(), report.TextOptions{Path: k.shownReport(), Notes: notes})
}

// run gathers what does not change during the run.
func (o observation) run() model.Run {
	host, _ := os.Hostname()
	name := o.cfg.Name
	if name == "" {
		name = model.CommandName(o.command)
	}
	run := model.Run{
		ID: o.runID, Name: name, Command: procfs.RedactArgs(o.command), Version: o.version, Host: host, Attached: o.attached,
		Start: o.start, StartMono: o.startMono, Trace: o.trace,
		Env: procfs.ParseEnviron([]byte(strings.Join(o.environ, "\x00"))),
	}
	if o.job != 0 {
		run.Root = processID(o.cfg.Procfs, o.job)
	}
	return run
}

// processID names a process that may be gone already: then only its pid is known.
func processID(procRoot string, pid int32) snapshot.ProcID {
	id := snapshot.ProcID{PID: pid}
	fs, err := procfs.Open(procRoot)
	if err != nil {
		return id
	}
	defer fs.Close()
	var st procfs.Stat
	if fs.Stat(pid, &st) == nil {
		id.StartTicks = st.StartTicks
	}
	return id
}

// openFolder makes the run folder; nil with --no-record.
func (o observation) openFolder(run model.Run) (*runfolder.Folder, error) {
	if o.cfg.NoRecord {
		return nil, nil
	}
	return runfolder.Open(runfolder.Place{Dir: o.dir, Out: o.cfg.Out, Name: run.Name, RunID: run.ID, Start: run.Start})
}

// withStartError completes the outcome of a command that could not be started: the supervisor tells it as an exit.
func (o observation) withStartError() <-chan agent.Notice {
	if o.unstarted == "" {
		return o.notices
	}
	out := make(chan agent.Notice, 1)
	go func() {
		defer close(out)
		for n := range o.notices {
			if n.Ended != nil {
				n.Ended.StartError = o.unstarted
			}
			out <- n
		}
	}()
	return out
}

// keeper writes what a run folder holds beside the recording. Without a folder it does nothing.
type keeper struct {
	folder   *runfolder.Folder
	manifest *runfolder.Manifest
	log      *slog.Logger
	saved    bool
}

// begin writes the manifest. A restarted agent takes over the one it finds: the job's first process may be gone by now, and
// the manifest knows it.
func (k *keeper) begin(run *model.Run, o observation, offset time.Duration, thresholds detect.Thresholds) {
	if k.folder == nil {
		return
	}
	k.manifest = runfolder.New(*run)
	if old, err := runfolder.Read(k.folder.Path); err == nil && old.RunID == run.ID {
		k.manifest = old
		k.manifest.Agents = o.generation + 1
		run.Root = old.Root
	}
	k.manifest.Dir, k.manifest.Config, k.manifest.BootOffset = o.dir, o.cfg.Map(), offset
	if data, err := json.Marshal(thresholds); err == nil {
		k.manifest.Thresholds = data
	}
	k.write()
}

func (k *keeper) end(outcome model.Outcome, blind []string) {
	if k.folder == nil {
		return
	}
	k.manifest.Blind = blind
	k.manifest.SetOutcome(outcome)
	k.write()
}

func (k *keeper) write() {
	if err := k.manifest.Write(k.folder.Path); err != nil {
		k.log.Error("write the manifest", "err", err)
	}
}

func (k *keeper) saveReport() func([]byte) error {
	if k.folder == nil {
		return nil
	}
	return func(data []byte) error {
		err := runfolder.WriteFile(filepath.Join(k.folder.Path, runfolder.ReportName), data)
		k.saved = err == nil
		return err
	}
}

// shownReport is the report's path for a person, "" when there is none.
func (k *keeper) shownReport() string {
	if k.folder == nil || !k.saved {
		return ""
	}
	return filepath.Join(k.folder.Shown, runfolder.ReportName)
}
