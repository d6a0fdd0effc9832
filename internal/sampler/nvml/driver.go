package nvml

import (
	"errors"
	"fmt"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Driver is the driver's library. Every call may take for ever.
type Driver interface {
	// Open loads the library and lists the devices. A device that cannot be asked is listed with its Err.
	Open() ([]Device, error)
	// Close releases the library. It is not called while another call is in flight.
	Close() error
}

// Device is one GPU, or one MIG instance of one.
type Device struct {
	Identity
	// Err is why the device cannot be asked, nil when it can.
	Err error
	// Read asks for all figures. It is called by one goroutine at a time.
	Read func() (Figures, error)
}

// Identity is what does not change of a device.
type Identity struct {
	UUID   string
	Index  int32 // of the GPU; a MIG instance has its GPU's
	Minor  int32 // N of /dev/nvidiaN, -1 when not known
	Name   string
	MIG    bool
	Parent string // UUID of the GPU that a MIG instance is part of
}

// Figures are one reading of a device. Missing says for each figure that is nil why, by a short name.
type Figures struct {
	GPU     snapshot.GPU // figures only
	Missing map[string]error
	Took    time.Duration // how long the driver took
}

// Code is an NVML return code as an error.
type Code int32

// The return codes that are told apart.
const (
	CodeNotSupported    Code = 3
	CodeNoPermission    Code = 4
	CodeNotFound        Code = 6
	CodeDriverNotLoaded Code = 9
	CodeTimeout         Code = 10
	CodeLibraryNotFound Code = 12
	CodeSymbolMissing   Code = 13
	CodeLost            Code = 15
	CodeResetRequired   Code = 16
	CodeVersionMismatch Code = 18
	CodeUnknown         Code = 999
)

// codeTexts are our own words: the library that would give its own may not be loaded.
var codeTexts = map[Code]string{
	CodeNotSupported: "not supported", CodeNoPermission: "no permission", CodeNotFound: "not found",
	CodeDriverNotLoaded: "the NVIDIA driver is not loaded", CodeTimeout: "timeout",
	CodeLibraryNotFound: "libnvidia-ml.so.1 not found", CodeSymbolMissing: "not in this version of the library",
	CodeLost: "the GPU is lost", CodeResetRequired: "the GPU needs a reset",
	CodeVersionMismatch: "the library and the kernel driver are of different versions", CodeUnknown: "unknown error",
}

// Error gives the code and its meaning.
func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return fmt.Sprintf("%s (NVML %d)", text, int32(c))
	}
	return fmt.Sprintf("NVML error %d", int32(c))
}

// lost reports whether a device is gone for good: nothing but a reset or a reboot brings it back.
func lost(err error) bool { return errors.Is(err, CodeLost) || errors.Is(err, CodeResetRequired) }

// ErrSentinel says that the driver gave the value that stands for "none".
var ErrSentinel = errors.New("the driver gave no value")

// ErrNoCgo says that this program was built with CGO_ENABLED=0 and has no way to call a C library.
var ErrNoCgo = errors.New("this program was built without cgo and cannot read GPUs")

func reason(err error) snapshot.GapReason {
	switch {
	case lost(err):
		return snapshot.GapGone
	case errors.Is(err, CodeNoPermission):
		return snapshot.GapDenied
	case errors.Is(err, CodeTimeout):
		return snapshot.GapTimeout
	case errors.Is(err, ErrSentinel):
		return snapshot.GapMalformed
	}
	return snapshot.GapUnsupported
}
