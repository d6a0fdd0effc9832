//go:build cgo

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// BuiltIn reports whether this program can read GPUs.
const BuiltIn = true

// Library returns the driver's library at a path, or by a name that the loader knows; "" is libnvidia-ml.so.1. A process
// can load one library only.
func Library(path string) Driver {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	return &library{api: nvml.New(options...)}
}

type library struct {
	api  nvml.Interface
	have map[string]bool // symbols
}

// code turns a return code into an error.
func code(ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return Code(ret)
}

// has reports whether the library has a function. The binding is linked lazily: calling one that is not there ends the
// process.
func (l *library) has(symbol string) bool {
	have, known := l.have[symbol]
	if !known {
		have = l.api.Extensions().LookupSymbol(symbol) == nil
		l.have[symbol] = have
	}
	return have
}

// Open implements Driver.
func (l *library) Open() ([]Device, error) {
	if err := code(l.api.Init()); err != nil {
		return nil, fmt.Errorf("initialise NVML: %w", err)
	}
	l.have = map[string]bool{}
	for _, symbol := range symbols {
		l.has(symbol) // looked up here, so that the devices' goroutines only read the map
	}
	n, ret := l.api.DeviceGetCount()
	if err := code(ret); err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	var out []Device
	for i := range n {
		out = append(out, l.device(i)...)
	}
	return out, nil
}

// Close implements Driver.
func (l *library) Close() error { return code(l.api.Shutdown()) }

// device returns a GPU, followed by its MIG instances.
func (l *library) device(index int) []Device {
	id := Identity{Index: int32(index), Minor: -1}
	h, ret := l.api.DeviceGetHandleByIndex(index)
	if err := code(ret); err != nil {
		return []Device{{Identity: id, Err: fmt.Errorf("find GPU %d: %w", index, err)}}
	}
	id.UUID, ret = h.GetUUID()
	if err := code(ret); err != nil {
		return []Device{{Identity: id, Err: fmt.Errorf("name GPU %d: %w", index, err)}}
	}
	id.Name, _ = h.GetName() // "" when it has none
	if minor, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
		id.Minor = int32(minor)
	}
	out := []Device{{Identity: id, Read: l.reader(h, false)}}
	return append(out, l.instances(h, id)...)
}

// instances returns the MIG instances of a GPU.
func (l *library) instances(h nvml.Device, of Identity) []Device {
	if !l.has("nvmlDeviceGetMigMode") || !l.has("nvmlDeviceGetMaxMigDeviceCount") || !l.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil
	}
	mode, _, ret := h.GetMigMode()
	if ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	n, ret := h.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []Device
	for i := range n {
		m, ret := h.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // places that hold no instance
		}
		id := Identity{Index: of.Index, Minor: of.Minor, Name: of.Name, MIG: true, Parent: of.UUID}
		if id.UUID, ret = m.GetUUID(); ret != nvml.SUCCESS {
			out = append(out, Device{Identity: id, Err: fmt.Errorf("name MIG instance %d of GPU %d: %w", i, of.Index, Code(ret))})
			continue
		}
		if name, ret := m.GetName(); ret == nvml.SUCCESS {
			id.Name = name
		}
		out = append(out, Device{Identity: id, Read: l.reader(m, true)})
	}
	return out
}

// errNotOfInstance: NVML measures utilisation of whole GPUs only.
var errNotOfInstance = errors.New("MIG instances have no such figure")
