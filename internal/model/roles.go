package model

import (
	"fmt"
	"slices"
	"time"
)

// How long a child that looks like its rank may go without showing what it is.
const (
	forkPatience  = 8 * time.Second   // a fork worker shows itself in 0.5 s, more under load
	spawnPatience = 120 * time.Second // a spawned worker imports torch first: 36 s were seen on a loaded machine
)

// A rule gives a role to the processes that it matches. The first rule of the table that matches wins.
type rule struct {
	name       string
	role       Role
	confidence Confidence
	undecided  bool
	match      func(*view) bool
	reason     func(*view) string
}

// view is what a rule sees of one process.
type view struct {
	*member
	above *rankLife // the nearest rank above; nil above the ranks
	now   time.Duration
}

// rules is the table. What a process is called is not enough anywhere: torch renames workers only since 2.4, names are
// inherited at fork, and titles can be set. Tools that are recognisable beyond doubt come first, then what is above the
// ranks, the ranks, and what is below them.
var rules = []rule{
	{"shm manager", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.facts.shmManager },
		say("program is torch_shm_manager")},
	{"resource tracker", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.facts.tracker },
		say("command line is multiprocessing.resource_tracker")},
	{"compile worker", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.facts.compile },
		say("command line is torch._inductor.compile_worker")},
	{"forkserver", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.facts.forkserver && !v.belowForkserver() },
		say("command line is multiprocessing.forkserver")},
	{"service", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.above != nil && v.facts.service != "" },
		func(v *view) string { return "program is " + v.facts.service }},
	{"below a worker", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.underWorker },
		say("started by a DataLoader worker")},

	{"fork before exec", RoleOther, ConfidenceLow, true,
		func(v *view) bool { return v.above == nil && v.isCopyOfLauncher() && v.age() < forkPatience },
		say("a fork of the launcher that has not executed its program yet")},
	{"launcher program", RoleLauncher, ConfidenceHigh, false,
		func(v *view) bool { return v.facts.launcher && (v.above == nil || v.parentOnlyLaunches()) },
		func(v *view) string { return "program is " + v.facts.program }},
	{"wrapper", RoleLauncher, ConfidenceHigh, false,
		func(v *view) bool { return v.above == nil && v.facts.wrapper },
		func(v *view) string { return "program is " + v.facts.program + ", which runs other commands" }},
	{"above ranks", RoleLauncher, ConfidenceHigh, false,
		func(v *view) bool { return v.above == nil && v.hasRankBelow },
		say("ranks run below it and it does not train itself")},

	{"rank by environment", RoleRank, ConfidenceHigh, false,
		func(v *view) bool { return v.above == nil && v.facts.python && v.facts.rank != None },
		func(v *view) string {
			return fmt.Sprintf("topmost Python process with RANK=%d in its environment", v.facts.rank)
		}},
	{"rank of another language", RoleRank, ConfidenceMedium, false,
		func(v *view) bool { return v.above == nil && v.facts.rank != None },
		func(v *view) string {
			return fmt.Sprintf("topmost program with RANK=%d in its environment", v.facts.rank)
		}},
	{"rank of a Python launcher", RoleRank, ConfidenceMedium, false,
		func(v *view) bool { return v.isRankOfScript() },
		func(v *view) string {
			return fmt.Sprintf("RANK=%d in its environment and not in that of the script that started it", v.facts.rank)
		}},
	{"spawned rank", RoleRank, ConfidenceMedium, false,
		func(v *view) bool { return v.isSpawnedRank() },
		say("started by multiprocessing, and trains: ranks by order")},
	{"plain rank", RoleRank, ConfidenceHigh, false,
		func(v *view) bool { return v.above == nil && v.facts.python && v.launchedAlone() },
		say("the Python process that was launched")},
	{"rank by order", RoleRank, ConfidenceMedium, false,
		func(v *view) bool { return v.above == nil && v.facts.python && v.belowLauncher() },
		say("a Python process below the launcher, without RANK in its environment: ranks by order")},

	{"named worker", RoleWorker, ConfidenceHigh, false,
		func(v *view) bool { return v.above != nil && v.info.Comm == "pt_data_worker" && v.facts.python },
		say("comm is pt_data_worker")},
	{"worker by signals", RoleWorker, ConfidenceHigh, false,
		func(v *view) bool { return v.above != nil && v.isLookalike() && v.signalsTell() },
		say("catches TERM, BUS, SEGV and FPE as only DataLoader workers do")},
	{"worker by poll", RoleWorker, ConfidenceHigh, false,
		func(v *view) bool { return v.above != nil && v.isLookalike() && v.above.polls(v.info.Pipes) },
		say("the rank polls the result pipe that it shares with it")},
	{"worker by pipes", RoleWorker, ConfidenceMedium, false,
		func(v *view) bool { return v.above != nil && v.startedByMultiprocessing() && v.pipesTell },
		say("shares a result pipe with its siblings and has an index pipe of its own")},
	{"spawned, not decided", RoleHelper, ConfidenceMedium, true,
		func(v *view) bool {
			return v.above != nil && v.startedByMultiprocessing() && v.age() < spawnPatience
		},
		say("started by multiprocessing, has not shown yet whether it is a worker")},
	{"forked, not decided", RoleHelper, ConfidenceMedium, true,
		func(v *view) bool { return v.above != nil && v.isLookalike() && v.age() < forkPatience },
		say("a fork of the rank, has not shown yet whether it is a worker")},
	{"pool child", RoleHelper, ConfidenceMedium, false,
		func(v *view) bool { return v.above != nil && v.isLookalike() },
		say("a child process of the rank that shows no sign of a DataLoader worker")},
	{"program below a rank", RoleHelper, ConfidenceHigh, false,
		func(v *view) bool { return v.above != nil },
		func(v *view) string { return "another program below the rank: " + v.facts.program }},
	{"other", RoleOther, ConfidenceLow, false,
		func(*view) bool { return true },
		say("no rule knows it")},
}

