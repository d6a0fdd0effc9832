package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A scenario takes 10 to 30 s on an idle machine; one that takes this long hangs.
const jobDeadline = 4 * time.Minute

// runJob runs the scenario's job on the stage, under ptlaunch unless that is "". It returns the job's exit code.
func runJob(ctx context.Context, st *stage, s Scenario, ptlaunch, repo string) (int, error) {
	script := filepath.Join(st.jobs, "job.py")
	prepare := exec.CommandContext(ctx, st.python, script, "--prepare", s.job())
	prepare.Env, prepare.Stderr = st.env, os.Stderr
	if err := prepare.Run(); err != nil {
		return 0, fmt.Errorf("prepare %s: %v", s.Name, err)
	}
	argv := []string{st.python, script, s.job()}
	if s.Ranks > 1 {
		argv = []string{st.python, filepath.Join(repo, "examples", "torchrun.py"), "--standalone",
			fmt.Sprintf("--nproc_per_node=%d", s.Ranks), script, s.job()}
	}
	if ptlaunch != "" {
		argv = append([]string{ptlaunch, "--out", st.path("runs"), "--"}, argv...)
	}
	argv = st.inside(argv)

	ctx, cancel := context.WithTimeout(ctx, jobDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = st.env, st.path("scratch")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	logged, err := os.Create(st.path("output"))
	if err != nil {
		return 0, err
	}
	defer logged.Close()
	cmd.Stdout, cmd.Stderr = logged, logged
	if s.Env.DeafOutput {
		stop, err := deafReader(cmd)
		if err != nil {
			return 0, err
		}
		defer stop()
	}
	err = cmd.Run()
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("run %s: %v", s.Name, ctx.Err())
	case errors.As(err, &status):
		return status.ExitCode(), nil
	}
	return 0, err
}

// deafReader gives the command a pipe for its output whose reader stops reading for eight seconds once the job has begun to
// write, and then reads on. The returned function waits for the reader's end.
func deafReader(cmd *exec.Cmd) (func(), error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.CopyN(io.Discard, r, 100_000)
		time.Sleep(8 * time.Second)
		io.Copy(io.Discard, r)
	}()
	return func() {
		w.Close()
		<-done
		r.Close()
	}, nil
}
