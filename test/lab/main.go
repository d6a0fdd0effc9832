package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/ptlaunch/ptlaunch/test/torchenv"
)

type options struct {
	match *regexp.Regexp
	bare  bool   // run the jobs without ptlaunch
	keep  string // folder to keep the recordings in, "" for none
	docs  string // Markdown file to write, "" for none
	judge string // folder of kept recordings to judge instead of running anything, "" to run
	times int    // how often to run each scenario
}

func main() {
	var (
		o       options
		pattern = flag.String("run", "", "only the scenarios that match this `regexp`")
		list    = flag.Bool("list", false, "print the scenarios and do nothing")
	)
	flag.BoolVar(&o.bare, "bare", false, "run the jobs without ptlaunch and print what their logs say")
	flag.StringVar(&o.keep, "keep", "", "keep each scenario's recording and truth below this `folder`")
	flag.StringVar(&o.judge, "judge", "", "run nothing: judge the recordings that -keep has kept below this `folder`")
	flag.StringVar(&o.docs, "docs", "", "write the result as Markdown to this `file`")
	flag.IntVar(&o.times, "times", 1, "how often to run each scenario")
	flag.Parse()
	var err error
	if o.match, err = regexp.Compile("^(?:" + *pattern + ")$"); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(2)
	}
	if *pattern == "" {
		o.match = regexp.MustCompile("")
	}
	if *list {
		for _, s := range scenarios() {
			fmt.Println(s.Name)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := laboratory(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// laboratory runs the chosen scenarios one after the other and reports them all. A scenario that fails does not end it.
func laboratory(ctx context.Context, o options) error {
	python, err := torchenv.Python()
	if err != nil {
		return err
	}
	repo, err := output("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	if o.judge != "" {
		scores, err := judgeKept(o)
		return errors.Join(err, publish(o, scores, python))
	}
	bench := bench{python: python, repo: repo, keep: o.keep}
	if !o.bare {
		tmp, err := os.MkdirTemp("", "ptlab-bin-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		bench.ptlaunch = filepath.Join(tmp, "ptlaunch")
		build := exec.CommandContext(ctx, "go", "build", "-o", bench.ptlaunch, "./cmd/ptlaunch")
		build.Dir, build.Stderr = repo, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build ptlaunch: %v", err)
		}
	}
	var scores []Score
	var failed []error
	for _, s := range scenarios() {
		for range o.times {
			if ctx.Err() != nil || !o.match.MatchString(s.Name) {
				break
			}
			fmt.Fprintf(os.Stderr, "lab: %s\n", s.Name)
			got, err := bench.scenario(ctx, s)
			if err != nil {
				fmt.Fprintln(os.Stderr, "lab:", err)
				failed = append(failed, err)
			}
			writeTable(os.Stderr, got) // so that an interrupted laboratory was not for nothing
			scores = append(scores, got...)
		}
	}
	return errors.Join(append(failed, publish(o, scores, python), ctx.Err())...)
}

// publish prints the scores, and writes them to the Markdown file.
func publish(o options, scores []Score, python string) error {
	if len(scores) > 0 {
		writeTable(os.Stdout, scores)
	}
	if o.docs == "" {
		return nil
	}
	f, err := os.Create(o.docs)
	if err != nil {
		return err
	}
	writeMarkdown(f, scores, machine(python))
	return f.Close()
}

// judgeKept judges the kept recordings with today's rules.
func judgeKept(o options) ([]Score, error) {
	var all []Score
	for _, s := range scenarios() {
		run := filepath.Join(o.judge, s.Name)
		if _, err := os.Stat(run); err != nil || !o.match.MatchString(s.Name) {
			continue
		}
		truth, err := ReadTruth(filepath.Join(run, "truth"))
		if err != nil {
			return all, err
		}
		scores, err := judgeRecording(s, truth, run)
		if err != nil {
			return all, err
		}
		all = append(all, scores...)
	}
	return all, nil
}

// machine describes where the figures were taken.
func machine(python string) string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	torch, _ := exec.Command(python, "-c", "import torch, platform; print('PyTorch', torch.__version__, 'on Python', platform.python_version())").Output()
	return fmt.Sprintf("%d CPUs, Linux %s, %s, no GPU", runtime.NumCPU(), strings.TrimSpace(string(kernel)), strings.TrimSpace(string(torch)))
}