// firstRankRule is the first rule that gives the role of a rank.
var firstRankRule = slices.IndexFunc(rules, func(r rule) bool { return r.role == RoleRank })

func say(s string) func(*view) string { return func(*view) string { return s } }

func (v *view) age() time.Duration { return v.now - v.seen }

// belowForkserver: children of the forkserver are forks of it and share its command line.
func (m *member) belowForkserver() bool { return m.parent != nil && m.parent.facts.forkserver }

// startedByMultiprocessing is true for a child of the spawn and forkserver methods.
func (m *member) startedByMultiprocessing() bool {
	return m.facts.spawned || m.facts.forkserver && m.belowForkserver()
}

// isCopyOfLauncher: for the moment between fork and exec a rank-to-be has everything of its launcher.
func (m *member) isCopyOfLauncher() bool {
	p := m.parent
	return p != nil && (p.facts.launcher || p.facts.wrapper) && m.info.Exe == p.info.Exe && sameArgs(m.info.Cmdline, p.info.Cmdline)
}

// isLookalike is true for a process that could be a worker by its origin: a fork of the rank that has executed nothing, or a
// child of multiprocessing.
func (v *view) isLookalike() bool {
	if !v.facts.python || v.parent == nil && !v.orphan {
		return false
	}
	if v.startedByMultiprocessing() {
		return true
	}
	return v.isForkOf(v.above)
}

func (m *member) isForkOf(r *rankLife) bool {
	if m.bornOf != r.ID {
		return false
	}
	if m.facts.bare {
		return r.comm == m.info.Comm || m.info.Comm == "pt_data_worker"
	}
	if m.info.Exe != r.exe {
		return false
	}
	return sameArgs(m.born, r.args) || sameArgs(m.born, r.firstArgs) || m.facts.titled
}

// signalsTell: the test says nothing of a fork when the rank itself catches these signals.
func (v *view) signalsTell() bool {
	if !catchesLikeWorker(v.status) {
		return false
	}
	return v.startedByMultiprocessing() || !v.above.catchesToo()
}

// isSpawnedRank: torch.multiprocessing.spawn and notebook launchers start ranks as children of a Python process that does
// not train. A DataLoader worker never has children of multiprocessing or a training thread: those are the signs. What one
// of the children shows holds for its siblings of the same kind.
func (v *view) isSpawnedRank() bool {
	p := v.parent
	if p == nil || !v.facts.python || p.facts.training || p.facts.rank != None || v.info.Comm == "pt_data_worker" {
		return false
	}
	if v.startedByMultiprocessing() {
		if p.facts.forkserver {
			p = p.parent
		}
		return p != nil && p.spawnsRanks || v.trains()
	}
	return v.looksLike(p) && v.trains()
}

// trains: shows what only a rank has.
func (m *member) trains() bool {
	return m.facts.training || m.hasWorkers || m.startedByMultiprocessing() && m.facts.nvidia && m.parent != nil && !m.parent.facts.nvidia
}

func (m *member) looksLike(p *member) bool {
	return sameArgs(m.born, p.info.Cmdline) && m.info.Exe == p.info.Exe
}

// parentOnlyLaunches: a script that somebody wrote to launch others is taken for a rank until it does so. A rank that sets
// RANK for itself hands it to its children as well, but it trains.
func (v *view) parentOnlyLaunches() bool {
	p := v.parent
	for p != nil && p.facts.wrapper {
		p = p.parent
	}
	return p != nil && p.facts.python && p.facts.rank == None && !p.facts.training && !p.hasWorkers
}

// isRankOfScript: RANK is in its environment and not in that of the script above it.
func (v *view) isRankOfScript() bool {
	return v.facts.python && v.facts.rank != None && v.facts.localRank != None && !v.startedByMultiprocessing() &&
		v.parentOnlyLaunches() && !v.looksLike(v.parent)
}

// launchedAlone: it is the job's first process, or all above it are wrappers and programs that we do not know.
func (m *member) launchedAlone() bool {
	for p := m.parent; p != nil; p = p.parent {
		if p.Role == RoleLauncher && !p.facts.wrapper {
			return false
		}
	}
	return true
}

// belowLauncher: a program that starts ranks started it, directly or through wrappers.
func (m *member) belowLauncher() bool {
	p := m.parent
	for p != nil && p.facts.wrapper && !p.facts.launcher {
		p = p.parent
	}
	return p != nil && p.facts.launcher
}

func sameArgs(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
