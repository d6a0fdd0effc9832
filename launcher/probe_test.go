package launcher_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ptlaunch/ptlaunch/launcher"
)

// probe is a job that says what happens to it.
func probe(name string, args []string) int {
	switch name {
	case "signals":
		return probeSignals(os.Stdin)
	case "signals, no input": // for the background, where a read of the terminal would stop it; it ends after a minute
		never, w, err := os.Pipe()
		if err != nil {
			return 97
		}
		time.AfterFunc(time.Minute, func() { _ = w.Close() })
		return probeSignals(never)
	case "inherit":
		dir, err := os.Getwd()
		fmt.Printf("args %q\ncwd %q %v\nenviron %q\nppid %d\n", os.Args, dir, err, os.Environ(), os.Getppid())
		return 0
	case "launch": // a supervisor that does not wait long before it starts a dead agent again
		return launcher.Run(launcher.Config{
			Command: args, Environ: os.Environ(), JobEnv: os.Environ(), FlushTimeout: time.Second, Backoff: time.Millisecond,
		})
	case "launch, no processes left":
		if err := starve(); err != nil {
			fmt.Println(err)
			return 96
		}
		return launcher.Run(launcher.Config{Command: args, Environ: os.Environ(), JobEnv: os.Environ(), FlushTimeout: time.Second})
	case "orphans":
		n, _ := strconv.Atoi(args[0])
		return probeOrphans(n)
	}
	return 99
}

// probeSignals prints "ready", then "got N" per signal, and "echo LINE" per line of from. It ends with code 0 at EOF.
func probeSignals(from *os.File) int {
	got := make(chan os.Signal, 1024)
	for _, sig := range launcher.Forwarded() {
		signal.Notify(got, sig)
	}
	signal.Notify(got, syscall.SIGWINCH, syscall.SIGCONT)
	fmt.Println("ready")
	end := make(chan struct{})
	go func() {
		defer close(end)
		in := bufio.NewScanner(from)
		for in.Scan() {
			fmt.Println("echo", in.Text())
		}
	}()
	for {
		select {
		case sig := <-got:
			fmt.Println("got", int(sig.(syscall.Signal)))
		case <-end:
			return 0
		}
	}
}

// starve makes this a process of a user who may not have one more process or thread. The Go runtime would crash for want of a
// thread, so it gets some first.
func starve() error {
	var wait sync.WaitGroup
	together := make(chan struct{})
	for range 16 {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			<-together
		})
	}
	time.Sleep(50 * time.Millisecond)
	close(together)
	wait.Wait()
	const nobody, rlimitNproc = 65533, 6
	if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		return err
	}
	return syscall.Setrlimit(rlimitNproc, &syscall.Rlimit{Cur: 1, Max: 1})
}

// probeOrphans leaves n orphans behind, all of which end at about the same time, waits until its parent has reaped them, and
// prints how many zombies there are.
func probeOrphans(n int) int {
	// Each shell forks a sleeper and ends.
	for range n {
		_ = exec.Command("/bin/sh", "-c", "sleep 0.3 &").Run()
	}
	zombies := -1
	for range 100 {
		zombies = 0
		entries, _ := os.ReadDir("/proc")
		sleepers := 0
		for _, e := range entries {
			stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
			if err != nil {
				continue
			}
			switch {
			case strings.Contains(string(stat), ") Z "):
				zombies++
			case strings.Contains(string(stat), "(sleep)"):
				sleepers++
			}
		}
		if sleepers == 0 && zombies == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("zombies", zombies)
	return 0
}
