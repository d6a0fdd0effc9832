package launcher

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// maxLine bounds what the supervisor reads of one line: a broken agent must not make it grow.
const maxLine = 1 << 20

// message is what the reader of one agent's pipe hands to the loop.
type message struct {
	generation int
	up         handoff.Up
	eof        bool // the last message of this agent
}

// agent is the supervisor's end of one running agent.
type agent struct {
	pid        int
	generation int
	down       chan []byte   // lines for the writer; closed when there are no more
	ends       [2]*os.File   // our ends of the two pipes
	written    chan struct{} // closed when the writer has ended: after the close of down, the agent has every line
	stop       chan struct{}
	running    sync.WaitGroup
}

// startAgent runs this same binary again as the agent and starts reading what it says into to.
func startAgent(environ []string, generation int, to chan<- message) (*agent, error) {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(null)
	var down, up [2]int
	if err := syscall.Pipe2(down[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer syscall.Close(down[0])
	if err := syscall.Pipe2(up[:], syscall.O_CLOEXEC); err != nil {
		_ = syscall.Close(down[1])
		return nil, err
	}
	defer syscall.Close(up[1])
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	files = append(files, uintptr(down[0]), uintptr(up[1])) // handoff.ReadFD, handoff.WriteFD
	pid, err := forkAgent(environ, files)
	if err != nil {
		_, _ = syscall.Close(down[1]), syscall.Close(up[0])
		return nil, err
	}
	a := &agent{pid: pid, generation: generation, down: make(chan []byte, 64),
		written: make(chan struct{}), stop: make(chan struct{})}
	for i, fd := range []int{down[1], up[0]} {
		_ = syscall.SetNonblock(fd, true) // lets close end a blocked read or write
		a.ends[i] = os.NewFile(uintptr(fd), "agent")
	}
	a.running.Go(a.write)
	a.running.Go(func() { a.read(to) })
	return a, nil
}

// forkAgent runs the agent with the stop signals of the terminal blocked. ForkExec suspends the forking thread until the child
// has called exec; a child that Ctrl-Z stops before that would keep us from stopping, and the shell from its prompt. The agent
// keeps them blocked: it watches a stopped job, too, and a canary that does not stop is never stale.
func forkAgent(environ []string, files []uintptr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setMask(changeMask(sigBlock, stopSignals))
	return syscall.ForkExec("/proc/self/exe", []string{handoff.AgentArg0}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   agentEnv(environ),
		Files: files,
	})
}

// agentEnv is the environment without what would load foreign code into the agent or change its Go runtime: such variables
// are meant for the job.
func agentEnv(environ []string) []string {
	out := make([]string, 0, len(environ))
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "LD_PRELOAD", "LD_AUDIT", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GORACE":
		default:
			out = append(out, e)
		}
	}
	return out
}

// send queues a line for the agent. It never blocks: to an agent that does not read, the line is lost.
func (a *agent) send(d handoff.Down) {
	line, err := json.Marshal(d)
	if err != nil {
		return
	}
	select {
	case a.down <- append(line, '\n'):
	default:
	}
}

// write hands queued lines to the agent, and EOF after the last.
func (a *agent) write() {
	defer close(a.written)
	defer a.ends[0].Close()
	for line := range a.down {
		if _, err := a.ends[0].Write(line); err != nil {
			for range a.down { // the agent is gone: the wait loop will notice
			}
			return
		}
	}
}

// read hands the agent's lines to the loop. A line that cannot be understood is another version's, and is skipped.
func (a *agent) read(to chan<- message) {
	defer a.ends[1].Close()
	in := bufio.NewReaderSize(a.ends[1], 4096)
	for {
		line, err := readLine(in)
		if err != nil {
			a.deliver(to, message{generation: a.generation, eof: true})
			return
		}
		m := message{generation: a.generation}
		if json.Unmarshal(line, &m.up) == nil && !a.deliver(to, m) {
			return
		}
	}
}

func (a *agent) deliver(to chan<- message, m message) bool {
	select {
	case to <- m:
		return true
	case <-a.stop:
		return false
	}
}

// readLine reads one line of at most maxLine bytes.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLine:
			return nil, bufio.ErrTooLong
		}
	}
}

// release closes both pipes and waits for the two goroutines. The agent itself may live on.
func (a *agent) release() {
	close(a.stop)
	close(a.down)
	for _, f := range a.ends {
		_ = f.Close()
	}
	a.running.Wait()
}
