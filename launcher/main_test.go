package launcher_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ptlaunch/ptlaunch/cmd/ptlaunch/early"
)

// TestMain makes the test binary a whole ptlaunch: package early has served the run form before we get here, an agent is served
// now, and everything else is a test run.
func TestMain(m *testing.M) {
	if link, ok := early.Agent(); ok {
		os.Exit(testAgent(link))
	}
	os.Exit(m.Run())
}

// testAgent is the smallest agent: it waits for the job's end and says goodbye. FAKE_AGENT in its environment makes it a bad one.
func testAgent(link *early.AgentLink) int {
	switch os.Getenv("FAKE_AGENT") {
	case "crash":
		return 3
	case "hang":
		time.Sleep(time.Hour)
	}
	var text string
	for d := range link.Lines() {
		switch {
		case d.Exit != nil:
			text = fmt.Sprintf("farewell: code %d signal %d\n", d.Exit.Code, d.Exit.Signal)
		}
	}
	_ = link.Farewell(text)
	link.Close()
	return 0
}
