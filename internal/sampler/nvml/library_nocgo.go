//go:build !cgo

package nvml

// Library returns a driver that cannot be opened: NVML is a C library, and this program was built without cgo.
func Library(string) Driver { return none{} }

// BuiltIn reports whether this program can read GPUs.
const BuiltIn = false

type none struct{}

func (none) Open() ([]Device, error) { return nil, ErrNoCgo }
func (none) Close() error            { return nil }
