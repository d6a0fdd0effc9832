package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ptlaunch/ptlaunch/"

// rule says what a package may import.
type rule struct {
	pkg  string
	may  []string
	deep bool // the packages it imports must keep to the same list: what the supervisor links decides how it starts
}

// rules says what each package may import beside the standard library: packages of this module by their path below it, others
// by module path. A pattern that ends in "/..." covers what lies below it, too. The order is the order of the flow.
var rules = []rule{
	{pkg: "internal/handoff"},
	{pkg: "internal/config"},
	{pkg: "internal/identity", may: []string{"internal/handoff"}},
	{pkg: "launcher/inherited", deep: true},
	{pkg: "launcher", may: []string{"internal/handoff", "launcher/inherited"}, deep: true},
	{pkg: "cmd/ptlaunch/early", deep: true, may: []string{
		"launcher", "launcher/inherited", "internal/handoff", "internal/config", "internal/identity",
	}},

	{pkg: "internal/snapshot"},
	{pkg: "internal/sampler/...", may: []string{
		"internal/snapshot", "internal/sampler/...", "golang.org/x/sys/...", "github.com/prometheus/procfs/...", "github.com/NVIDIA/go-nvml/...",
	}},
	{pkg: "internal/model", may: []string{"internal/snapshot"}},
	{pkg: "internal/detect", may: []string{"internal/snapshot", "internal/model"}},
	{pkg: "internal/agent", may: []string{"internal/snapshot", "internal/model", "internal/detect", "internal/handoff", "golang.org/x/sys/unix"}},
	{pkg: "internal/runfolder", may: []string{"internal/snapshot", "internal/model"}},
	{pkg: "internal/report", may: []string{"internal/snapshot", "internal/model", "internal/detect", "golang.org/x/sys/unix"}},
	{pkg: "otelio", may: []string{
		"internal/snapshot", "internal/model", "internal/detect",
		"go.opentelemetry.io/...", "google.golang.org/...", "golang.org/x/sys/unix",
		"github.com/go-logr/logr", // the type of the SDK's own logger
	}},
	{pkg: "internal/doctor", may: []string{
		"internal/snapshot", "internal/sampler/...", "golang.org/x/sys/unix", "github.com/prometheus/procfs/...",
	}},
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// TestImports: every package of the product is named by a rule and imports nothing that its rule does not allow.
func TestImports(t *testing.T) {
	for _, p := range goList(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, name) })
		switch {
		case i < 0 && isProduct(name):
			t.Errorf("package %s has no rule: say in rules what it may import", name)
		case i < 0:
			continue
		default:
			checkImports(t, p, rules[i].may)
		}
	}
}

// TestDeepImports: what the supervisor's path links stays small, however it gets there.
func TestDeepImports(t *testing.T) {
	for _, r := range rules {
		if !r.deep {
			continue
		}
		for _, p := range goList(t, "-deps", "./"+r.pkg) {
			name := strings.TrimPrefix(p.ImportPath, module)
			if p.Standard || name == r.pkg || slices.ContainsFunc(r.may, func(m string) bool { return matches(m, name) }) {
				continue
			}
			t.Errorf("%s links %s", r.pkg, p.ImportPath)
		}
	}
}

// TestOpenTelemetryStaysInOtelio: a package that is not under a rule, such as a command, may not import it either.
func TestOpenTelemetryStaysInOtelio(t *testing.T) {
	for _, p := range goList(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name == "otelio" || strings.HasPrefix(name, "internal/otlptest") || strings.HasPrefix(name, "test/") {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "go.opentelemetry.io/") {
				t.Errorf("%s imports %s; only otelio speaks OpenTelemetry", name, imp)
			}
		}
	}
}

func checkImports(t *testing.T, p listed, may []string) {
	t.Helper()
	for _, imp := range p.Imports {
		name := strings.TrimPrefix(imp, module)
		if isStandard(imp) || slices.ContainsFunc(may, func(m string) bool { return matches(m, name) }) {
			continue
		}
		t.Errorf("%s imports %s, which its rule does not allow", p.ImportPath, imp)
	}
}

// isProduct reports whether a package is linked into ptlaunch below its main package, which may import everything.
func isProduct(name string) bool {
	return name != "cmd/ptlaunch" && !strings.HasSuffix(path.Base(name), "test") &&
		!strings.HasPrefix(name, "test/") && !strings.HasPrefix(name, "examples/")
}

// isStandard: paths of the standard library have no dot in their first element.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	return pattern == name
}

// goList returns the packages that `go list` names, without their tests' imports.
func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %v: %v\n%s", args, err, exit.Stderr)
		}
		t.Fatalf("go list %v: %v", args, err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list's output: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatalf("go list %v named no package", args)
	}
	return all
}
