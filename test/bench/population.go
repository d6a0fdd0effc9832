package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed population/population.c
var populationSource []byte

// shape is a job's processes.
type shape struct {
	Ranks, Workers, Threads int
	Period, Churn           time.Duration // between two I/Os of a process; between two generations of workers, 0 for never
}

// Processes is how many the job has: its root, the ranks, and their workers.
func (s shape) Processes() int { return 1 + s.Ranks*(1+s.Workers) }

func (s shape) String() string { return fmt.Sprintf("%d × %d", s.Processes(), s.Threads) }

// buildPopulation compiles the job. Its name begins with python, because that is what ptlaunch looks for.
func buildPopulation(ctx context.Context, dir string) (string, error) {
	source, binary := filepath.Join(dir, "population.c"), filepath.Join(dir, "python3-population")
	if err := os.WriteFile(source, populationSource, 0o644); err != nil {
		return "", fmt.Errorf("write the population's source: %v", err)
	}
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-pthread", "-o", binary, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the population: %v\n%s", err, out)
	}
	return binary, nil
}

// population is a running job.
type population struct {
	shape shape
	cmd   *exec.Cmd
	dir   string
}

// startPopulation starts a job and waits until all of its processes and threads are there.
func startPopulation(ctx context.Context, binary string, s shape) (*population, error) {
	dir, err := os.MkdirTemp(filepath.Dir(binary), "files-")
	if err != nil {
		return nil, fmt.Errorf("make the population's folder: %v", err)
	}
	cmd := exec.Command(binary, "root", strconv.Itoa(s.Ranks), strconv.Itoa(s.Workers), strconv.Itoa(s.Threads),
		strconv.FormatInt(s.Period.Milliseconds(), 10), strconv.FormatInt(s.Churn.Milliseconds(), 10), dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the population: %v", err)
	}
	p := &population{shape: s, cmd: cmd, dir: dir}
	for deadline := time.Now().Add(time.Minute); len(p.pids()) < s.Processes(); {
		if time.Now().After(deadline) || ctx.Err() != nil {
			n := len(p.pids())
			p.stop()
			return nil, fmt.Errorf("start the population: %d of %d processes after a minute", n, s.Processes())
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, pause(ctx, time.Second) // for the threads
}

func (p *population) pid() int { return p.cmd.Process.Pid }

// pids lists the job's processes, its root among them: they are in no other way alike than by their open folder, so the
// command line tells.
func (p *population) pids() []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(line), p.dir+"\x00") {
			out = append(out, filepath.Base(dir))
		}
	}
	return out
}

// stop ends the job. The children die with their parents.
func (p *population) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	for range 100 {
		if len(p.pids()) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = os.RemoveAll(p.dir)
}

// pause sleeps, or returns the context's error when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
