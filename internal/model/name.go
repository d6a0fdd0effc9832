package model

import (
	"path"
	"strings"
)

// CommandName is what a run is called after: the base name of the training script in its command line, with its suffix
// taken off for a module only ("train.py" for `torchrun … train.py`, "train" for `python -m pkg.train`), else the base name
// of the command.
func CommandName(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	for i, a := range argv {
		if strings.HasSuffix(a, ".py") && !isDistributed(strings.TrimSuffix(path.Base(a), ".py")) {
			return path.Base(a)
		}
		if (a == "-m" || a == "--module") && i+1 < len(argv) && !isDistributed(argv[i+1]) {
			m := argv[i+1]
			return m[strings.LastIndexByte(m, '.')+1:]
		}
	}
	return path.Base(argv[0])
}

// program is the base name of what a command line runs: the script or the module of a Python interpreter, "-c" for code
// on the command line, else the command itself. A module keeps its dots, a script loses its ".py".
func program(argv []string, python bool) string {
	if len(argv) == 0 {
		return ""
	}
	if !python {
		return strings.TrimPrefix(path.Base(argv[0]), "-") // a login shell is called -bash
	}
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		switch {
		case a == "-m" && i+1 < len(argv):
			return argv[i+1]
		case strings.HasPrefix(a, "-m") && !strings.HasPrefix(a, "--"):
			return a[2:]
		case strings.HasPrefix(a, "-c"):
			return "-c"
		case a == "-W" || a == "-X" || a == "--check-hash-based-pycs":
			i++
		case a == "-" || a == "":
		case strings.HasPrefix(a, "-"):
		default:
			return strings.TrimSuffix(path.Base(a), ".py")
		}
	}
	return path.Base(argv[0])
}
