package main

import "github.com/spf13/cobra"

// newDebug groups what helps to find a fault in ptlaunch itself.
func newDebug() *cobra.Command {
	return &cobra.Command{Use: "debug", Short: "for bug reports", Hidden: true, Args: noSuchCommand}
}

// newDoctor is nil until there is one.
func newDoctor() *cobra.Command { return nil }
