// Package psi reads pressure stall information: for how long tasks of the machine, or of one control group, have waited for
// CPU, memory or I/O (https://docs.kernel.org/accounting/psi.html).
//
// Only the cumulative total of each line is taken: it is exact to the microsecond at every read, while the averages beside
// it lag. A kernel built with PSI but booted without it lets the files be opened and answers EOPNOTSUPP to the read: that
// is "unsupported", never a pressure of zero. Lines that a kernel does not have ("full" of cpu before 5.13) are absent.
//
// It imports packages kernfile and snapshot. A Reader belongs to one goroutine.
package psi
