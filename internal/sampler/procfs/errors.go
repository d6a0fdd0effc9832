package procfs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// What an error of this package means. errors.Is finds them in every error that is returned.
var (
	ErrGone        = errors.New("process is gone")
	ErrDenied      = errors.New("permission denied")
	ErrUnsupported = errors.New("not supported by this kernel")
	ErrMalformed   = errors.New("malformed")
	ErrTimeout     = errors.New("did not answer in time")
)

// Error is a failed read: which file, what it means, and the errno it came from.
type Error struct {
	Path  string
	Kind  error // one of the sentinels above, or nil when the errno is none that we know a meaning for
	Cause error
}

func (e *Error) Error() string { return "read " + e.Path + ": " + e.Cause.Error() }

// Unwrap makes both the meaning and the errno findable.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Cause}
	}
	return []error{e.Kind, e.Cause}
}

// classify gives an errno its meaning. ENOENT under /proc/PID is a process that is gone (or a thread, or a descriptor); a
// file that this kernel does not have at all is told apart by the caller, who knows whether the process still lives.
func classify(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return ErrGone
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return ErrDenied
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL):
		return ErrUnsupported
	}
	return nil
}

func readError(path string, err error) error {
	return &Error{Path: path, Kind: classify(err), Cause: err}
}

func malformed(path, what string) error {
	return &Error{Path: path, Kind: ErrMalformed, Cause: errors.New(what)}
}

// GapReason translates an error into what a snapshot says about it. An unknown errno counts as unsupported.
func GapReason(err error) snapshot.GapReason {
	switch {
	case errors.Is(err, ErrGone):
		return snapshot.GapGone
	case errors.Is(err, ErrDenied):
		return snapshot.GapDenied
	case errors.Is(err, ErrMalformed):
		return snapshot.GapMalformed
	case errors.Is(err, ErrTooMany):
		return snapshot.GapTruncated
	case errors.Is(err, ErrTimeout):
		return snapshot.GapTimeout
	}
	return snapshot.GapUnsupported
}
