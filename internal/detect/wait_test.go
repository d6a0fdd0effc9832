package detect

import (
	"testing"

	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// TestClassify: the places of facts recorded on Linux 6.18 with torch 1.13 and 2.6, and the same with the call denied.
func TestClassify(t *testing.T) {
	call := func(nr int32, args ...uint64) *snapshot.Syscall {
		s := &snapshot.Syscall{Nr: nr}
		copy(s.Args[:], args)
		return s
	}
	for _, c := range []struct {
		name    string
		state   byte
		channel string
		call    *snapshot.Syscall
		want    waitKind
		blind   waitKind
	}{
		{"computing", 'R', "", &snapshot.Syscall{Running: true}, waitNone, waitNone},
		{"loader", 'S', "poll_schedule_timeout.constprop.0", call(7, 1, 1, 5000), waitLoaderPipe, waitPoll},
		{"loader, the rest of the time", 'S', "poll_schedule_timeout.constprop.0", call(7, 1, 1, 4969), waitLoaderPipe, waitPoll},
		{"rendezvous store", 'S', "poll_schedule_timeout.constprop.0", call(7, 1, 1, 1800000), waitPoll, waitPoll},
		{"asyncio", 'S', "ep_poll", call(232, 1, 1, 100), waitPoll, waitPoll},
		{"pin queue", 'S', "futex_do_wait", call(202, 1, 0x89, 0, 0x7ffc), waitTimedFutex, waitFutex},
		{"gloo", 'S', "futex_do_wait", call(202, 1, 0x189, 0, 0), waitUntimedFutex, waitFutex},
		{"libgomp", 'S', "futex_do_wait", call(202, 1, 0x80, 2, 0), waitOpenMP, waitFutex},
		{"cold read", 'D', "folio_wait_bit_common", call(0, 10, 1, 2), waitFileRead, waitFileRead},
		{"page fault", 'D', "folio_wait_bit_common", call(-1), waitPageFault, waitFileRead},
		{"FUSE open", 'S', "request_wait_answer", call(257, 1), waitFileMeta, waitFileMeta},
		{"FUSE write", 'S', "request_wait_answer", call(1, 9), waitFileWrite, waitFileMeta},
		{"dirty throttling", 'D', "balance_dirty_pages", call(20, 9), waitFileWrite, waitFileWrite},
		{"fsync", 'D', "jbd2_log_wait_commit", call(74, 9), waitFileSync, waitFileSync},
		{"fsync waits for pages", 'D', "folio_wait_bit", call(74, 9), waitFileSync, waitFileSync},
		{"http", 'S', "wait_woken", call(45, 5), waitSocket, waitSocket},
		{"subprocess", 'S', "do_wait", call(61, 5), waitChild, waitChild},
		{"sleep", 'S', "hrtimer_nanosleep", call(230, 1), waitSleep, waitSleep},
		{"full pipe", 'S', "anon_pipe_write", call(1, 1), waitOutput, waitPipeWrite},
		{"full pipe of a worker", 'S', "anon_pipe_write", call(1, 9), waitPipeWrite, waitPipeWrite},
		{"terminal", 'S', "n_tty_write", call(1, 2), waitOutput, waitOutput},
		{"batch through a pipe", 'S', "unix_stream_read_generic", call(0, 9), waitPipeRead, waitPipeRead},
		{"stopped", 'T', "do_signal_stop", call(7, 1, 1, 5000), waitStopped, waitStopped},
		{"no symbols", 'S', "0", nil, waitOther, waitOther},
		{"no symbols, disk", 'D', "0", nil, waitFileRead, waitFileRead},
		{"unknown call of another architecture", 'S', "futex_do_wait", call(98, 1, 0x189), waitFutex, waitFutex},
	} {
		if got := classify(c.state, &snapshot.Wait{WChan: c.channel, Syscall: c.call}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := classify(c.state, &snapshot.Wait{WChan: c.channel}); got != c.blind {
			t.Errorf("%s, call denied: %s, want %s", c.name, got, c.blind)
		}
	}
	if got := classify('S', nil); got != waitOther {
		t.Errorf("nothing read: %s", got)
	}
}

func TestPolledSocketIsNoLoader(t *testing.T) {
	sc := &snapshot.Syscall{Nr: 7, Args: [4]uint64{1, 1, 3000}, Poll: "socket:[5]"}
	if got := classify('S', &snapshot.Wait{Syscall: sc}); got != waitSocket {
		t.Errorf("%s", got)
	}
	sc.Poll, sc.Args[2] = "pipe:[5]", 60000
	if got := classify('S', &snapshot.Wait{Syscall: sc}); got != waitLoaderPipe {
		t.Errorf("%s", got)
	}
}

func TestKindOfFile(t *testing.T) {
	for name, want := range map[string]fileKind{
		"/c/a.pt": fileModel, "/c/a.pt.tmp": fileModel, "/c/.a.pt.tmp-17": fileModel, "/c/model.safetensors": fileModel,
		"/c/__0_1.distcp": fileModel, "/c/.metadata": fileModel, "/c/.metadata.tmp": fileModel, "/c/x": fileUnknown,
		"/c/step-100": fileUnknown, "/c/train.log": fileOther, "/c/events.out.tfevents.1.host": fileOther,
		"/c/cache-1.arrow": fileOther, "/c/core.123": fileOther, "/c/model.safetensors.incomplete": fileOther,
		"/dev/shm/torch_123_456_7": fileOther, "/c/worker.pt.trace.json": fileOther, "": fileUnknown,
	} {
		if got := kindOfFile(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func FuzzKindOfFile(f *testing.F) {
	f.Add("/c/.a.pt.tmp-17")
	f.Add("....")
	f.Fuzz(func(t *testing.T, name string) {
		kindOfFile(name)
		rankInName(name)
	})
}
