package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// cost is what a tool used in a window.
type cost struct {
	Name      string
	Core      float64       // of one core: 0.01 is 1 %
	RSS       int64         // bytes, at the end of the window
	PerSample time.Duration // CPU time per process and sample
	Missing   error         // why there are no figures, nil when there are
}

// window is how long to wait, and how long to measure then.
type window struct {
	Settle, Length time.Duration
}

// observation is a set of tools that observe one population.
type observation struct {
	of    *population
	tools []*tool
	gone  []error // by tool: why there is nothing to measure
}

// observeWith starts tools and lets them settle. One that cannot be started is named and left out.
func observeWith(ctx context.Context, settle time.Duration, p *population, list []*tool) (*observation, error) {
	o := &observation{of: p, tools: list, gone: make([]error, len(list))}
	for i, t := range list {
		if err := t.start(); err != nil {
			o.gone[i] = err
			fmt.Fprintln(os.Stderr, "bench:", err)
			continue
		}
		// Not all in the same instant of each second.
		if err := pause(ctx, 170*time.Millisecond); err != nil {
			o.end()
			return nil, err
		}
	}
	if err := pause(ctx, settle); err != nil {
		o.end()
		return nil, err
	}
	return o, nil
}

func (o *observation) end() {
	for i, t := range o.tools {
		if o.gone[i] == nil && t.ended != nil {
			t.end()
		}
	}
}

// reading is what a tool had used and done at one moment.
type reading struct {
	usage
	at     time.Time
	rounds int
}

func (o *observation) read(i int) (r reading) {
	t := o.tools[i]
	if o.gone[i] != nil {
		return r
	}
	var err error
	if r.usage, err = readUsage(t.cmd.Process.Pid); err != nil {
		o.gone[i] = fmt.Errorf("%s has ended by itself", t.name)
		fmt.Fprintln(os.Stderr, "bench:", o.gone[i])
	}
	r.at = time.Now()
	if t.rounds != nil {
		r.rounds = t.rounds()
	}
	return r
}

// measure returns what each of the tools uses in a window that begins now.
func (o *observation) measure(ctx context.Context, length time.Duration) ([]cost, error) {
	before := make([]reading, len(o.tools))
	for i := range o.tools {
		before[i] = o.read(i)
	}
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	machine := countProcesses()
	costs := make([]cost, len(o.tools))
	for i, t := range o.tools {
		after := o.read(i)
		costs[i] = cost{Name: t.name, Missing: o.gone[i]}
		if o.gone[i] != nil {
			continue
		}
		seconds, used := after.at.Sub(before[i].at).Seconds(), after.CPU-before[i].CPU
		samples, processes := seconds, float64(o.of.shape.Processes())
		if t.rounds != nil {
			samples = float64(after.rounds - before[i].rounds)
		}
		if t.whole {
			processes = float64(machine)
		}
		costs[i].Core, costs[i].RSS = used.Seconds()/seconds, after.RSS
		if samples > 0 {
			costs[i].PerSample = time.Duration(float64(used) / samples / processes)
		}
	}
	return costs, nil
}

// measure is a whole observation: tools started, settled, measured in one window, ended.
func measure(ctx context.Context, w window, p *population, list []*tool) ([]cost, error) {
	o, err := observeWith(ctx, w.Settle, p, list)
	if err != nil {
		return nil, err
	}
	defer o.end()
	return o.measure(ctx, w.Length)
}
