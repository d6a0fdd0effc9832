package launcher

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

const (
	// maxRestarts bounds how often a dead agent is started again: one that cannot live must not become a fork loop.
	maxRestarts = 3
	// defaultBackoff is the pause before the first restart.
	defaultBackoff = time.Second
	// distrust is how long after being continued the agent's reports are not believed: it may now see signals from before.
	distrust = 30 * time.Millisecond
	// patience is how soon after the job's end a further signal is taken as "do not wait for the telemetry": earlier ones are
	// those that ended the job.
	patience = 300 * time.Millisecond
)

// supervisor is the state of one run. Only the goroutine of Run touches it.
type supervisor struct {
	cfg     Config
	was     inherited.State
	signals chan os.Signal // to pass on; roomy, because os/signal drops what does not fit
	reap    chan os.Signal // CHLD: "some child changed", however many
	up      chan message
	timer   *time.Timer // the earliest of canary.next and restartAt
	canary  canary

	job    int                 // pid, 0 before the start and after the end
	status *syscall.WaitStatus // how the job ended
	ended  time.Duration

	agent     *agent // nil while none runs
	restarts  int
	restartAt time.Duration // 0: no restart is due
	farewell  *string
}

// Run runs the job and returns ptlaunch's exit code, the job's own. When the job was ended by a signal, and ptlaunch is not
// PID 1, Run ends this process by the same signal and does not return.
func Run(c Config) int {
	s := &supervisor{
		cfg:     c,
		was:     inherited.Read(),
		signals: make(chan os.Signal, 256),
		reap:    make(chan os.Signal, 1),
		up:      make(chan message, 64),
		timer:   time.NewTimer(time.Hour),
	}
	if s.cfg.Backoff == 0 {
		s.cfg.Backoff = defaultBackoff
	}
	code, started := s.start()
	if started {
		s.watch()
		code = s.exitCode()
	}
	s.finish(code)
	if started && s.status.Signaled() && os.Getpid() != 1 {
		dieBy(s.status.Signal())
	}
	return code
}

// start runs the job and then the agent. When the job cannot be started, it says why and returns the exit code; the agent is
// started all the same, to put the failure on record.
func (s *supervisor) start() (code int, started bool) {
	signal.Notify(s.reap, syscall.SIGCHLD)
	var late []syscall.Signal // ignored until the job has inherited that
	for _, sig := range Forwarded() {
		if s.was.Ignored.Has(sig) {
			late = append(late, sig)
		} else {
			signal.Notify(s.signals, sig)
		}
	}
	if !s.cfg.NoSubreaper {
		setSubreaper()
	}
	about := &s.cfg.Start
	about.Supervisor, about.Command = os.Getpid(), s.cfg.Command
	about.Dir, _ = syscall.Getwd()
	about.Wall, about.Mono = time.Now(), Monotonic()
	pid, err := startJob(&s.cfg, s.was)
	if err != nil {
		about.StartError = startMessage(s.cfg.Command[0], err)
		code = startCode(err)
		_, _ = fmt.Fprintf(os.Stderr, "ptlaunch: %s: %s\n", s.cfg.Command[0], about.StartError)
	}
	s.job, about.Job = pid, pid
	notify(s.signals, late)
	letGo(s.cfg.Quiet)
	s.startAgent()
	return code, err == nil
}

// watch runs until the job has ended.
func (s *supervisor) watch() {
	s.reapAll() // it may have ended already, and its CHLD been merged with another
	for s.status == nil {
		s.setTimer()
		select {
		case sig := <-s.signals:
			s.take(sig.(syscall.Signal))
		case <-s.reap:
			s.reapAll()
		case m := <-s.up:
			s.hear(m)
		case <-s.timer.C:
			s.onTimer()
		}
	}
}

