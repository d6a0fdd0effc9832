package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// rates fills in what the machine did in the step. A source that one of the two snapshots lacks, or whose counters went
// down, has no rate.
func (b *Builder) rates(f *Frame) {
	if b.prev == nil || !steady(f.Elapsed) {
		return
	}
	prev, cur := b.prev, f.Raw
	if prev.Host != nil && cur.Host != nil {
		f.Host = hostRate(prev.Host, cur.Host)
	}
	if prev.Cgroup != nil && cur.Cgroup != nil && prev.Cgroup.Path == cur.Cgroup.Path {
		f.Cgroup = cgroupRate(prev.Cgroup, cur.Cgroup)
	}
	for i := range cur.Devices {
		for j := range prev.Devices {
			if p, c := &prev.Devices[j], &cur.Devices[i]; p.Major == c.Major && p.Minor == c.Minor && p.Name == c.Name {
				if r, ok := deviceRate(p, c); ok {
					f.Devices = append(f.Devices, r)
				}
				break
			}
		}
	}
	for _, c := range cur.Pressure {
		for _, p := range prev.Pressure {
			if p.Scope == c.Scope && p.Resource == c.Resource && p.Kind == c.Kind {
				if d, ok := delta(c.Total, p.Total); ok {
					f.Pressure = append(f.Pressure, PressureRate{Pressure: c, Share: min(1, d.Seconds()/f.Elapsed.Seconds())})
				}
				break
			}
		}
	}
	for i := range cur.Network {
		for j := range prev.Network {
			if p, c := &prev.Network[j], &cur.Network[i]; p.NS == c.NS {
				if r, ok := networkRate(p, c); ok {
					f.Network = append(f.Network, r)
				}
				break
			}
		}
	}
}

// steady is true for a step that rates can be made of.
func steady(elapsed time.Duration) bool { return elapsed > 0 && elapsed <= longGap }

func hostRate(p, c *snapshot.Host) *HostRate {
	var d [5]time.Duration
	var all time.Duration
	for i, x := range [...][2]time.Duration{{c.User, p.User}, {c.System, p.System}, {c.Idle, p.Idle}, {c.IOWait, p.IOWait}, {c.Steal, p.Steal}} {
		// iowait and idle may go down by a little on a tickless kernel: that field alone did not grow then.
		d[i] = grown(x[0], x[1])
		all += d[i]
	}
	if all <= 0 {
		return nil
	}
	share := func(x time.Duration) float64 { return float64(x) / float64(all) }
	return &HostRate{
		Host: c, UserShare: share(d[0]), SystemShare: share(d[1]), IdleShare: share(d[2]), IOWaitShare: share(d[3]), StealShare: share(d[4]),
	}
}

// deviceRate derives iostat's figures.
func deviceRate(p, c *snapshot.Device) (r DeviceRate, ok bool) {
	r = DeviceRate{Device: c, Elapsed: c.At - p.At}
	if !steady(r.Elapsed) {
		return r, false
	}
	var d struct{ reads, writes, readBytes, writeBytes uint64 }
	var t struct{ read, write, busy, weighted time.Duration }
	for _, x := range []struct {
		to        *uint64
		cur, prev uint64
	}{
		{&d.reads, c.Reads, p.Reads}, {&d.writes, c.Writes, p.Writes}, {&d.readBytes, c.ReadBytes, p.ReadBytes}, {&d.writeBytes, c.WriteBytes, p.WriteBytes},
	} {
		if *x.to, ok = delta(x.cur, x.prev); !ok {
			return r, false
		}
	}
	// The times are 32-bit milliseconds in the kernel's output of old and wrap for themselves: no time then, but the rates stand.
	t.read, t.write = grown(c.ReadTime, p.ReadTime), grown(c.WriteTime, p.WriteTime)
	t.busy, t.weighted = grown(c.IOTime, p.IOTime), grown(c.Weighted, p.Weighted)

	sec := r.Elapsed.Seconds()
	r.ReadBPS, r.WriteBPS = float64(d.readBytes)/sec, float64(d.writeBytes)/sec
	r.ReadIOPS, r.WriteIOPS = float64(d.reads)/sec, float64(d.writes)/sec
	r.Busy = min(1, t.busy.Seconds()/sec)
	r.QueueDepth = t.weighted.Seconds() / sec
	if d.reads > 0 {
		r.ReadAwait = t.read / time.Duration(d.reads)
	}
	if d.writes > 0 {
		r.WriteAwait = t.write / time.Duration(d.writes)
	}
	if n := d.reads + d.writes; n > 0 {
		r.RequestSize = float64(d.readBytes+d.writeBytes) / float64(n)
	}
	return r, true
}

func cgroupRate(p, c *snapshot.Cgroup) *CgroupRate {
	r := &CgroupRate{Cgroup: c, NewEvents: map[string]uint64{}}
	elapsed := c.At - p.At
	if !steady(elapsed) {
		return nil
	}
	if p.CPU != nil && c.CPU != nil {
		r.ThrottledShare = grown(c.CPU.ThrottledTime, p.CPU.ThrottledTime).Seconds() / elapsed.Seconds()
		if n := grown(c.CPU.Periods, p.CPU.Periods); n > 0 {
			r.PeriodsShare = min(1, float64(grown(c.CPU.Throttled, p.CPU.Throttled))/float64(n))
		}
		if p.CPU.Usage != nil && c.CPU.Usage != nil {
			if d, ok := delta(*c.CPU.Usage, *p.CPU.Usage); ok {
				used := d.Seconds() / elapsed.Seconds()
				r.CPUs = &used
			}
		}
	}
	if p.Memory != nil && c.Memory != nil {
		for name, n := range c.Memory.Events {
			if was, ok := p.Memory.Events[name]; ok && n > was {
				r.NewEvents[name] = n - was
			}
		}
	}
	return r
}

func networkRate(p, c *snapshot.NetIO) (r NetworkRate, ok bool) {
	elapsed := c.At - p.At
	rx, ok1 := delta(c.RxBytes, p.RxBytes)
	tx, ok2 := delta(c.TxBytes, p.TxBytes)
	lo, ok3 := delta(c.LoRxBytes, p.LoRxBytes)
	if !ok1 || !ok2 || !ok3 || !steady(elapsed) {
		return r, false
	}
	sec := elapsed.Seconds()
	return NetworkRate{NetIO: c, RxBPS: float64(rx) / sec, TxBPS: float64(tx) / sec, LoBPS: float64(lo) / sec}, true
}
