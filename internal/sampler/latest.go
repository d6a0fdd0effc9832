package sampler

import (
	"context"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/sampler/latest"
)

// ErrBusy is what Latest.Close returns when the call in flight did not come back.
var ErrBusy = latest.ErrBusy

// Latest is the mailbox of package latest, where the leaf readers can import it too.
type Latest[T any] = latest.Latest[T]

// Reading is what a Latest knows at one moment.
type Reading[T any] = latest.Reading[T]

// NewLatest is latest.New.
func NewLatest[T any](deadline time.Duration, read func(context.Context) (T, error)) *Latest[T] {
	return latest.New(deadline, read)
}
