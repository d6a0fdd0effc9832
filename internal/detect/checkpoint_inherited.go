package detect

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// endedWriter is a process that ended, and what it had written.
type endedWriter struct {
	id    snapshot.ProcID
	at    time.Duration
	total uint64
}

// noteEnds remembers what the processes that ended had written: their parents will seem to write it when they reap them.
func (c *checkpoints) noteEnds(f *model.Frame) {
	final := map[snapshot.ProcID]uint64{}
	for i := range f.Raw.Exits {
		if x := &f.Raw.Exits[i]; x.IO != nil {
			final[x.ID] = max(x.IO.WChar, x.IO.WriteBytes)
		}
	}
	for i := range f.Ended {
		id := f.Ended[i].ID
		c.ended = append(c.ended, endedWriter{id, f.Ended[i].At, max(final[id], c.totals[id])})
		delete(c.totals, id)
	}
	for len(c.ended) > 0 && c.ended[0].at < c.now-historyKept {
		c.ended = c.ended[1:]
	}
	for i := range f.Procs {
		if io := f.Procs[i].Raw.IO; io != nil {
			c.totals[f.Procs[i].ID] = max(io.WChar, io.WriteBytes)
		}
	}
}

// inherited is what processes that ended during an episode had written in their lives.
func (c *checkpoints) inherited(e *episode) (sum uint64) {
	for _, x := range c.ended {
		if x.id != e.writer.id && x.at >= e.start-2*time.Second && x.at <= e.lastBusy+2*time.Second {
			sum += x.total
		}
	}
	return sum
}
