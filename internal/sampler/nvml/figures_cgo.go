//go:build cgo

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/ptlaunch/ptlaunch/internal/sampler/clock"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// symbols are the functions that libraries in use may lack, old or new.
var symbols = [...]string{
	"nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage",
	"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetPcieThroughput",
	"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetFieldValues",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
}

// pcieEvery is how many readings go by between two of the PCIe rates: the driver measures each direction for 20 ms while
// the caller waits.
const pcieEvery = 5

// handle reads one device. It belongs to its mailbox's goroutine.
type handle struct {
	*library
	dev   nvml.Device
	mig   bool
	clock clock.Clock
	busy  busy
	count int
	// The last PCIe rates, or why there are none.
	rx, tx  *uint64
	pcieErr error
	out     Figures
	fatal   error
}

func (l *library) reader(dev nvml.Device, mig bool) func() (Figures, error) {
	h := &handle{library: l, dev: dev, mig: mig, clock: clock.New()}
	return h.read
}

// read asks for everything. A device that turns out to be lost ends it at once: its calls may take long.
func (h *handle) read() (Figures, error) {
	start := h.clock.Now()
	h.out, h.fatal = Figures{Missing: map[string]error{}}, nil
	for _, step := range []func(*snapshot.GPU){h.memory, h.utilization, h.power, h.thermal, h.clocks, h.errors, h.links, h.pcie} {
		if step(&h.out.GPU); h.fatal != nil {
			return Figures{}, h.fatal
		}
	}
	h.count++
	h.out.Took = h.clock.Now() - start
	return h.out, nil
}

// got says whether a call gave a value, and notes why not. The symbol is what was called; most is the largest value that
// can be one: larger ones are the driver's ways to say none.
func (h *handle) got(name string, ret nvml.Return, value, most uint64) bool {
	err := code(ret)
	if err == nil && value > most {
		err = ErrSentinel
	}
	if err == nil {
		return true
	}
	if lost(err) {
		h.fatal = err
	}
	h.out.Missing[name] = err
	return false
}

// lacks notes a function that the library does not have.
func (h *handle) lacks(name, symbol string) bool {
	if h.has(symbol) {
		return false
	}
	h.out.Missing[name] = fmt.Errorf("%s: %w", symbol, CodeSymbolMissing)
	return true
}

func (h *handle) memory(g *snapshot.GPU) {
	if h.lacks("memory", "nvmlDeviceGetMemoryInfo") {
		return
	}
	m, ret := h.dev.GetMemoryInfo()
	if h.got("memory", ret, max(m.Used, m.Total), math.MaxUint64-1) {
		g.MemUsed, g.MemTotal = &m.Used, &m.Total
	}
}

func (h *handle) utilization(g *snapshot.GPU) {
	if h.mig {
		h.out.Missing["utilization"] = errNotOfInstance
		return
	}
	sampled := h.samples(g)
	if h.lacks("utilization", "nvmlDeviceGetUtilizationRates") {
		return
	}
	u, ret := h.dev.GetUtilizationRates()
	ok := ret == nvml.SUCCESS && u.Gpu <= 100
	if ok && !sampled {
		share := float64(u.Gpu) / 100
		g.Utilization = &share
		h.busy.addLevel(h.clock.Now(), share)
	}
	if ok && u.Memory <= 100 {
		share := float64(u.Memory) / 100
		g.MemUtilization = &share
	}
	if sampled {
		ok = true
		if lost(code(ret)) {
			h.fatal = code(ret)
		}
	} else {
		ok = h.got("utilization", ret, uint64(u.Gpu), 100)
	}
	if ok {
		total := h.busy.total
		g.Busy = &total
	}
}

// samples takes utilisation from the driver's buffer, and reports whether the driver keeps one.
func (h *handle) samples(g *snapshot.GPU) bool {
	if !h.has("nvmlDeviceGetSamples") {
		return false
	}
	kind, raw, ret := h.dev.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, h.busy.last)
	if ret == nvml.ERROR_NOT_FOUND && h.busy.last != 0 {
		return true // nothing new: the buffer is filled more slowly than it is read
	}
	if ret != nvml.SUCCESS || len(raw) == 0 {
		return false
	}
	var list []sample
	for _, s := range raw {
		v, err := number(kind, s.SampleValue)
		if err == nil && v <= 100 {
			list = append(list, sample{at: s.TimeStamp, share: v / 100})
		}
	}
	if mean, ok := h.busy.addSamples(list); ok {
		g.Utilization = &mean
	} else if len(list) > 0 {
		newest := list[len(list)-1].share // the first reading: a level, of the driver's last period
		g.Utilization = &newest
	}
	return len(list) > 0
}

var errValueType = errors.New("value of an unknown type")

