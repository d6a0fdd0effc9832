package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ptlaunch/ptlaunch/internal/sampler"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// What this program does when it is started again: the first argument says which, the second is the job's first process.
const (
	roleSampler     = "sampler"      // the sampler at 1 Hz
	roleSamplerLane = "sampler-lane" // with the ranks in the fast lane
	roleFloor       = "floor"        // the reads of the sampler's files alone
	roleFloorLane   = "floor-lane"
)

// observe is the whole program in such a role. It ends by a signal.
func observe(role string, pid int) error {
	runtime.GOMAXPROCS(1)
	switch role {
	case roleSampler, roleSamplerLane:
		return runSampler(pid, role == roleSamplerLane)
	case roleFloor, roleFloorLane:
		return runFloor(pid, role == roleFloorLane)
	}
	return fmt.Errorf("%q is no role", role)
}

func runSampler(pid int, lane bool) error {
	s, err := sampler.New(sampler.Config{Interval: time.Second, Root: int32(pid), RootIsMember: true})
	if err != nil {
		return err
	}
	if !lane {
		s.SetFast([]snapshot.ProcID{})
	}
	for {
		if _, err := s.Next(context.Background()); err != nil {
			return err
		}
	}
}

// floor is what the kernel charges for the files that the sampler reads, at the least: kept descriptors, one pread each,
// nothing parsed, nothing found, in the sampler's rhythm.
type floor struct {
	hot  [][]int // per process: stat, io, schedstat
	lane [][]int // per rank: the same, and wchan and syscall
	buf  []byte
}

func runFloor(pid int, lane bool) error {
	f := &floor{buf: make([]byte, 4096)}
	if err := f.open(pid, lane); err != nil {
		return err
	}
	// The sampler's own division of a tick: one wake-up for 64 members, or one a tenth of a second for the lane.
	slots := min(max(1, (len(f.hot)+63)/64), 10)
	if lane {
		slots = 10
	}
	start := time.Now()
	for beat := 0; ; beat++ {
		left := time.Until(start.Add(time.Second * time.Duration(beat) / time.Duration(slots)))
		if left > 0 {
			// A plain sleep in the kernel, as the sampler's epoll_wait is one.
			_, _ = unix.Poll(nil, int(left.Milliseconds())+1)
		}
		for _, fds := range f.lane {
			f.read(fds)
		}
		for i := beat % slots; i < len(f.hot); i += slots {
			f.read(f.hot[i])
		}
	}
}

func (f *floor) read(fds []int) {
	for _, fd := range fds {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&f.buf[0])), uintptr(len(f.buf)), 0, 0, 0)
	}
}

// open keeps the files of all processes that descend from pid.
func (f *floor) open(pid int, lane bool) error {
	for _, p := range descendants(pid) {
		hot := openAll(p, "stat", "io", "schedstat")
		if len(hot) < 3 {
			return fmt.Errorf("keep the files of %d processes: the limit of open files is too low", len(f.hot)+1)
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p)) // what cannot be read is no rank
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if lane && strings.Contains(string(environ), "RANK=") && parentOf(string(stat)) == pid {
			f.lane = append(f.lane, append(hot, openAll(p, "wchan", "syscall")...))
		} else {
			f.hot = append(f.hot, hot)
		}
	}
	return nil
}

func openAll(pid int, names ...string) []int {
	var fds []int
	for _, name := range names {
		if fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// descendants lists a process and all that descend from it.
func descendants(pid int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		child, _ := strconv.Atoi(filepath.Base(dir))
		parent := parentOf(string(stat))
		children[parent] = append(children[parent], child)
	}
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// parentOf takes the parent's pid from a stat file, 0 when there is none. The name before it may hold anything.
func parentOf(stat string) int {
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(fields[1])
	return n
}
