package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// TestMain lets the test binary be ptlaunch: as supervisor and subcommands under that name, as agent under its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ptlaunch": main, handoff.AgentArg0: main})
}

// TestScripts runs the scripts in testdata: the command line as a user meets it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			// A collector's variables of the machine that runs the tests must not reach them.
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "TRACEPARENT", "PTLAUNCH_OUT"} {
				env.Setenv(name, "")
			}
			env.Setenv("PYTHON", python())
			return nil
		},
	})
}

// python is the interpreter of the machine's own packages, else the first on PATH.
func python() string {
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err == nil {
		return system
	}
	return "python3"
}
