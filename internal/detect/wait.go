package detect

import (
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// waitKind is what a blocked main thread waits in, as far as one reading of its state, its system call and its wait channel
// tells. The system call and its arguments are stable between kernels and decide where they can be read; the wait channel
// is the name of a kernel function, changes with kernels, and decides only kinds of D and what the denied call leaves open.
type waitKind uint8

const (
	waitNone         waitKind = iota // on a CPU or ready to be
	waitLoaderPipe                   // poll of one pipe for at most 5 s: one end of a DataLoader waits for the other
	waitTimedFutex                   // queue.get(timeout): the pin thread's consumer
	waitUntimedFutex                 // a collective of gloo, a lock, a join, a CUDA synchronisation
	waitFutex                        // a futex whose arguments could not be read
	waitOpenMP                       // a plain futex: a thread of libgomp at its barrier, never Python
	waitPipeRead                     // data through a pipe or a UNIX socket
	waitPipeWrite                    // a full pipe
	waitOutput                       // a full stdout or stderr, a stopped terminal
	waitFileRead                     // data of a file
	waitFileMeta                     // open, stat, a directory
	waitPageFault                    // a page of a mapped file, or of an evicted library
	waitFileWrite                    // dirty throttling, a write call
	waitFileSync                     // fsync and its relatives
	waitSocket                       // the network
	waitChild                        // a child process
	waitSleep                        // time.sleep
	waitPoll                         // poll, epoll or select of something else, or of something unknown
	waitStopped                      // SIGSTOP or a debugger
	waitOther
	numWaits
)

// waitNames are how evidence calls the kinds.
var waitNames = [numWaits]string{
	"running", "waiting for the loader's pipe", "in a timed lock", "in a lock or collective", "in a lock", "at an OpenMP barrier",
	"reading a pipe", "writing a full pipe", "writing to a blocked output", "reading a file", "opening or looking up files",
	"faulting in pages", "writing a file", "syncing a file", "waiting for the network", "waiting for a child process",
	"asleep", "polling", "stopped", "asleep in something unnamed",
}

func (k waitKind) String() string { return waitNames[k] }

// isRead says whether the kind is a wait for data from storage.
func (k waitKind) isRead() bool { return k == waitFileRead || k == waitFileMeta || k == waitPageFault }

// isWrite says whether the kind is a wait for storage to take data.
func (k waitKind) isWrite() bool { return k == waitFileWrite || k == waitFileSync }

// classify reads one reading. state is the letter of /proc/PID/stat; w may be nil, then only D is told from S.
func classify(state byte, w *snapshot.Wait) waitKind {
	switch state {
	case 'R', 'Z', 'X':
		return waitNone
	case 'T', 't':
		return waitStopped
	}
	disk := state == 'D'
	if w == nil {
		return unnamed(disk)
	}
	if sc := w.Syscall; sc != nil && !sc.Running {
		if k, ok := bySyscall(sc, w.WChan, disk); ok {
			return k
		}
	}
	return byChannel(w.WChan, disk)
}

func unnamed(disk bool) waitKind {
	if disk {
		return waitFileRead
	}
	return waitOther
}

// Numbers of the system calls that matter, x86-64. A number that is not here is judged by its wait channel alone, which is
// also what happens on every other architecture.
const (
	sysRead, sysWrite, sysPoll, sysPread, sysPwrite, sysReadv, sysWritev    = 0, 1, 7, 17, 18, 19, 20
	sysSelect, sysMsync, sysNanosleep, sysFutex, sysClockNanosleep          = 23, 26, 35, 202, 230
	sysConnect, sysAccept, sysSendto, sysRecvfrom, sysSendmsg, sysRecvmsg   = 42, 43, 44, 45, 46, 47
	sysWait4, sysFsync, sysFdatasync, sysSync, sysGetdents64, sysEpollWait  = 61, 74, 75, 162, 217, 232
	sysWaitid, sysPselect, sysPpoll, sysSyncRange, sysEpollPwait, sysSyncfs = 247, 270, 271, 277, 281, 306
	sysPreadv, sysPwritev, sysIOGetevents, sysIOUringEnter, sysPageFault    = 295, 296, 208, 426, -1
)

// metadataCalls are open, stat, lstat, access, unlink, openat, newfstatat, unlinkat, readlink, mkdir, rename, statx, faccessat.
var metadataCalls = map[int32]bool{
	2: true, 4: true, 6: true, 21: true, 82: true, 83: true, 87: true, 89: true, 257: true, 262: true, 263: true, 264: true,
	269: true, 316: true, 332: true, 437: true, 439: true, sysGetdents64: true, 78: true,
}

// loaderPollMillis is MP_STATUS_CHECK_INTERVAL of torch.utils.data: both ends of a loader poll for at most that long.
const loaderPollMillis = 5000

func bySyscall(sc *snapshot.Syscall, channel string, disk bool) (waitKind, bool) {
	switch sc.Nr {
	case sysPoll:
		return pollKind(sc), true
	case sysSelect, sysPselect, sysPpoll, sysEpollWait, sysEpollPwait:
		return waitPoll, true
	case sysFutex:
		return futexKind(sc), true
	case sysNanosleep, sysClockNanosleep:
		return waitSleep, true
	case sysConnect, sysAccept, sysSendto, sysRecvfrom, sysSendmsg, sysRecvmsg:
		if strings.Contains(channel, "unix_stream") {
			return waitPipeRead, true
		}
		return waitSocket, true
	case sysWait4, sysWaitid:
		return waitChild, true
	case sysFsync, sysFdatasync, sysSync, sysSyncfs, sysSyncRange, sysMsync:
		return waitFileSync, true
	case sysPageFault:
		if disk {
			return waitPageFault, true
		}
		return waitOther, true
	case sysIOGetevents, sysIOUringEnter:
		return waitFileRead, true
	case sysRead, sysPread, sysReadv, sysPreadv:
		return readKind(channel), true
	case sysWrite, sysPwrite, sysWritev, sysPwritev:
		return writeKind(sc, channel, disk), true
	}
	if metadataCalls[sc.Nr] {
		return waitFileMeta, true
	}
	return waitOther, false
}

func pollKind(sc *snapshot.Syscall) waitKind {
	if sc.Args[1] != 1 {
		return waitPoll
	}
	switch {
	case strings.HasPrefix(sc.Poll, "socket:"):
		return waitSocket
	case strings.HasPrefix(sc.Poll, "pipe:"): // whatever the loader's own timeout= says
		return waitLoaderPipe
	case sc.Poll == "" && sc.Args[2] > 0 && sc.Args[2] <= loaderPollMillis:
		return waitLoaderPipe
	}
	return waitPoll
}

func futexKind(sc *snapshot.Syscall) waitKind {
	const command, wait = 0x7f, 0
	switch {
	case sc.Args[1]&command == wait && sc.Args[3] == 0:
		return waitOpenMP
	case sc.Args[3] == 0:
		return waitUntimedFutex
	}
	return waitTimedFutex
}

func readKind(channel string) waitKind {
	switch {
	case contains(channel, "pipe_read", "unix_stream", "anon_pipe", "n_tty", "eventfd"):
		return waitPipeRead
	case contains(channel, "wait_woken", "sk_wait", "tcp_", "inet_"):
		return waitSocket
	}
	return waitFileRead
}

func writeKind(sc *snapshot.Syscall, channel string, disk bool) waitKind {
	std := sc.Args[0] == 1 || sc.Args[0] == 2
	switch {
	case contains(channel, "pipe_write", "unix_stream", "n_tty", "tty_"), !disk && std:
		if std {
			return waitOutput
		}
		return waitPipeWrite
	case contains(channel, "sk_", "tcp_", "inet_", "wait_woken"):
		return waitSocket
	}
	return waitFileWrite
}

// channelKinds are tried in order: the first pattern that the wait channel contains decides.
var channelKinds = []struct {
	pattern string
	kind    waitKind
}{
	{"balance_dirty", waitFileWrite},
	{"rq_qos_wait", waitFileWrite},
	{"jbd2_log_wait", waitFileSync},
	{"submit_bio_wait", waitFileSync},
	{"writeback", waitFileSync},
	{"folio_wait_bit_common", waitFileRead}, // a read or a page fault; fsync waits in folio_wait_bit
	{"folio_wait_bit", waitFileSync},
	{"folio", waitFileRead},
	{"wait_on_page", waitFileRead},
	{"iomap_dio", waitFileRead},
	{"request_wait_answer", waitFileMeta}, // FUSE: the answer of the daemon to an open, a lookup or an uncached read
	{"fuse", waitFileMeta},
	{"rpc_wait", waitFileRead},
	{"nfs", waitFileRead},
	{"io_schedule", waitFileRead},
	{"pipe_read", waitPipeRead},
	{"unix_stream_read", waitPipeRead},
	{"pipe_write", waitPipeWrite},
	{"n_tty_write", waitOutput},
	{"futex", waitFutex},
	{"nanosleep", waitSleep},
	{"poll", waitPoll}, // poll and epoll: what is polled was not readable
	{"select", waitPoll},
	{"do_wait", waitChild},
	{"wait_woken", waitSocket},
	{"sk_wait", waitSocket},
	{"tcp_", waitSocket},
	{"inet_", waitSocket},
	{"signal_stop", waitStopped},
	{"ptrace_stop", waitStopped},
}

func byChannel(channel string, disk bool) waitKind {
	if channel == "" || channel == "0" {
		return unnamed(disk)
	}
	for _, c := range channelKinds {
		if strings.Contains(channel, c.pattern) {
			return c.kind
		}
	}
	return unnamed(disk)
}

func contains(s string, any ...string) bool {
	for _, a := range any {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}
