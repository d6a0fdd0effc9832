// Package torchenv finds the Python that has PyTorch, for the tests and the laboratory.
package torchenv

import (
	"fmt"
	"os"
	"os/exec"
)

// Install is the line that gives a Debian or Ubuntu machine what the PyTorch tests need.
const Install = "apt-get install --no-install-recommends python3-torch python3-numpy"

// Python returns the interpreter to run PyTorch jobs with: $PTLAUNCH_PYTHON, else /usr/bin/python3 (where Debian's packages
// put it), else the first python3 of PATH. The error names how to install it.
func Python() (string, error) {
	candidates := []string{"/usr/bin/python3", "python3"}
	if own := os.Getenv("PTLAUNCH_PYTHON"); own != "" {
		candidates = []string{own}
	}
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// find_spec does not import it: an import takes seconds on a busy machine.
		const ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
		if exec.Command(path, "-c", ask).Run() == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find PyTorch: none of %q has it; install it (%s), or name an interpreter in PTLAUNCH_PYTHON", candidates, Install)
}
