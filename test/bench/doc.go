// Command bench measures what ptlaunch costs, on the machine at hand: `make bench`.
//
// It starts jobs that look like training to whoever samples /proc (population/population.c) and lets ptlaunch and its peers
// observe them at the same time, so that whatever else the machine does hits all of them alike: the sampler alone (this
// program started again, see observe.go), the raw reads of the same files in the same rhythm (the floor), the whole agent
// with a Collector, pidstat, iotop-c, the hostmetrics receiver and process-exporter. It then measures what a job notices: its
// later start and its own speed. The result is one table of figures and goals, on stdout and, with -docs, as Markdown.
//
// The figures are CPU time, which the scheduler counts in nanoseconds, not wall time: they hold on a busy machine as far as
// caches and clock allow. It needs root (the I/O counters of all processes), gcc, and the peers; a peer that is not there is
// named in the table.
package main
