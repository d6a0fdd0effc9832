// Package early is where a ptlaunch process decides what it is, before the heavy packages are initialised.
//
// The binary holds OpenTelemetry, gRPC and a command-line library, whose initialisation costs a supervisor memory and start-up
// time that it does not need. Go initialises packages in the order of their import paths as soon as their dependencies are
// done; this package depends on little, and github.com/ptlaunch/... sorts before go.opentelemetry.io and google.golang.org. So
// its init runs first, and a supervisor never gets past it: it runs the job and exits from here. An agent starts listening for
// signals and returns; main goes on as the agent (see Agent). Subcommands just return, and main serves them.
//
// Of the packages that are ready, Go takes the one with the smallest path. An import of runtime/debug or crypto/rand here would
// therefore put all of google.golang.org/... before this package.
//
// It is the one package with an init and package state. It may import the standard library, launcher, internal/config,
// internal/handoff and internal/identity only; a test holds it to that.
package early
