// Package launcher is the supervisor: it starts the job and the agent, passes signals on, reaps, and ends as the job ended.
//
// It does what a small init does and nothing else. It opens no telemetry connection and reads nothing of the job in /proc; all
// that can fail or hang lives in the agent, a process of its own, whose death, stop or absence the job does not notice.
//
// One goroutine owns all state (Run): it reads signals, the agent's reports and timers from channels, and is the only caller of
// wait4. A pid is signalled only by that goroutine and only while it has not been reaped, so that a reused pid is never hit.
// Each agent adds two goroutines, one per pipe, which end when Run closes the pipes.
//
// # Exactly-once signals
//
// The job, the agent and the supervisor share one process group, and the terminal is left alone. A signal for the whole group,
// the whole cgroup or every process reaches the agent too, and the agent reports it at once: the job has it already. A signal
// that the agent does not report within a short window was meant for the supervisor alone, and is passed on (type canary).
//
// It imports the standard library and internal/handoff only. Even golang.org/x/sys stays out: the supervisor runs from an early
// package initialisation, and Go initialises packages in the order of their paths, so that anything heavier would come first.
package launcher
