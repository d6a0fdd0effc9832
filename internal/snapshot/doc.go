// Package snapshot holds what was seen of a job at one instant, in the kernel's own cumulative terms, and recordings of it.
//
// It is the first hop of the flow:
//
//	sampler -> *Snapshot -> model.Builder -> *model.Frame -> detect -> sinks
//
// A Snapshot is raw on purpose: counters since process start, never rates; one optional group per file that was read, nil
// when that file could not be read, so that "absent" is never mistaken for zero. Whatever judges a run works from
// Snapshots alone, which is why a recording of them can be judged again later, by better rules, and give the same answer
// as the live run did.
//
// The package imports the standard library only and is imported by everything else. It must not read /proc itself
// (package sampler does) and must not derive anything (package model does).
//
// A Snapshot owns its memory: nothing in it points into a buffer that the sampler will reuse. It is immutable once
// published and may be shared between goroutines.
package snapshot
