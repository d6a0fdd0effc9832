package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ptlaunch/ptlaunch/internal/config"
)

// usageError is a wrong command line.
type usageError struct{ error }

// exitCode says what is wrong in one line and returns the exit code for it.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	line := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "ptlaunch: %s (see ptlaunch --help)\n", line)
		return exitUsage
	}
	fmt.Fprintf(stderr, "ptlaunch: %s\n", line)
	return exitFailed
}

const rootHelp = `ptlaunch runs a PyTorch job exactly as it would run without it: same terminal,
signals, exit code. Meanwhile it watches the job from outside and, at the end,
says where the time went, what held training back, and what to try. Nothing is
injected into the job and no privileges are needed.

  ptlaunch [flags] -- COMMAND [ARG...]

Everything is kept in a run folder. With an OTLP endpoint in the usual OTEL_*
variables, metrics and one trace per run are sent there, too.`

const rootExample = `  ptlaunch -- python train.py
  ptlaunch --name resnet --out /scratch/runs -- torchrun --nproc-per-node 8 train.py
  OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317 ptlaunch -- python train.py

  ptlaunch report latest         the verdict of the newest run again
  ptlaunch attach 4711           watch a job that already runs
  ptlaunch doctor                what can be seen on this machine, and what not`

// rootTemplate documents the run form's flags as well, which package early parses.
const rootTemplate = `{{.Long}}

Examples:
{{.Example}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

Flags of a run; each can be set by a variable, --flush-timeout by
PTLAUNCH_FLUSH_TIMEOUT and so on, and a flag beats its variable:
{{runFlags}}
Exit code: the command's own. 125: this command line is wrong, nothing was
started; 126: the command cannot be run; 127: it was not found.

"ptlaunch COMMAND --help" says more about a command.
`

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: "ptlaunch", Short: "run a PyTorch job and say where the time went", Long: rootHelp, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true, Args: noSuchCommand,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cobra.AddTemplateFunc("runFlags", runFlagsHelp)
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			c.SetHelpTemplate(rootTemplate)
		}
		c.SetHelpFunc(nil)
		c.Root().SetHelpFunc(nil)
		_ = c.Help()
	})
	var showVersion bool
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if showVersion {
			printVersion(c.OutOrStdout())
			return nil
		}
		return c.Help()
	}
	root.AddCommand(newAttach(), newReport(), newReplay(), newVersion(), newDoctor(), newDebug())
	return root
}

func noSuchCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("no command %q; to run a job: ptlaunch [flags] -- %s", args[0], strings.Join(args, " "))}
}

// exactly is cobra.ExactArgs with a usage error that says what is wanted.
func exactly(what ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(what):
			return usageError{fmt.Errorf("%s: %s is missing", c.Name(), what[len(args)])}
		case len(args) > len(what):
			return usageError{fmt.Errorf("%s: unexpected %q", c.Name(), args[len(what)])}
		}
		return nil
	}
}

// runFlagsHelp describes the flags of the run form.
func runFlagsHelp() string {
	cfg := config.Default()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	cfg.Bind(fs)
	return flagUsages(fs)
}

func flagUsages(fs *flag.FlagSet) string {
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.AddGoFlagSet(fs)
	return p.FlagUsagesWrapped(helpWidth)
}

const helpWidth = 100

// bindConfig gives a subcommand the settings of a run by the given names; load applies variables and flags and validates.
func bindConfig(c *cobra.Command, names ...string) (load func() (config.Config, error)) {
	cfg := config.Default()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	cfg.Bind(fs)
	// The variables first: what they say is the default that help shows, and a flag beats it.
	envErr := config.ApplyEnv(fs)
	for _, name := range names {
		c.Flags().AddGoFlag(fs.Lookup(name))
	}
	return func() (config.Config, error) {
		if envErr != nil {
			return cfg, usageError{envErr}
		}
		if err := cfg.Validate(); err != nil {
			return cfg, usageError{err}
		}
		return cfg, nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			printVersion(c.OutOrStdout())
			return nil
		},
	}
}

func printVersion(w io.Writer) {
	fmt.Fprintf(w, "ptlaunch %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
