// Package proctest makes fake /proc roots: out of Go literals, or out of a capture of a real process tree.
//
// A capture is one plain text file that a person can review before sending it along with a bug report; command lines and
// environments in it are redacted where they are read. `ptlaunch debug capture-proc PID` writes one, tests unpack it and run
// the sampler over it. It is no part of the flow. It may import package procfs and must not import package testing, since the
// program contains it.
package proctest
