package early

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
	"github.com/ptlaunch/ptlaunch/launcher"
)

// niceness of the agent. Not the lowest: the canary must answer within its window of 50 ms while the job keeps every core busy.
// With six busy loops on two cores, of 120 signals to the group 4 to 45 came late at niceness 19, up to 7 at 10, none at 5.
const niceness = 5

// afterlife is how long an agent may outlive a supervisor that has told how the job ended and did not wait.
const afterlife = 5 * time.Second

// AgentLink is an agent's end of the two pipes, and its canary.
//
// The canary reports every signal that the process gets to the supervisor, from before main until Close, and does nothing else
// with it: an agent ends when its supervisor tells it to, not by signals.
type AgentLink struct {
	lines   chan handoff.Down
	signals chan os.Signal
	stop    chan struct{}
	running sync.WaitGroup

	mu sync.Mutex // keeps the lines of canary and agent apart
	up *os.File
}

// startAgentRole makes this process an agent: what it is called, how little it matters, and the canary. It must not fail: each
// step only helps.
func startAgentRole() *AgentLink {
	link := &AgentLink{
		lines:   make(chan handoff.Down, 16),
		signals: make(chan os.Signal, 256),
		stop:    make(chan struct{}),
		up:      os.NewFile(handoff.WriteFD, "supervisor"),
	}
	for _, sig := range launcher.Forwarded() {
		signal.Notify(link.signals, sig)
	}
	// Before anything else, so that whoever sees us act on Start knows that the canary has announced itself.
	_ = link.say(handoff.Up{Ready: &handoff.Ready{PID: os.Getpid()}})
	link.running.Go(link.canary)
	stepBack()
	syscall.CloseOnExec(handoff.ReadFD)
	syscall.CloseOnExec(handoff.WriteFD)
	go link.read(os.NewFile(handoff.ReadFD, "supervisor"))
	return link
}

// Lines yields what the supervisor says, Start first; it is closed at EOF. EOF without Exit means that the supervisor died.
func (l *AgentLink) Lines() <-chan handoff.Down { return l.lines }

// Farewell hands over the text to print. It is the agent's last line.
func (l *AgentLink) Farewell(text string) error {
	return l.say(handoff.Up{Farewell: &handoff.Farewell{Text: text}})
}

// Close stops the canary and closes the pipe to the supervisor. From here on, signals have their default effect.
func (l *AgentLink) Close() {
	signal.Stop(l.signals)
	close(l.stop)
	l.running.Wait()
	_ = l.up.Close()
}

func (l *AgentLink) say(up handoff.Up) error {
	line, err := json.Marshal(up)
	if err != nil {
		return fmt.Errorf("encode line: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.up.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to supervisor: %v", err)
	}
	return nil
}

// canary reports signals. Errors do not matter: without a supervisor nobody needs the reports.
func (l *AgentLink) canary() {
	for {
		select {
		case sig := <-l.signals:
			_ = l.say(handoff.Up{Signal: &handoff.Report{Signal: int(sig.(syscall.Signal)), Mono: launcher.Monotonic()}})
		case <-l.stop:
			return
		}
	}
}

// read decodes lines until EOF. It ends with the supervisor or with the process: nothing waits for it, because a read of a
// pipe whose other end lives cannot be interrupted.
//
// A supervisor that did not wait for the farewell cannot end a late agent either, so that is done here. One that died before
// the job leaves an agent which goes on for as long as the job does.
func (l *AgentLink) read(from *os.File) {
	in := json.NewDecoder(bufio.NewReader(from))
	exited := false
	for {
		var d handoff.Down
		if err := in.Decode(&d); err != nil {
			break
		}
		exited = exited || d.Exit != nil
		l.lines <- d
	}
	close(l.lines)
	if exited {
		time.Sleep(afterlife)
		os.Exit(1)
	}
}

// stepBack makes the job matter more than this process: to the out-of-memory killer, the scheduler and the disk.
func stepBack() {
	const prSetName = 15
	name := append([]byte(handoff.AgentArg0), 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&name[0])), 0)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	lowerPriority()
}

// lowerPriority does for every thread that exists by now what the kernel keeps per thread; later threads inherit it.
func lowerPriority() {
	const (
		ioprioWhoProcess = 1
		ioprioIdle       = 3 << 13 // class idle: the disk serves everybody else first
	)
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, niceness)
		_, _, _ = syscall.RawSyscall(syscall.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(tid), ioprioIdle)
	}
}
