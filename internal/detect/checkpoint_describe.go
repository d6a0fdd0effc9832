package detect

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// place finds the file system.
func (c *checkpoints) place(e *episode, f *model.Frame) {
	if f.Raw == nil || len(e.files) == 0 {
		return
	}
	r := e.files[0]
	var best *snapshot.Mount
	for i := range f.Raw.Mounts {
		m := &f.Raw.Mounts[i]
		if r.mount != 0 && m.ID == r.mount {
			best = m
			break
		}
		under := m.Mountpoint == "/" || strings.HasPrefix(r.name(), strings.TrimSuffix(m.Mountpoint, "/")+"/")
		if under && (best == nil || len(m.Mountpoint) > len(best.Mountpoint)) {
			best = m
		}
	}
	if best != nil {
		e.cp.FSType, e.cp.Mountpoint, e.cp.Device = best.FSType, best.Mountpoint, best.Device
		if best.Space != nil {
			e.full = best.Space.Available < 1<<20 || best.Space.Files > 0 && best.Space.FilesFree == 0
		}
	}
}

// durable says whether the data was on disk at the end: synced, written around the cache, or written back already. nil when
// none of it was seen, and when nothing of it can be (a file system in memory, or beyond this machine).
func (c *checkpoints) durable(e *episode) *bool {
	yes, no := true, false
	synced := e.synced > 0
	for _, r := range e.files {
		synced = synced || r.synced
	}
	switch {
	case synced:
		return &yes
	case e.cp.FSType == "tmpfs":
		return &no
	case !c.hasDirty || e.cp.Device == "" && e.cp.FSType != "":
		return nil
	case float64(c.dirty) > float64(e.dirtyBefore)+float64(e.size())/2:
		return &no
	}
	return nil
}

// cutShort says why a write did not complete.
func (c *checkpoints) cutShort(e *episode) string {
	if e.full {
		return "the file system is full"
	}
	if e.end == nil {
		return ""
	}
	near := seconds(c.t.CutShortSeconds)
	open := e.filesEnd() == 0 || e.filesEnd() > e.end.At-near/10
	if !open || e.end.At-e.lastBusy > near {
		return ""
	}
	prev, known := c.prevSize[c.key(e)]
	if known && e.size() >= prev*95/100 {
		return ""
	}
	how := "its writer ended"
	switch st := e.end.Status; {
	case st != nil && st.Signal != 0:
		how = fmt.Sprintf("its writer was killed by signal %d", st.Signal)
	case st != nil && st.Code != 0:
		how = fmt.Sprintf("its writer exited with code %d", st.Code)
	case st == nil && !known, st != nil:
		return "" // an ordinary end right after the last save
	}
	if known && prev > 0 {
		return fmt.Sprintf("%s at %d%% of the previous save's size", how, e.size()*100/prev)
	}
	return how + " while writing"
}

func (c *checkpoints) key(e *episode) string {
	dir := ""
	if len(e.files) > 0 {
		dir = path.Dir(e.files[0].name())
	}
	return fmt.Sprintf("%d %s", e.writer.rank, dir)
}

// evidence writes down what the judgement rests on.
func (c *checkpoints) evidence(e *episode) {
	cp := &e.cp
	d := cp.End - cp.Start
	ev := []string{fmt.Sprintf("wrote %s in %s (%s/s)", bytesText(float64(cp.Size)), durationText(d), bytesText(perSecond(float64(cp.Size), d)))}
	length := e.lastBusy - e.start
	switch {
	case e.writer.role == model.RoleLauncher:
		ev = append(ev, "written by the launcher")
	case e.writer.role != model.RoleRank:
		ev = append(ev, fmt.Sprintf("written by a child of the rank (pid %d)", e.writer.id.PID))
	case cp.Background:
		ev = append(ev, fmt.Sprintf("written by another thread: the main thread was elsewhere for %s of it", percent(ratio(e.elsewhere, length))))
	case length > 0 && ratio(e.waited, length) >= c.t.Dominant:
		ev = append(ev, fmt.Sprintf("the writer waited for storage for %s of it", percent(ratio(e.waited, length))))
	case e.measured > 0:
		ev = append(ev, fmt.Sprintf("the writer used %s of a CPU meanwhile", percent(ratio(e.mainRun, e.measured))))
	}
	if e.synced > 0 {
		ev = append(ev, fmt.Sprintf("synced to disk for %s", durationText(e.synced)))
	}
	cp.Evidence = ev
	cp.Facts = map[string]float64{
		FactWriteRate:   perSecond(float64(cp.Size), d),
		FactStorageWait: ratio(e.waited, length),
		FactWriterCPU:   ratio(e.mainRun, e.measured),
	}
	cp.Caveats = nil
	if len(e.files) == 0 {
		cp.Caveats = append(cp.Caveats, "the file was not seen open: found by the rank's write counters alone")
	}
	if e.first.length() > 500*time.Millisecond {
		cp.Caveats = append(cp.Caveats, "start and end are known to about a second: the fast lane did not cover the writer")
	}
}
