package agent

import (
	"context"

	"github.com/ptlaunch/ptlaunch/internal/detect"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Source yields snapshots: live ones from the sampler, recorded ones from a reader. Next blocks until the next tick is due;
// it returns io.EOF when there are no more, and the context's error when that ends first.
type Source interface {
	Next(ctx context.Context) (*snapshot.Snapshot, error)
}

// Sink takes what was found. Consume never blocks and cannot fail the loop: a sink that cannot keep up drops and counts.
// Close delivers what is left within the context's deadline and releases everything; it is called once, after the last
// Consume.
type Sink interface {
	Consume(*model.Frame, *detect.Findings)
	Close(context.Context, model.Outcome) error
}
