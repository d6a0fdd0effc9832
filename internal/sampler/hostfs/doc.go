// Package hostfs reads the machine as a whole: CPU time, memory, paging and the system's pressure stall information.
//
// It is a part of the sampler: Reader.Read fills Snapshot.Host and the "system" entries of Snapshot.Pressure. Reading is
// here, parsing in functions of bytes. It imports packages kernfile, psi and snapshot; it must not import package sampler.
// A Reader belongs to one goroutine.
package hostfs
