package sampler

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// cpu is the CPU time of this process so far.
func cpu(b *testing.B) time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkSampler compares the sampler with its floor: the bare preads of stat, io and schedstat of the same processes. The
// ticks follow one another without waiting, so that a run is short; a tick here is what the sampler does in one interval, the
// wake-ups apart. cpu-ns/tick divided by 10 million is the share of a core at 1 Hz.
func BenchmarkSampler(b *testing.B) {
	for _, size := range [...]struct{ procs, threads int }{{137, 40}, {1000, 4}} {
		b.Run(fmt.Sprintf("%dx%d", size.procs, size.threads), func(b *testing.B) {
			var pids []int
			for range size.procs {
				pids = append(pids, start(b, nil, "threads "+strconv.Itoa(size.threads)).Process.Pid)
			}
			b.Run("floor", func(b *testing.B) { benchFloor(b, pids) })
			b.Run("sampler", func(b *testing.B) { benchTicks(b, os.Getpid()) })
		})
	}
}

// BenchmarkUnrelated is a job of one process beside 1000 that are none of ours.
func BenchmarkUnrelated(b *testing.B) {
	for range 1000 {
		start(b, nil, "threads 1")
	}
	b.Run("sampler", func(b *testing.B) { benchTicks(b, start(b, nil, "threads 1").Process.Pid) })
}

func benchFloor(b *testing.B, pids []int) {
	var fds []int
	for _, pid := range pids {
		for _, file := range [...]string{"stat", "io", "schedstat"} {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, file), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			fds = append(fds, fd)
		}
	}
	buf := make([]byte, 8<<10)
	begin := cpu(b)
	n := 0
	for b.Loop() {
		n++
		for _, fd := range fds {
			if _, err := unix.Pread(fd, buf, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu(b)-begin)/float64(n), "cpu-ns/tick")
}

func benchTicks(b *testing.B, root int) {
	s := open(b, Config{Interval: time.Second, Root: int32(root), RootIsMember: root != os.Getpid()})
	s.SetFast([]snapshot.ProcID{})
	for range 30 { // past the reading of facts, which every process costs once
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.due = s.clock.Now() // the next tick is due at once
	}
	b.ReportAllocs()
	begin := cpu(b)
	n := 0
	for b.Loop() {
		n++
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.due = s.clock.Now()
	}
	b.ReportMetric(float64(cpu(b)-begin)/float64(n), "cpu-ns/tick")
}
