package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ptlaunch/ptlaunch/internal/proctest"
)

// newDebug groups what helps to find a fault in ptlaunch itself.
func newDebug() *cobra.Command {
	c := &cobra.Command{
		Use: "debug", Short: "for bug reports", Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCaptureProc())
	return c
}

func newCaptureProc() *cobra.Command {
	c := &cobra.Command{
		Use:   "capture-proc [flags] PID",
		Short: "write down what /proc shows of a job",
		Long: "Prints one moment of the process PID and its descendants as a text archive, which ptlaunch's tests can take for\n" +
			"/proc. Command lines and environments are redacted; look it through before you send it to anybody all the same.",
		Example: "  ptlaunch debug capture-proc 4711 > job.proc",
		Args:    exactly("PID"),
	}
	load := bindConfig(c, "procfs")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		pid, err := parsePID(c.Name(), args[0])
		if err != nil {
			return err
		}
		archive, err := proctest.Capture(cfg.Procfs, pid)
		if err != nil {
			return fmt.Errorf("capture process %d: %v", pid, err)
		}
		_, err = archive.WriteTo(c.OutOrStdout())
		return err
	}
	return c
}

// parsePID reads a pid from the command line.
func parsePID(command, word string) (int32, error) {
	pid, err := strconv.ParseInt(word, 10, 32)
	if err != nil || pid <= 0 {
		return 0, usageError{fmt.Errorf("%s: %q is not a pid", command, word)}
	}
	return int32(pid), nil
}
