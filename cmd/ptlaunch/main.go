// Command ptlaunch runs a PyTorch job exactly as it would run without it, watches it from outside, and says where the time
// went and why.
//
// A process of this binary is one of three things. A supervisor (`ptlaunch -- COMMAND`) lives and ends in package early,
// before main. An agent, started by a supervisor, observes and judges. Everything else is a subcommand.
package main

import (
	"context"
	"io"
	"os"

	"github.com/ptlaunch/ptlaunch/cmd/ptlaunch/early"
)

func main() {
	if link, ok := early.Agent(); ok {
		os.Exit(runAgent(link))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes of the subcommands. The run form's are the job's own, or those of package launcher.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // a wrong command line
)

// run serves a subcommand.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(context.Background()), stderr)
}
