// Package inherited remembers what this process was given by whoever started it, before the Go runtime changed it.
//
// The runtime installs handlers for nearly every signal, unblocks HUP, INT, QUIT, TERM, CHLD and others in every thread, and
// opens /dev/null on standard descriptors that were closed: all before the first line of Go runs, and without a public way to
// ask what was there. A C constructor runs earlier still, so the normal build (with cgo) asks there. A build with CGO_ENABLED=0
// knows only what the runtime keeps: the dispositions of HUP and INT, and the part of the mask that Go does not touch.
//
// The package only reads; its state is written once, before main, and never changes. It imports the standard library only.
package inherited
