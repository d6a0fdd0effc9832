// Package latest is a one-slot mailbox between the sampler's tick and a source that may be slow or may never answer: a
// driver library, statfs on a file system that hangs.
//
// It is a leaf of its own, so that the readers below package sampler can use it without importing that package. Each
// Latest owns one goroutine, which Close ends; a call that never returns keeps its goroutine, and Close says so.
package latest
