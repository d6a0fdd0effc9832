package early

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ptlaunch/ptlaunch/internal/config"
	"github.com/ptlaunch/ptlaunch/internal/handoff"
	"github.com/ptlaunch/ptlaunch/internal/identity"
	"github.com/ptlaunch/ptlaunch/launcher"
	"github.com/ptlaunch/ptlaunch/launcher/inherited"
)

// subcommands are the words that main serves. "__" is how the command-line library asks for shell completion.
var subcommands = []string{"attach", "completion", "debug", "doctor", "help", "replay", "report", "version"}

// runForm is a parsed `ptlaunch [flags] -- COMMAND [ARG…]`, or what is wrong with it.
type runForm struct {
	cfg     config.Config
	command []string
	err     error
}

// parse reads the run form. ok is false when the arguments are something else, for main to serve: a subcommand, a request for
// help, nothing at all. Everything that is neither is a run form with an error, so that a slip never starts anything.
func parse(args []string) (form runForm, ok bool) {
	end := slices.Index(args, "--")
	own := args
	if end >= 0 {
		own, form.command = args[:end], args[end+1:]
	}
	if len(args) == 0 || len(own) > 0 && servedByMain(own[0]) {
		return form, false
	}
	form.cfg = config.Default()
	fs := flag.NewFlagSet("ptlaunch", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	form.cfg.Bind(fs)
	// The variables first, so that a flag beats its variable; what is wrong with the flags is said first all the same.
	fromEnv := config.ApplyEnv(fs)
	err := fs.Parse(own)
	rest := fs.Args()
	switch {
	case errors.Is(err, flag.ErrHelp):
		return form, false
	case err != nil:
		form.err = err
	case len(rest) > 0 && slices.Contains(subcommands, rest[0]) && end < 0:
		return form, false
	case len(rest) > 0 && end < 0:
		form.err = fmt.Errorf("the command must follow --: ptlaunch [flags] -- %s", strings.Join(rest, " "))
	case len(rest) > 0:
		form.err = fmt.Errorf("unexpected %q before --", rest[0])
	case len(form.command) == 0:
		form.err = errors.New("no command: ptlaunch [flags] -- COMMAND [ARG...]")
	case fromEnv != nil:
		form.err = fromEnv
	default:
		form.err = form.cfg.Validate()
	}
	return form, true
}

func servedByMain(word string) bool {
	return slices.Contains(subcommands, word) || strings.HasPrefix(word, "__") ||
		word == "--version" || word == "-version" ||
		strings.HasPrefix(word, "-test.") // a test binary's own flags
}

// run runs the job and returns the exit code.
func (f *runForm) run() int {
	if f.err != nil {
		return usage(f.err)
	}
	environ := inherited.Environ()
	id, err := identity.New(f.command, environ, f.cfg.JobID)
	if err != nil {
		return usage(err)
	}
	return launcher.Run(launcher.Config{
		Command:      f.command,
		Environ:      environ,
		JobEnv:       id.JobEnv(environ),
		FlushTimeout: f.cfg.FlushTimeout,
		Quiet:        f.cfg.Quiet,
		NoSubreaper:  f.cfg.NoSubreaper,
		Start: handoff.Start{
			RunID:  id.RunID,
			Trace:  id.Trace,
			Config: f.cfg.Map(),
		},
	})
}

// usage says what is wrong in one line.
func usage(err error) int {
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	_, _ = fmt.Fprintf(os.Stderr, "ptlaunch: %s (see ptlaunch --help)\n", line)
	return launcher.CodeUsage
}
