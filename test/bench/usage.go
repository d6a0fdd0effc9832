package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used of the machine.
type usage struct {
	CPU time.Duration // of all its threads that live, since their start
	RSS int64         // bytes
}

// readUsage reads the usage of a process. The times in stat have a resolution of 10 ms, which is a tenth of what the
// sampler uses in a window; schedstat counts nanoseconds, but of one thread each.
func readUsage(pid int) (usage, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return usage{}, fmt.Errorf("read the CPU time of process %d: it has ended", pid)
	}
	var u usage
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended just now
		}
		ns, err := parseRunTime(string(data))
		if err != nil {
			return u, fmt.Errorf("read %s: %v", file, err)
		}
		u.CPU += ns
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return u, fmt.Errorf("read the memory of process %d: %v", pid, err)
	}
	u.RSS, err = parseResident(string(data))
	return u, err
}

// parseRunTime takes the time on a CPU from a schedstat file.
func parseRunTime(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, fmt.Errorf("%q are not three numbers", text)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(ns), err
}

// parseResident takes the resident bytes from a statm file.
func parseResident(text string) (int64, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("%q has no second field", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// countProcesses is how many processes the machine has: what a tool that looks at all of them has to read.
func countProcesses() int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	return len(dirs)
}
