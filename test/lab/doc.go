// Command lab is the ground-truth laboratory: it runs real PyTorch jobs that write down, to the nanosecond, what they really
// did, observes them with ptlaunch, and scores what ptlaunch says against the truth.
//
//	make lab                             all scenarios, and docs/accuracy.md written
//	go run ./test/lab -run 'save_.*'     some of them, a table on the terminal
//	go run ./test/lab -bare -run fuse    the job alone, without ptlaunch: checks the truth log
//	go run ./test/lab -keep DIR          the recordings kept, to be judged again: -judge DIR, in seconds, after a change of the rules
//	go run ./test/lab -list
//
// The flow of one scenario, one at a time:
//
//	set up (cgroup, loop disk, FUSE, …) -> job.py --prepare -> ptlaunch -- job.py -> tear down -> read truth, read findings -> score
//
// A scenario is judged three times: as the live run published it, by replay of its recording, and by replay without what a
// user under Yama's ptrace_scope 1 cannot read. Small recordings are kept below testdata and replayed by the ordinary tests.
//
// It needs root (cgroups, mounts), cgroup v1 controllers, and PyTorch; it uses no network. Everything it sets up is torn down,
// also when a scenario fails or the laboratory is interrupted.
package main
