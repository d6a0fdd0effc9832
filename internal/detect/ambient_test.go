package detect

import "testing"

// TestAmbientKeepsWhatWasNotDue: groups that are read on a slower beat hold until they are read again, and their shares are
// of the time they cover.
func TestAmbientKeepsWhatWasNotDue(t *testing.T) {
	sum := ambient{shmUsed: -1}
	sum.add(&ambient{elapsed: 1, shmUsed: 0.5, hasHost: true, online: 8, cpus: 2, idleCPUs: 4, hasCgroup: true, quota: 2, cgElapsed: 1, periods: 0.8, usedCPUs: 1.9})
	sum.add(&ambient{elapsed: 3, shmUsed: -1, cpus: 8, hasHost: true, online: 8, idleCPUs: 12})
	if sum.quota != 2 || sum.cpus != 2 || sum.shmUsed != 0.5 {
		t.Errorf("levels lost: %+v", sum)
	}
	if got := sum.ofCgroup(sum.periods); got != 0.8 {
		t.Errorf("throttled periods %v, want 0.8", got)
	}
	if got := sum.mean(sum.idleCPUs); got != 4 {
		t.Errorf("idle CPUs %v, want 4", got)
	}
	if got := sum.freeCPUs(); got < 0.09 || got > 0.11 {
		t.Errorf("free CPUs %v, want what the quota leaves", got)
	}
}
