package kernfile

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// ErrMalformed is wrapped by every parser's complaint.
var ErrMalformed = errors.New("malformed")

// Malformed says that a file's text is not what the kernel writes.
func Malformed(what, text string) error {
	const most = 60
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Errorf("parse %s: %w: %q", what, ErrMalformed, text)
}

// Reason says why an error is one. A file that does not exist is "unsupported": the kernel, or this machine's
// configuration, does not offer it. A reader for which absence means that something ended says so itself.
func Reason(err error) snapshot.GapReason {
	switch {
	case errors.Is(err, ErrMalformed):
		return snapshot.GapMalformed
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return snapshot.GapDenied
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENODEV):
		return snapshot.GapGone
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return snapshot.GapTimeout
	}
	return snapshot.GapUnsupported
}

// Gap makes the entry for a source that could not be read.
func Gap(source string, err error) snapshot.Gap {
	return snapshot.Gap{Source: source, Reason: Reason(err), Detail: err.Error()}
}
