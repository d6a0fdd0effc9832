package otelio

import (
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// routeSDKErrors sends what the SDK would print on the standard error, which belongs to the job, to our log instead. The
// SDK's two handlers exist once per process.
func routeSDKErrors(log *slog.Logger) {
	otel.SetErrorHandler(&limitedErrors{log: log})
}

// muteSDK keeps the exporters from saying in words of their own what readSettings says about the same variables.
func muteSDK() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	otel.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
}

// errorPause is between two lines about the SDK's errors: a broken setting may fail at every export.
const errorPause = time.Minute

// limitedErrors logs the SDK's errors, few of them. It is safe for concurrent use.
type limitedErrors struct {
	log  *slog.Logger
	mu   sync.Mutex
	at   time.Time
	kept int // errors since the last line
}

// Handle implements otel.ErrorHandler.
func (l *limitedErrors) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < errorPause {
		l.kept++
		return
	}
	l.log.Warn("OpenTelemetry reports an error", "cause", err, "unsaid", l.kept)
	l.at, l.kept = time.Now(), 0
}
