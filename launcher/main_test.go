package launcher_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/cmd/ptlaunch/early"
)

// probeArg starts the one argument that makes the test binary a probe: a job that reports what happens to it.
const probeArg = "-test.probe="

// TestMain makes the test binary a whole ptlaunch: package early has served the run form before we get here, an agent and the
// probes are served now, and everything else is a test run.
func TestMain(m *testing.M) {
	if link, ok := early.Agent(); ok {
		os.Exit(testAgent(link))
	}
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], probeArg); ok {
			os.Exit(probe(name, os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// testAgent is the smallest agent: it waits for the job's end and says goodbye. Variables of the test make it a bad one.
//
//	TEST_AGENT       crash: exits at once; hang: never says anything again after Start; late: says goodbye after 10 s
//	TEST_AGENT_FILE  where it appends "start GENERATION JOB PID", then "stopping SIGNAL", then "exit CODE SIGNAL" or "eof"
func testAgent(link *early.AgentLink) int {
	note := func(format string, args ...any) {
		f, err := os.OpenFile(os.Getenv("TEST_AGENT_FILE"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = fmt.Fprintf(f, format+"\n", args...)
	}
	var text string
	for d := range link.Lines() {
		switch {
		case d.Start != nil:
			note("start %d %d %d", d.Start.Generation, d.Start.Job, os.Getpid())
			switch os.Getenv("TEST_AGENT") {
			case "crash":
				return 3
			case "hang":
				select {}
			}
			if e := d.Start.StartError; e != "" {
				note("start error: %s", e)
			}
		case d.Stopping != nil:
			note("stopping %d", d.Stopping.Signal)
		case d.Exit != nil:
			text = fmt.Sprintf("farewell: code %d signal %d\n", d.Exit.Code, d.Exit.Signal)
			note("exit %d %d", d.Exit.Code, d.Exit.Signal)
		}
	}
	if text == "" {
		note("eof")
	}
	if os.Getenv("TEST_AGENT") == "late" {
		time.Sleep(10 * time.Second)
	}
	_ = link.Farewell(text)
	link.Close()
	return 0
}
