package early

import (
	"os"

	"github.com/ptlaunch/ptlaunch/internal/handoff"
)

// link is this process's end of the pipes when it is an agent, else nil. Set once, by init.
var link *AgentLink

func init() {
	if os.Args[0] == handoff.AgentArg0 {
		link = startAgentRole()
		return
	}
	if form, ok := parse(os.Args[1:]); ok {
		os.Exit(form.run())
	}
}

// Agent returns this process's link to its supervisor, if it is an agent.
func Agent() (*AgentLink, bool) { return link, link != nil }
