package otelio

import (
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// scopeName is the instrumentation scope of everything that ptlaunch says.
const scopeName = "ptlaunch"

func scopeOf(m *meter) instrumentation.Scope {
	return instrumentation.Scope{Name: scopeName, Version: m.version, SchemaURL: semconv.SchemaURL}
}

// boot is the start of the kernel's own counters. Whole seconds, so that a restarted agent names the same moment.
func (m *meter) boot() time.Time { return m.clock.wall(0).Truncate(time.Second) }

// host adds the machine: devices, CPU, memory, network, pressure and mounts.
func (m *meter) host() {
	t, boot, raw := m.table, m.boot(), m.frame.Raw
	if raw == nil {
		return
	}
	for i := range raw.Devices {
		m.device(&raw.Devices[i], boot)
	}
	if h := raw.Host; h != nil {
		for _, mode := range [...]struct {
			name string
			time time.Duration
		}{{"user", h.User}, {"system", h.System}, {"idle", h.Idle}, {"iowait", h.IOWait}, {"steal", h.Steal}} {
			t.add(mSysCPUTime, plain(mode.name), boot, int64(mode.time))
		}
		m.memory(h, boot)
	}
	for i := range raw.Network {
		for _, n := range raw.Network[i].Interfaces {
			t.addUint(mSysNetIO, plain(n.Name, "receive"), boot, n.RxBytes)
			t.addUint(mSysNetIO, plain(n.Name, "transmit"), boot, n.TxBytes)
		}
	}
	for _, p := range raw.Pressure {
		t.add(mPressure, plain(p.Resource, p.Kind, p.Scope), boot, int64(p.Total))
	}
	for i := range raw.Mounts {
		if x := &raw.Mounts[i]; x.Space != nil {
			s := x.Space
			t.addUint(mFilesystem, plain(x.Mountpoint, x.FSType, "used"), m.start, s.Total-min(s.Free, s.Total))
			t.addUint(mFilesystem, plain(x.Mountpoint, x.FSType, "free"), m.start, s.Available)
			t.addUint(mFilesystem, plain(x.Mountpoint, x.FSType, "reserved"), m.start, s.Free-min(s.Available, s.Free))
		}
	}
}

// device adds a block device, unless it is made of others: those count its bytes already.
func (m *meter) device(d *snapshot.Device, boot time.Time) {
	if len(d.Below) > 0 {
		return
	}
	t := m.table
	for _, x := range [...]struct {
		direction          string
		bytes, ops, merged uint64
		time               time.Duration
	}{{"read", d.ReadBytes, d.Reads, d.ReadMerged, d.ReadTime}, {"write", d.WriteBytes, d.Writes, d.WriteMerged, d.WriteTime}} {
		l := plain(d.Name, x.direction)
		t.addUint(mSysDiskIO, l, boot, x.bytes)
		t.addUint(mSysDiskOps, l, boot, x.ops)
		t.addUint(mSysDiskMerged, l, boot, x.merged)
		t.add(mSysDiskOpTime, l, boot, int64(x.time))
	}
	t.add(mSysDiskIOTime, plain(d.Name), boot, int64(d.IOTime))
}

// memory adds the machine's memory. Used is what remains, so that the states sum to all of it.
func (m *meter) memory(h *snapshot.Host, boot time.Time) {
	used := h.MemTotal
	for _, s := range [...]struct {
		state string
		bytes uint64
	}{{"free", h.MemFree}, {"buffers", h.Buffers}, {"cached", h.Cached}} {
		m.table.addUint(mSysMemory, plain(s.state), boot, s.bytes)
		used -= min(used, s.bytes)
	}
	m.table.addUint(mSysMemory, plain("used"), boot, used)
}

// cgroup adds the job's own control group. A limit that is not set is absent, not infinite.
func (m *meter) cgroup() {
	if m.frame.Raw == nil || m.frame.Raw.Cgroup == nil {
		return
	}
	t, boot, g := m.table, m.boot(), m.frame.Raw.Cgroup
	if c := g.CPU; c != nil {
		if c.Limit != nil {
			t.addFraction(mCgroupCPULimit, plain(), m.start, *c.Limit)
		}
		t.add(mCgroupThrottled, plain(), boot, int64(c.ThrottledTime))
	}
	if c := g.Memory; c != nil {
		if c.Limit != nil {
			t.addUint(mCgroupMemLimit, plain(), m.start, *c.Limit)
		}
		t.addUint(mCgroupMemUsage, plain(), m.start, c.Usage)
		for event, n := range c.Events {
			t.addUint(mCgroupMemEvents, plain(event), boot, n)
		}
	}
	if g.IO == nil {
		return
	}
	for i := range g.IO.Devices {
		d := &g.IO.Devices[i]
		name := m.deviceName(d.Device)
		if d.ReadBytes != nil {
			t.addUint(mCgroupDiskIO, plain(name, "read"), boot, *d.ReadBytes)
		}
		if d.WriteBytes != nil {
			t.addUint(mCgroupDiskIO, plain(name, "write"), boot, *d.WriteBytes)
		}
	}
}

// deviceName turns "8:0" into "sda" where the device is known: a container may see the numbers only.
func (m *meter) deviceName(numbers string) string {
	for i := range m.frame.Raw.Devices {
		if d := &m.frame.Raw.Devices[i]; numbers == deviceNumbers(d) {
			return d.Name
		}
	}
	return numbers
}

// integrateGPUs turns the PCIe rates of NVML into totals.
func (m *meter) integrateGPUs(f *model.Frame) {
	for i := range f.Raw.GPUs {
		g := &f.Raw.GPUs[i]
		if g.Stale || g.Lost || f.Elapsed <= 0 {
			continue
		}
		for _, x := range [...]struct {
			direction string
			rate      *uint64
		}{{"receive", g.PCIeRxBPS}, {"transmit", g.PCIeTxBPS}} {
			if x.rate != nil {
				m.gpuIO[plain(g.UUID, x.direction)] += float64(*x.rate) * f.Elapsed.Seconds()
			}
		}
	}
}

// gpus adds the devices that answer: a lost one, or figures that have gone stale, have no points.
func (m *meter) gpus() {
	if m.frame.Raw == nil {
		return
	}
	t, boot := m.table, m.boot()
	for i := range m.frame.Raw.GPUs {
		g := &m.frame.Raw.GPUs[i]
		if g.Stale || g.Lost {
			continue
		}
		l := m.gpuLabels(m.frame, g)
		for _, x := range [...]struct {
			id metricID
			v  *float64
		}{{mGPUUtil, g.Utilization}, {mPower, g.PowerW}, {mTemperature, g.TemperatureC}} {
			if x.v != nil {
				t.addFraction(x.id, l, m.start, *x.v)
			}
		}
		for _, x := range [...]struct {
			id metricID
			v  *uint64
		}{{mGPUMemUsage, g.MemUsed}, {mGPUMemLimit, g.MemTotal}} {
			if x.v != nil {
				t.addUint(x.id, l, m.start, *x.v)
			}
		}
		for _, x := range [...]struct {
			kind string
			v    *uint64
		}{{"corrected", g.ECCCorrected}, {"uncorrected", g.ECCUncorrected}} {
			if x.v != nil {
				l.values[3] = x.kind
				t.addUint(mHwErrors, l, boot, *x.v)
			}
		}
		for _, direction := range [...]string{"receive", "transmit"} {
			if v, ok := m.gpuIO[plain(g.UUID, direction)]; ok {
				l.values[3] = direction
				t.add(mGPUIO, l, m.start, int64(v))
			}
		}
	}
}

// rankOfGPU returns the rank that uses a GPU; model.None when none does, or several do.
func rankOfGPU(f *model.Frame, g *snapshot.GPU) int {
	found := model.None
	for _, use := range f.GPUUse {
		if !slices.Contains(use.UUIDs, g.UUID) {
			continue
		}
		if found != model.None {
			return model.None
		}
		for i := range f.Procs {
			if f.Procs[i].ID == use.ID {
				found = f.Procs[i].Rank
			}
		}
	}
	return found
}

// onRunTime gives the SDK's histograms the times of the run instead of those of the process that tells it.
func (m *meter) onRunTime(data metricdata.Aggregation) metricdata.Aggregation {
	switch h := data.(type) {
	case metricdata.Histogram[float64]:
		retime(m, h.Temporality, h.DataPoints)
	case metricdata.Histogram[int64]:
		retime(m, h.Temporality, h.DataPoints)
	case metricdata.ExponentialHistogram[float64]:
		retimeExponential(m, h.Temporality, h.DataPoints)
	case metricdata.ExponentialHistogram[int64]:
		retimeExponential(m, h.Temporality, h.DataPoints)
	}
	return data
}

// histogramStart is where the interval of a histogram's points begins.
func (m *meter) histogramStart(t metricdata.Temporality) time.Time {
	if t == metricdata.DeltaTemporality && !m.table.previous.IsZero() {
		return m.table.previous
	}
	return m.start
}

func retime[N int64 | float64](m *meter, t metricdata.Temporality, points []metricdata.HistogramDataPoint[N]) {
	for i := range points {
		p := &points[i]
		p.StartTime, p.Time = m.histogramStart(t), m.table.now
		keepWithin(p.Exemplars, p.Time)
	}
}

func retimeExponential[N int64 | float64](m *meter, t metricdata.Temporality, points []metricdata.ExponentialHistogramDataPoint[N]) {
	for i := range points {
		p := &points[i]
		p.StartTime, p.Time = m.histogramStart(t), m.table.now
		keepWithin(p.Exemplars, p.Time)
	}
}

// keepWithin moves exemplars that a replay measured after the run's own time.
func keepWithin[N int64 | float64](exemplars []metricdata.Exemplar[N], now time.Time) {
	for i := range exemplars {
		if exemplars[i].Time.After(now) {
			exemplars[i].Time = now
		}
	}
}

func deviceNumbers(d *snapshot.Device) string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }
