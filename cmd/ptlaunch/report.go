package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ptlaunch/ptlaunch/internal/report"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
)

const runHelp = "RUN is a run folder, \"latest\", or how the name of a run folder below --out begins."

func newReport() *cobra.Command {
	var asJSON, asCSV bool
	c := &cobra.Command{
		Use:   "report [flags] RUN",
		Short: "the verdict and the figures of a recorded run",
		Long:  "Prints what a run's end printed, from its folder.\n\n" + runHelp,
		Example: "  ptlaunch report latest\n  ptlaunch report --json latest | jq .findings\n" +
			"  ptlaunch report --csv 20261130T > figures.csv",
		Args: exactly("RUN"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print report.json")
	c.Flags().BoolVar(&asCSV, "csv", false, "print a row per second and role that was active")
	load := bindConfig(c, "out")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		switch {
		case err != nil:
			return err
		case asJSON && asCSV:
			return usageError{errors.New("report: --json or --csv, not both")}
		}
		dir, err := runfolder.Find(cfg.Out, args[0])
		if err != nil {
			return err
		}
		if asCSV {
			return writeCSV(c.OutOrStdout(), dir)
		}
		doc, data, err := readReport(dir)
		if err != nil {
			return err
		}
		if asJSON {
			_, err = c.OutOrStdout().Write(data)
			return err
		}
		fmt.Fprint(c.OutOrStdout(), report.Text(doc, report.TextOptions{Path: filepath.Join(dir, runfolder.ReportName)}))
		return nil
	}
	return c
}

// readReport reads a run's report.json. A run that was cut off has none: it is made from the recording then.
func readReport(dir string) (*report.Document, []byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, runfolder.ReportName))
	if errors.Is(err, fs.ErrNotExist) {
		return rebuild(dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the report: %v", err)
	}
	doc, err := report.Decode(data)
	return doc, data, err
}