// take decides about a signal that the supervisor got.
func (s *supervisor) take(sig syscall.Signal) {
	if s.agent != nil && stopping(sig) {
		s.agent.send(handoff.Down{Stopping: &handoff.Stopping{Signal: int(sig)}})
	}
	if s.canary.arrived(sig, Monotonic()) {
		s.forward(sig)
	}
}

// forward sends sig to the job. The job may be gone but not reaped: then nothing happens, as without ptlaunch.
func (s *supervisor) forward(sigs ...syscall.Signal) {
	for _, sig := range sigs {
		if s.job != 0 {
			_ = syscall.Kill(s.job, sig)
		}
	}
}

// onTimer passes on what the agent did not report. What it did report may wait in the channel: read that first.
func (s *supervisor) onTimer() {
	for {
		select {
		case m := <-s.up:
			s.hear(m)
			continue
		default:
		}
		break
	}
	now := Monotonic()
	s.forward(s.canary.due(now)...)
	if s.restartAt != 0 && now >= s.restartAt {
		s.startAgent()
	}
}

func (s *supervisor) setTimer() {
	next, ok := s.canary.next()
	if s.restartAt != 0 && (!ok || s.restartAt < next) {
		next, ok = s.restartAt, true
	}
	if !ok {
		s.timer.Stop()
		return
	}
	s.timer.Reset(max(0, next-Monotonic()))
}

// hear takes a line of an agent. Lines of an earlier one may still come after its death.
func (s *supervisor) hear(m message) {
	if s.agent == nil || m.generation != s.agent.generation {
		return
	}
	switch {
	case m.eof:
		s.forward(s.canary.silence()...)
	case m.up.Ready != nil:
		s.canary.listen(Monotonic())
	case m.up.Signal != nil:
		s.canary.reported(syscall.Signal(m.up.Signal.Signal), m.up.Signal.Mono, Monotonic())
	case m.up.Farewell != nil:
		s.farewell = &m.up.Farewell.Text
	}
}

// reapAll takes every child that ended or changed: one CHLD may stand for many. As subreaper or PID 1 most are not ours.
func (s *supervisor) reapAll() {
	const wcontinued = 8
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED|wcontinued, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || pid <= 0:
			return
		case pid == s.job && (status.Exited() || status.Signaled()):
			s.job, s.status, s.ended = 0, &status, Monotonic()
			s.tellExit()
		case s.agent != nil && pid == s.agent.pid:
			s.agentChanged(status)
		}
	}
}

func (s *supervisor) tellExit() {
	if s.agent == nil || s.status == nil {
		return
	}
	e := &handoff.Exit{Code: s.exitCode(), Core: s.status.CoreDump(), Wall: time.Now(), Mono: s.ended}
	if s.status.Signaled() {
		e.Signal = int(s.status.Signal())
	}
	s.agent.send(handoff.Down{Exit: e})
}

// agentChanged follows the agent's life. While it is stopped it reports nothing, so nothing waits for it.
func (s *supervisor) agentChanged(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		s.forward(s.canary.silence()...)
	case status.Continued():
		s.canary.listen(Monotonic() + distrust)
	default:
		s.forward(s.canary.silence()...)
		s.agent.release()
		s.agent = nil
		s.planRestart()
	}
}

// startAgent starts an agent, the first or the next. Failing to is not an error of the run: the job goes on unobserved.
func (s *supervisor) startAgent() {
	s.restartAt = 0
	a, err := startAgent(s.cfg.Environ, s.cfg.Start.Generation, s.up)
	if err != nil {
		s.planRestart()
		return
	}
	s.agent = a
	start := s.cfg.Start
	a.send(handoff.Down{Start: &start})
	s.cfg.Start.Generation++
}

func (s *supervisor) planRestart() {
	if s.restarts < maxRestarts {
		s.restartAt = Monotonic() + s.cfg.Backoff<<(2*s.restarts)
		s.restarts++
	}
}

func (s *supervisor) exitCode() int {
	if s.status.Signaled() {
		return 128 + int(s.status.Signal())
	}
	return s.status.ExitStatus()
}
