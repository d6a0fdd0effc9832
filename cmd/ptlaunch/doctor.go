package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ptlaunch/ptlaunch/internal/doctor"
	"github.com/ptlaunch/ptlaunch/internal/sampler/nvml"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [flags] [PID]",
		Short: "what can be seen here, what not, why, and how to change that",
		Long: "Looks at every source that ptlaunch reads and says whether it can be read here; if not, why, and what exactly\n" +
			"would open it. With PID it looks at that process, else at what a job started by you would look like.",
		Example: "  ptlaunch doctor\n  ptlaunch doctor --json 4711",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("doctor: unexpected %q", args[1])}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	load := bindConfig(c, "procfs", "sysfs")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		o := doctor.Options{Procfs: cfg.Procfs, Sysfs: cfg.Sysfs, GPUs: nvml.Library(""), Env: os.Getenv}
		if len(args) == 1 {
			if o.PID, err = parsePID(c.Name(), args[0]); err != nil {
				return err
			}
		}
		r := doctor.Examine(c.Context(), o)
		if asJSON {
			return r.WriteJSON(c.OutOrStdout())
		}
		return r.WriteText(c.OutOrStdout())
	}
	return c
}
