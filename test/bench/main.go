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
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	window window
	rounds int
	match  *regexp.Regexp
	flat   time.Duration
	docs   string
}

func main() {
	if len(os.Args) == 3 && !strings.HasPrefix(os.Args[1], "-") { // started again by itself
		pid, err := strconv.Atoi(os.Args[2])
		if err == nil {
			err = observe(os.Args[1], pid)
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	var o options
	flag.DurationVar(&o.window.Settle, "settle", 50*time.Second, "let every tool run for this `time` first: what it does once per process is not measured")
	flag.DurationVar(&o.window.Length, "window", 15*time.Second, "measure each set of tools for this `time`")
	flag.IntVar(&o.rounds, "rounds", 20, "launches, and pairs of runs, per comparison")
	flag.DurationVar(&o.flat, "flat", 0, "watch the agent's memory for this `time` instead, while workers come and go")
	flag.StringVar(&o.docs, "docs", "", "put the result between the markers of this Markdown `file`")
	pattern := flag.String("run", "", "only the parts that match this `regexp`: job, large, crowd, launch")
	flag.Parse()
	var err error
	if o.match, err = regexp.Compile(*pattern); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := benchmark(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is a section of the result and how to get it.
type part struct {
	name string
	run  func(context.Context) (section, error)
}

// benchmark runs the chosen parts and prints what they have found. A part that fails does not end the others.
func benchmark(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "ptbench-")
	if err != nil {
		return fmt.Errorf("make a scratch folder: %v", err)
	}
	defer os.RemoveAll(dir)
	s, err := prepare(ctx, dir)
	if err != nil {
		return err
	}
	s.window, s.rounds = o.window, o.rounds
	parts := []part{
		{"job", s.observers},
		{"large", func(ctx context.Context) (section, error) { return s.larger(ctx, middleJob) }},
		{"large", func(ctx context.Context) (section, error) { return s.larger(ctx, largeJob) }},
		{"crowd", s.crowd},
		{"launch", s.launches},
	}
	if o.flat > 0 {
		parts = []part{{"flat", func(ctx context.Context) (section, error) { return s.flatness(ctx, o.flat) }}}
		o.match = regexp.MustCompile("")
	}
	var sections []section
	var failed []error
	for _, p := range parts {
		if ctx.Err() != nil || !o.match.MatchString(p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", p.name)
		sec, err := p.run(ctx)
		if err != nil {
			failed = append(failed, err)
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		sections = append(sections, sec)
	}
	fmt.Println(machine())
	writeTables(os.Stdout, sections)
	if o.docs != "" {
		failed = append(failed, putIntoDocs(o.docs, machine(), sections))
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// prepare builds everything that is measured.
func prepare(ctx context.Context, dir string) (*suite, error) {
	repo, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find the repository: %v", err)
	}
	s := &suite{repo: strings.TrimSpace(string(repo))}
	s.dir, s.ptlaunch = dir, filepath.Join(dir, "ptlaunch")
	if s.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %v", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", s.ptlaunch, "./cmd/ptlaunch")
	build.Dir = s.repo
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build ptlaunch: %v\n%s", err, out)
	}
	for _, path := range []string{os.Getenv("PTLAUNCH_OTELCOL"), filepath.Join(s.repo, ".cache", "otelcol")} {
		if _, err := os.Stat(path); err == nil && s.otelcol == "" {
			s.otelcol = path
		}
	}
	s.binary, err = buildPopulation(ctx, dir)
	return s, err
}

// machine describes where the figures were taken, and how busy it was.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	model := "unknown CPU"
	if _, rest, ok := strings.Cut(string(cpuinfo), "model name"); ok {
		model, _, _ = strings.Cut(strings.TrimLeft(rest, "\t: "), "\n")
	}
	return fmt.Sprintf("%d CPUs (%s), Linux %s, %s, load average at the end %s.", runtime.NumCPU(), model,
		strings.TrimSpace(string(kernel)), runtime.Version(), strings.Join(strings.Fields(string(load))[:3], ", "))
}

// The result stands between these lines of the documentation.
const (
	docsBegin = "<!-- make bench: begin -->\n"
	docsEnd   = "<!-- make bench: end -->\n"
)

func putIntoDocs(file, machine string, sections []section) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the documentation: %v", err)
	}
	before, rest, ok := strings.Cut(string(old), docsBegin)
	_, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", file, strings.TrimSpace(docsBegin), strings.TrimSpace(docsEnd))
	}
	var b strings.Builder
	b.WriteString(before + docsBegin + "\n" + machine + "\n")
	writeTables(&b, sections)
	b.WriteString("\n" + docsEnd + after)
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the documentation: %v", err)
	}
	return nil
}
