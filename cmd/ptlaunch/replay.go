package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/ptlaunch/ptlaunch/internal/report"
)

func newReplay() *cobra.Command {
	return &cobra.Command{Use: "replay", RunE: func(*cobra.Command, []string) error { return errors.New("not yet") }}
}

func newAttach() *cobra.Command {
	return &cobra.Command{Use: "attach", RunE: func(*cobra.Command, []string) error { return errors.New("not yet") }}
}

func newDebug() *cobra.Command {
	return &cobra.Command{Use: "debug", RunE: func(*cobra.Command, []string) error { return errors.New("not yet") }}
}

func newDoctor() *cobra.Command { return nil }

func rebuild(dir string) (*report.Document, []byte, error) { return nil, nil, errors.New("not yet") }

func writeCSV(w io.Writer, dir string) error { return errors.New("not yet") }
