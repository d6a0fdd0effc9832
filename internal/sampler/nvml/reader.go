package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/latest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// failedBeat is how often a device that failed is asked again.
const failedBeat = 10 * time.Second

// Options are the settings of a Reader. The zero value is good.
type Options struct {
	// Deadline is how long a reading of one device may take before it is stale; 2 s when 0.
	Deadline time.Duration
	// OpenDeadline is the same for loading the library, which wakes sleeping GPUs; 10 s when 0.
	OpenDeadline time.Duration
	// Log takes one line when GPUs are there and cannot be read. nil: nothing is logged.
	Log *slog.Logger
}

// Reader reads all devices.
type Reader struct {
	driver  Driver
	options Options
	open    *latest.Latest[[]Device]
	started bool
	warned  bool
	devices []*device
}

type device struct {
	Device
	box   *latest.Latest[Figures]
	asked time.Duration
}

// New returns a reader. Nothing is loaded before the first Read, and not by it either: that happens beside it.
func New(driver Driver, options Options) *Reader {
	if options.Deadline == 0 {
		options.Deadline = 2 * time.Second
	}
	if options.OpenDeadline == 0 {
		options.OpenDeadline = 10 * time.Second
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reader{driver: driver, options: options}
	r.open = latest.New(options.OpenDeadline, func(context.Context) ([]Device, error) { return driver.Open() })
	return r
}

// Read fills s.GPUs with what is known, and asks for the next. Gaps: "nvml" for the whole, "nvml.device" for a device that
// does not answer, "nvml.FIGURE" for a figure that devices do not give.
func (r *Reader) Read(now time.Duration, s *snapshot.Snapshot) {
	if !r.started {
		r.started = true
		r.open.Ask()
	}
	if r.devices == nil && !r.opened(s) {
		return
	}
	missing := map[string]map[snapshot.GapReason][]string{}
	for _, d := range r.devices {
		s.GPUs = append(s.GPUs, d.read(now, s, missing))
	}
	s.Gaps = append(s.Gaps, gapsOf(missing)...)
}

// opened reports whether the library is there, and says why not.
func (r *Reader) opened(s *snapshot.Snapshot) bool {
	o := r.open.Reading()
	switch {
	case o.Stale:
		r.warnOnce("the NVIDIA driver does not answer: no GPU figures so far", nil)
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "nvml", Reason: snapshot.GapTimeout,
			Detail: fmt.Sprintf("loading the driver's library has been taking %.0f s", o.Waiting.Seconds())})
	case o.Err != nil:
		if !quiet(o.Err) {
			r.warnOnce("GPUs cannot be read: the run goes on without their figures", o.Err)
		}
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "nvml", Reason: reason(o.Err), Detail: o.Err.Error()})
	case o.OK:
		r.devices = []*device{} // none is an answer too
		for _, d := range o.Value {
			n := &device{Device: d}
			if d.Err == nil {
				n.box = latest.New(r.options.Deadline, func(context.Context) (Figures, error) { return d.Read() })
			}
			r.devices = append(r.devices, n)
		}
		return true
	}
	return false
}

// quiet reports whether an error only says that this machine has no NVIDIA GPUs, or this build no way to see them.
func quiet(err error) bool {
	return errors.Is(err, CodeLibraryNotFound) || errors.Is(err, CodeDriverNotLoaded) || errors.Is(err, ErrNoCgo)
}

func (r *Reader) warnOnce(text string, err error) {
	if r.warned {
		return
	}
	r.warned = true
	if err != nil {
		r.options.Log.Warn(text, "error", err)
		return
	}
	r.options.Log.Warn(text)
}

// read returns what is known of one device and asks for the next reading.
func (d *device) read(now time.Duration, s *snapshot.Snapshot, missing map[string]map[snapshot.GapReason][]string) snapshot.GPU {
	var reading latest.Reading[Figures]
	err := d.Err
	if d.box != nil {
		reading = d.box.Reading()
		err = reading.Err
	}
	g := reading.Value.GPU
	if err != nil {
		g = snapshot.GPU{} // the last figures are no longer true
	}
	g.UUID, g.Index, g.Minor, g.Name, g.MIG, g.Parent = d.UUID, d.Index, d.Minor, d.Name, d.MIG, d.Parent
	g.At, g.Stale, g.Lost = reading.At, reading.Stale, lost(err)
	label := fmt.Sprintf("GPU %d", d.Index)
	if d.MIG {
		label = d.UUID
	}
	switch {
	case g.Stale:
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "nvml.device", Reason: snapshot.GapTimeout,
			Detail: fmt.Sprintf("%s: the driver has not answered for %.0f s", label, reading.Waiting.Seconds())})
	case err != nil:
		s.Gaps = append(s.Gaps, snapshot.Gap{Source: "nvml.device", Reason: reason(err), Detail: fmt.Sprintf("%s: %v", label, err)})
	default:
		for name, err := range reading.Value.Missing {
			if missing[name] == nil {
				missing[name] = map[snapshot.GapReason][]string{}
			}
			missing[name][reason(err)] = append(missing[name][reason(err)], fmt.Sprintf("%s: %v", label, err))
		}
	}
	// A driver that is slow is asked less often: at most a tenth of one thread is spent in it. One that fails is too: each
	// failing call may wait for a time-out in the kernel.
	beat := 10 * reading.Value.Took
	if err != nil {
		beat = failedBeat
	}
	if d.box != nil && (d.asked == 0 || now-d.asked >= beat) && d.box.Ask() {
		d.asked = max(now, 1)
	}
	return g
}

// gapsOf makes one gap per figure and reason, whatever the number of devices.
func gapsOf(missing map[string]map[snapshot.GapReason][]string) []snapshot.Gap {
	var gaps []snapshot.Gap
	for name, reasons := range missing {
		for why, details := range reasons {
			detail := details[0]
			if n := len(details) - 1; n > 0 {
				detail += fmt.Sprintf(", and %d more", n)
			}
			gaps = append(gaps, snapshot.Gap{Source: "nvml." + name, Reason: why, Detail: detail})
		}
	}
	slices.SortFunc(gaps, func(a, b snapshot.Gap) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Reason, b.Reason))
	})
	return gaps
}

// Close ends the mailboxes, all at the same time, and then the library, unless a call is still in it: then its thread and
// the library are left as they are.
func (r *Reader) Close() error {
	errs := make([]error, len(r.devices)+1)
	var wait sync.WaitGroup
	wait.Go(func() { errs[len(r.devices)] = closeOpen(r.open, r.options.Deadline) })
	for i, d := range r.devices {
		if d.box != nil {
			wait.Go(func() { errs[i] = d.box.Close() })
		}
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil || len(r.devices) == 0 {
		return err
	}
	// The shutdown may hang as any call may.
	bye := latest.New(r.options.Deadline, func(context.Context) (struct{}, error) { return struct{}{}, r.driver.Close() })
	bye.Ask()
	deadline := time.Now().Add(r.options.Deadline)
	for bye.Reading().Waiting != 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	return errors.Join(bye.Close(), bye.Reading().Err)
}

// closeOpen ends the loading. Its own deadline is long, which an exit must not wait for.
func closeOpen(open *latest.Latest[[]Device], most time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- open.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(most):
		return latest.ErrBusy
	}
}
