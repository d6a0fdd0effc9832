package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// launcher is a way to start a command: bare, or behind something.
type launcher struct {
	name string
	args []string // before the command
}

// launchers are the ways to compare, the bare one first.
func (b tools) launchers(ctx context.Context, repo string) ([]launcher, error) {
	list := []launcher{{name: "bare"}}
	if tini, err := exec.LookPath("tini"); err == nil {
		list = append(list, launcher{"tini", []string{tini, "-s", "--"}})
	}
	wrapper := filepath.Join(b.dir, "wrapper")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", wrapper, "./test/bench/wrapper")
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the minimal wrapper: %v\n%s", err, out)
	}
	return append(list, launcher{"minimal Go wrapper", []string{wrapper}},
		launcher{"ptlaunch", []string{b.ptlaunch, "--quiet", "--no-record", "--"}}), nil
}

func (l launcher) command(ctx context.Context, argv ...string) *exec.Cmd {
	argv = append(slices.Clone(l.args), argv...)
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

// startTimes measures, in turns, how long after the launcher's start the job's first instruction comes.
func startTimes(ctx context.Context, list []launcher, job string, rounds int) (map[string][]time.Duration, error) {
	out := map[string][]time.Duration{}
	for range rounds {
		for _, l := range list {
			cmd := l.command(ctx, job, "stamp")
			begin := monotonic()
			text, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("start a job (%s): %v", l.name, err)
			}
			at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("start a job (%s): it said %q", l.name, text)
			}
			out[l.name] = append(out[l.name], time.Duration(at)-begin)
		}
	}
	return out, nil
}

// speed is how a job's own time under ptlaunch compares to its time without, in pairs of runs one after the other.
type speed struct {
	Wall, CPU []float64 // ratios, sorted
}

// ownSpeed runs pairs of a job that does a given kind of work ("cpu" or "io"), the order changing from pair to pair.
func ownSpeed(ctx context.Context, bare, with launcher, job []string, pairs int) (speed, error) {
	var s speed
	for i := range pairs {
		order := []launcher{bare, with}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		wall, cpu := map[string]float64{}, map[string]float64{}
		for _, l := range order {
			text, err := l.command(ctx, job...).Output()
			if err != nil {
				return s, fmt.Errorf("run a job (%s): %v", l.name, err)
			}
			var w, c float64
			if _, err := fmt.Sscan(string(text), &w, &c); err != nil {
				return s, fmt.Errorf("run a job (%s): it said %q", l.name, text)
			}
			wall[l.name], cpu[l.name] = w, c
		}
		s.Wall = append(s.Wall, wall[with.name]/wall[bare.name])
		s.CPU = append(s.CPU, cpu[with.name]/cpu[bare.name])
	}
	slices.Sort(s.Wall)
	slices.Sort(s.CPU)
	return s, nil
}

// supervisorRSS is what the process holds that stays between the user and the job.
func supervisorRSS(ctx context.Context, l launcher) (int64, error) {
	cmd := l.command(ctx, "sleep", "4")
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a job: %v", err)
	}
	defer func() { _ = cmd.Wait() }()
	if err := pause(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	u, err := readUsage(cmd.Process.Pid)
	return u.RSS, err
}

// quantile of sorted values.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// monotonic is CLOCK_MONOTONIC, the clock that the population's stamp shows.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: the clock exists and ts is ours
	return time.Duration(ts.Nano())
}
