// Package nvml reads NVIDIA GPUs through the driver's own library, NVML.
//
// The library runs in this process and may crash it, hang in the kernel, or lose a GPU while others go on. So every device
// has a mailbox of its own: at most one call sequence in flight, a deadline after which its figures are marked stale, and a
// thread that is given up, not doubled, when the call never returns. A device that is lost is shown as lost; figures that a
// device does not give, or gives as a sentinel, are nil with a gap that says why. A machine without the driver is one quiet
// gap.
//
// Utilisation comes from the driver's own sample buffer where it keeps one: it holds a sample every 1/6 to 1 s, so that a
// poll each second loses nothing. Utilisation is the share of time in which a kernel ran, nothing more: a collective that
// spins counts as busy.
//
// Driver is the seam: Library is the real one (go-nvml, which needs cgo); a build with CGO_ENABLED=0 has the same package and
// a Library that says that it was built without GPUs.
//
// It is a part of the sampler: Reader.Read fills Snapshot.GPUs. It imports packages latest, kernfile and snapshot; it must
// not import package sampler. A Reader belongs to one goroutine; its mailboxes own theirs.
package nvml
