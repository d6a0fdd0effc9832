package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ptlaunch/ptlaunch/internal/doctor"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
)

// examination is the doctor's look at the machine, taken beside the start of the run: a GPU driver may be slow to answer.
type examination struct {
	found  atomic.Pointer[[]string]
	once   sync.Once
	told   []string
	cancel context.CancelFunc
	done   chan struct{}
}

func examine(ctx context.Context, o observation) *examination {
	ctx, cancel := context.WithCancel(ctx)
	e := &examination{cancel: cancel, done: make(chan struct{})}
	options := doctor.Options{
		Procfs: o.cfg.Procfs, Sysfs: o.cfg.Sysfs, PID: o.job, GPUs: nvml.Library(""),
		Env: func(name string) string { v, _ := lookup(o.launchEnv)(name); return v },
	}
	go func() {
		defer close(e.done)
		blind := doctor.Caveats(doctor.Examine(ctx, options))
		e.found.Store(&blind)
	}()
	return e
}

// blind is what had been found when it was asked first: the report and the manifest must not differ.
func (e *examination) blind() []string {
	e.once.Do(func() {
		if found := e.found.Load(); found != nil {
			e.told = *found
		}
	})
	return e.told
}

func (e *examination) close() {
	e.cancel()
	<-e.done
}
