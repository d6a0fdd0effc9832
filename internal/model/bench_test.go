package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// BenchmarkAdd is one step of a job at rest in its middle: 8 ranks and their workers.
func BenchmarkAdd(b *testing.B) {
	for _, procs := range []int{137, 1000} {
		b.Run(fmt.Sprint(procs), func(b *testing.B) {
			s := newScript()
			s.start(1, 0, pyInfo(nil, "/usr/bin/torchrun", "train.py"))
			for pid := int32(2); pid < int32(procs); pid++ {
				if pid < 10 {
					s.start(pid, 1, pyInfo(map[string]string{"RANK": fmt.Sprint(pid - 2), "LOCAL_RANK": fmt.Sprint(pid - 2)}, "train.py"))
					continue
				}
				s.start(pid, 2+pid%8, workerInfo())
			}
			f := s.ticks(5)
			raw := *f.Raw
			b.ReportAllocs()
			for b.Loop() {
				next := raw
				next.Procs = append([]snapshot.Proc(nil), raw.Procs...)
				next.Mono += time.Second
				for i := range next.Procs {
					next.Procs[i].At += time.Second
				}
				s.b.Add(&next)
				raw = next
			}
		})
	}
}
