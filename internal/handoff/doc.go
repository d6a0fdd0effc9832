// Package handoff is what the supervisor and the agent say to each other.
//
// Two inherited pipes carry JSON lines. Down (supervisor to agent): one Start, one Exit when the job has ended, then EOF; EOF
// without Exit means that the supervisor died. Up (agent to supervisor): one Report per signal the agent got (it doubles as
// the canary, see package launcher), and at the end one Farewell with the text to print.
//
// It imports the standard library only: the supervisor links nothing heavier.
package handoff
