package model

import (
	"time"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// member is a process of the job while it lives.
type member struct {
	Identity
	id     snapshot.ProcID
	info   *snapshot.ProcInfo
	facts  facts
	born   []string        // its first command line, before any title
	bornOf snapshot.ProcID // the process that started it; re-parenting does not change it
	seen   time.Duration
	start  time.Duration
	end    time.Duration // 0 while it lives

	parent   *member // the nearest living process above it by birth, nil at the top
	parentID snapshot.ProcID
	orphan   bool // its parent ended before it
	depth    int

	execed       bool // since its role was decided
	rule         int  // index into rules, -1 before the first
	life         *rankLife
	spawnOrder   int // among the children of its parent that could be spawned ranks
	spawned      int // how many such children it has had
	spawnsRanks  bool
	firstSpawn   *int      // the order of the first child that is a rank
	children     []*member // the living, by birth
	hasRankBelow bool
	hasWorkers   bool // processes that only a rank can have run below it
	underWorker  bool
	pipesTell    bool
	pool         *pool

	raw    *snapshot.Proc // this step
	prev   *snapshot.Proc // the step before
	status *snapshot.Status
	mark   uint64 // Builder.seq of the last step that showed it

	acct  account
	delta *Delta
}

// rankLife is one life of a rank. It outlives its process as long as something refers to it.
type rankLife struct {
	Rank
	exe, comm       string
	args, firstArgs []string
	status          *snapshot.Status
	wait            *snapshot.Wait
	pools           []*pool
	loaders         []*loader
	guessed         bool    // the last pool's loader was guessed right before the pool was settled
	member          *member // nil once the process has ended
}

// polls: the rank's main thread waits, for the 5 s that a DataLoader gives a worker before it looks after it, on one of these
// pipes.
func (r *rankLife) polls(pipes []string) bool {
	if r.wait == nil || r.wait.Syscall == nil || r.wait.Syscall.Poll == "" {
		return false
	}
	for _, p := range pipes {
		if p == r.wait.Syscall.Poll {
			return true
		}
	}
	return false
}

// handsOver: workers come and go unseen. The rank has made a loader (it catches SIGCHLD from the first on), and no pool lives.
func (r *rankLife) handsOver() bool {
	for _, p := range r.pools {
		if p.settled && p.firstEnd == 0 && p.alive > 0 {
			return false
		}
	}
	return len(r.loaders) > 0 || r.status != nil && r.status.SigCgt&childSignal != 0
}

func (r *rankLife) catchesToo() bool { return catchesLikeWorker(r.status) }
