// Package cgroupfs reads the limits and the use of the job's control group: CPU quota and throttling, cpuset, memory, block
// I/O, and the group's pressure.
//
// Three layouts are in use: v2 (one tree), v1 (a tree per controller) and hybrid (v1 for the controllers, a v2 tree beside
// it that has pressure files and often nothing else). A group may be seen from outside or from within a private cgroup
// namespace, where its path reads "/". Locate turns /proc/PID/cgroup and the mount table into folders; the readers then know
// file names only. Limits are looked for up to the top that can be seen: the tightest counts. Every figure says which file
// it came from, because an answer to "why only 4 CPUs" has to name it.
//
// It is a part of the sampler: Reader.Read fills Snapshot.Cgroup and the "cgroup" entries of Snapshot.Pressure. It imports
// packages kernfile, psi and snapshot; it must not import package sampler. A Reader belongs to one goroutine.
package cgroupfs