// number is a value of NVML's union.
func number(kind nvml.ValueType, v [8]byte) (float64, error) {
	switch kind {
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(binary.NativeEndian.Uint64(v[:])), nil
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(binary.NativeEndian.Uint32(v[:4])), nil
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(binary.NativeEndian.Uint64(v[:])), nil
	}
	return 0, errValueType
}

func (h *handle) power(g *snapshot.GPU) {
	const mostMilliwatt = 100_000_000
	if h.mig {
		return // the GPU's own entry has it
	}
	if !h.lacks("power", "nvmlDeviceGetPowerUsage") {
		if mw, ret := h.dev.GetPowerUsage(); h.got("power", ret, uint64(mw), mostMilliwatt) {
			w := float64(mw) / 1000
			g.PowerW = &w
		}
	}
	if !h.lacks("power_limit", "nvmlDeviceGetEnforcedPowerLimit") {
		if mw, ret := h.dev.GetEnforcedPowerLimit(); h.got("power_limit", ret, uint64(mw), mostMilliwatt) {
			w := float64(mw) / 1000
			g.PowerLimitW = &w
		}
	}
}

func (h *handle) thermal(g *snapshot.GPU) {
	if h.mig || h.lacks("temperature", "nvmlDeviceGetTemperature") {
		return
	}
	if c, ret := h.dev.GetTemperature(nvml.TEMPERATURE_GPU); h.got("temperature", ret, uint64(c), 250) {
		t := float64(c)
		g.TemperatureC = &t
	}
}

func (h *handle) clocks(g *snapshot.GPU) {
	const mostMHz = 100_000
	if h.mig {
		return
	}
	if !h.lacks("clock", "nvmlDeviceGetClockInfo") {
		if mhz, ret := h.dev.GetClockInfo(nvml.CLOCK_SM); h.got("clock", ret, uint64(mhz), mostMHz) {
			g.SMClockMHz = &mhz
		}
	}
	if !h.lacks("max_clock", "nvmlDeviceGetMaxClockInfo") {
		if mhz, ret := h.dev.GetMaxClockInfo(nvml.CLOCK_SM); h.got("max_clock", ret, uint64(mhz), mostMHz) {
			g.MaxSMClockMHz = &mhz
		}
	}
	reasons, symbol := h.dev.GetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons"
	if !h.has(symbol) { // before driver 535
		reasons, symbol = h.dev.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons"
	}
	if !h.lacks("throttle", symbol) {
		if mask, ret := reasons(); h.got("throttle", ret, mask, math.MaxUint64-1) {
			g.Throttle = &mask
		}
	}
}

func (h *handle) errors(g *snapshot.GPU) {
	if h.mig || h.lacks("ecc", "nvmlDeviceGetTotalEccErrors") {
		return
	}
	if n, ret := h.dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC); h.got("ecc", ret, n, math.MaxUint64-1) {
		g.ECCCorrected = &n
	}
	if n, ret := h.dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); h.got("ecc", ret, n, math.MaxUint64-1) {
		g.ECCUncorrected = &n
	}
}

// links reads the bytes that all NVLinks carried. Cards without links do not support it: that is not worth a gap.
func (h *handle) links(g *snapshot.GPU) {
	if h.mig || !h.has("nvmlDeviceGetFieldValues") {
		return
	}
	all := uint32(math.MaxUint32)
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: all},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: all},
	}
	if ret := h.dev.GetFieldValues(fields); ret != nvml.SUCCESS {
		if lost(code(ret)) {
			h.fatal = code(ret)
		}
		return
	}
	for i, to := range []**uint64{&g.NVLinkRxBytes, &g.NVLinkTxBytes} {
		kib, err := number(nvml.ValueType(fields[i].ValueType), fields[i].Value)
		if fields[i].NvmlReturn == uint32(nvml.SUCCESS) && err == nil && kib < math.MaxUint64/1024 {
			n := uint64(kib) * 1024
			*to = &n
		}
	}
}

// pcie reads the rates of the bus now and then, and repeats them between.
func (h *handle) pcie(g *snapshot.GPU) {
	if h.mig || h.lacks("pcie", "nvmlDeviceGetPcieThroughput") {
		return
	}
	if h.count%pcieEvery == 0 {
		h.rx, h.tx, h.pcieErr = nil, nil, nil
		if kb, ret := h.dev.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES); h.got("pcie", ret, uint64(kb), math.MaxUint32-1) {
			n := uint64(kb) * 1024
			h.rx = &n
		}
		if kb, ret := h.dev.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES); h.got("pcie", ret, uint64(kb), math.MaxUint32-1) {
			n := uint64(kb) * 1024
			h.tx = &n
		}
		h.pcieErr = h.out.Missing["pcie"]
	}
	g.PCIeRxBPS, g.PCIeTxBPS = h.rx, h.tx
	if h.pcieErr != nil {
		h.out.Missing["pcie"] = h.pcieErr
	}
}
