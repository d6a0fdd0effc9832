package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/config"
	"github.com/ptlaunch/ptlaunch/internal/identity"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/sampler/procfs"
)

func newAttach() *cobra.Command {
	c := &cobra.Command{
		Use:   "attach [flags] PID",
		Short: "observe a job that already runs",
		Long: "Observes the process PID and all its descendants from outside until it ends, and prints the same verdict as a\n" +
			"run under ptlaunch. Ctrl-C ends the observation; the job goes on. Counters count from the start of each process,\n" +
			"time from the start of the observation. The trace's identity comes from the environment of PID.",
		Example: "  ptlaunch attach 4711\n  ptlaunch attach --name resnet $(pgrep -o torchrun)",
		Args:    exactly("PID"),
	}
	load := bindConfig(c, "flush-timeout", "interval", "job-id", "log-level", "name", "no-record", "out", "procfs", "quiet",
		"record-limit", "span-rotation", "sysfs", "thresholds")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		pid, err := parsePID(c.Name(), args[0])
		if err != nil {
			return err
		}
		limitSelf()
		o, err := target(cfg, pid)
		if err != nil {
			return err
		}
		interrupts := make(chan os.Signal, 2)
		signal.Notify(interrupts, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		defer signal.Stop(interrupts)
		stop := make(chan struct{})
		defer close(stop)
		o.notices = detachOn(interrupts, stop)
		o.over = targetGone(pid)
		text := observe(context.Background(), o)
		if !cfg.Quiet {
			fmt.Fprint(c.ErrOrStderr(), text)
		}
		return nil
	}
	return c
}

// target describes a running process as a job.
func target(cfg config.Config, pid int32) (observation, error) {
	o := observation{cfg: cfg, version: buildVersion(), attached: true, root: pid, job: pid, budget: cfg.FlushTimeout}
	proc, err := procfs.Open(cfg.Procfs)
	if err != nil {
		return o, fmt.Errorf("attach: open %s: %v", cfg.Procfs, err)
	}
	defer proc.Close()
	var st procfs.Stat
	if err := proc.Stat(pid, &st); err != nil {
		return o, fmt.Errorf("attach: no process %d can be seen in %s: %v", pid, cfg.Procfs, err)
	}
	// Raw on purpose: ids come from their true values. observe redacts what it keeps.
	o.command = rawStrings(proc.PIDPath(pid, "cmdline"))
	o.environ = rawStrings(proc.PIDPath(pid, "environ"))
	id, err := identity.New(o.command, o.environ, cfg.JobID)
	if err != nil {
		return o, err
	}
	o.runID, o.trace = id.RunID, model.Trace(id.Trace)
	o.dir, err = os.Getwd()
	if err != nil {
		o.dir = "/"
	}
	o.start, o.startMono = time.Now(), monotonic()
	return o, nil
}

// rawStrings reads a file of strings that end with NUL, nothing when it cannot be read.
func rawStrings(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	text := strings.TrimRight(string(data), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// detachOn turns the first of the signals into the end of the observation. The goroutine ends with stop.
func detachOn(signals <-chan os.Signal, stop <-chan struct{}) <-chan agent.Notice {
	out := make(chan agent.Notice, 1)
	go func() {
		select {
		case <-signals:
			out <- agent.Notice{Ended: &model.Outcome{End: time.Now(), EndMono: monotonic(), Detached: true}}
		case <-stop:
		}
	}()
	return out
}

// targetGone says whether a frame shows the end of the observed process, and how it ended where the kernel told.
func targetGone(pid int32) func(*model.Frame) (model.Outcome, bool) {
	return func(f *model.Frame) (model.Outcome, bool) {
		for _, e := range f.Ended {
			if e.ID.PID == pid {
				return model.Outcome{End: f.Wall.Add(e.At - f.Mono), EndMono: e.At, Status: e.Status}, true
			}
		}
		return model.Outcome{}, false
	}
}
