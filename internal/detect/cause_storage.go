package detect

import (
	"fmt"
	"strings"
)

// storageCause tells a store that gives no more bytes from one that takes too long for each of many operations. t is who
// reads: the workers together, or the rank.
func (d *stalls) storageCause(o *ongoing, t *tally) opinion {
	a := &o.amb
	rate := a.mean(float64(max(t.rchar, t.readBytes)))
	x := opinion{culprit: d.store(o, t)}
	request := 0.0
	if t.syscr > 0 {
		request = float64(t.rchar) / float64(t.syscr)
	}
	mapped := t.readBytes > 2*t.rchar && t.readBytes > 1<<20
	files := t.by[waitFileRead] + t.by[waitFileMeta] + t.by[waitPageFault]
	meta := ratio(t.by[waitFileMeta], files)
	faults := a.mean(float64(t.majFaults))
	x.evidence = []string{d.readText(t, rate, request, mapped)}
	device := a.mean(a.readBytes)
	switch {
	case a.readLimit > 0 && max(device, rate) >= d.t.AtLimitShare*a.readLimit:
		x.cause = CauseStorageThroughput
		x.evidence = append(x.evidence, fmt.Sprintf("that is the limit of %s/s set for the job's cgroup", bytesText(a.readLimit)))
	case meta >= d.t.MetadataShare:
		x.cause = CauseStorageLatency
		x.evidence = append(x.evidence, fmt.Sprintf("%s of the waits are for opening and looking up files", percent(meta)))
	case mapped && faults >= d.t.MajorFaultsPerSec && float64(t.readBytes)/float64(max(1, t.majFaults)) < d.t.SmallRequestBytes:
		x.cause = CauseStorageLatency
		x.evidence = append(x.evidence, fmt.Sprintf("%.0f page faults a second of %s each: a mapped file at random places", faults,
			bytesText(float64(t.readBytes)/float64(max(1, t.majFaults)))))
	case mapped || request >= d.t.SmallRequestBytes || request == 0:
		x.cause = CauseStorageThroughput
		x.low = request == 0 && !mapped
	case a.mean(a.devBusy) >= d.t.AtLimitShare && device > 50e6:
		x.cause = CauseStorageThroughput
	default:
		x.cause = CauseStorageLatency
		x.evidence = append(x.evidence, fmt.Sprintf("the mean read is small (%s)", bytesText(request)))
	}
	switch {
	case a.devName == "" || t.readBytes == 0 && t.rchar > 0:
		x.evidence = append(x.evidence, "no bytes are counted on a local device: a network, FUSE or memory file system, or the page cache")
	case a.mean(a.devBusy) < 0.3:
		x.evidence = append(x.evidence, fmt.Sprintf("device %s is busy only %s of the time: a limit, or its latency, holds the readers", a.devName, percent(a.mean(a.devBusy))))
	default:
		x.evidence = append(x.evidence, fmt.Sprintf("device %s is busy %s of the time (%s/s)", a.devName, percent(a.mean(a.devBusy)), bytesText(device)))
	}
	return x
}

func (d *stalls) readText(t *tally, rate, request float64, mapped bool) string {
	if mapped {
		return fmt.Sprintf("they read %s/s by page faults of mapped files", bytesText(rate))
	}
	text := fmt.Sprintf("they read %s/s", bytesText(rate))
	if request > 0 {
		text += fmt.Sprintf(", %s a call", bytesText(request))
	}
	if t.rchar > 0 && t.readBytes > 0 {
		text += fmt.Sprintf(", %s of it from the device", percent(min(1, float64(t.readBytes)/float64(t.rchar))))
	}
	return text
}

// store names what is read from: the mount most data files of the readers lie on, a remote mount when nothing was counted
// on a device, else the device.
func (d *stalls) store(o *ongoing, t *tally) string {
	a := &o.amb
	best, most := "", 0
	for name, n := range a.reads {
		if n > most || n == most && strings.Compare(name, best) < 0 {
			best, most = name, n
		}
	}
	if best != "" {
		return best
	}
	if t.readBytes*10 < t.rchar && len(a.mounts) == 1 {
		return a.mounts[0]
	}
	return a.devName
}
