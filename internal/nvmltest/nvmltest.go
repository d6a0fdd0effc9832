package nvmltest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/fakenvml.c
var source string

// EnvScenario names the scenario file for the library.
const EnvScenario = "FAKE_NVML_SCENARIO"

// Build compiles the fake into dir as libnvidia-ml.so.1 and returns its path. Flags are the compiler's: -DWITHOUT_TEMPERATURE.
//
// A process can use one build only: the binding resolves each symbol once, in whichever library came first.
func Build(dir string, flags ...string) (string, error) {
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Wl,-soname,libnvidia-ml.so.1", "-Wl,-z,nodelete", "-x", "c", "-o", lib, "-"}, flags...)
	cmd := exec.Command("gcc", args...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %v\n%s", lib, err, out)
	}
	return lib, nil
}

// Scenario is a scenario file.
type Scenario struct {
	path string
	t    testing.TB
}

// NewScenario makes a scenario file with some lines and points the library at it for the rest of the test.
func NewScenario(t testing.TB, lines string) *Scenario {
	t.Helper()
	s := &Scenario{path: filepath.Join(t.TempDir(), "scenario"), t: t}
	s.Set(lines)
	t.Setenv(EnvScenario, s.path)
	return s
}

// Set replaces the lines. A call in the library sees either the old ones or the new ones.
func (s *Scenario) Set(lines string) {
	s.t.Helper()
	next := s.path + ".next"
	if err := os.WriteFile(next, []byte(lines), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, s.path); err != nil {
		s.t.Fatal(err)
	}
}

// Two is two healthy GPUs: 0 at 80 %, 1 at 20 %.
const Two = `0 - count 2
0 * name NVIDIA H100 80GB HBM3
0 0 uuid GPU-00000000-0000-0000-0000-000000000000
0 1 uuid GPU-11111111-1111-1111-1111-111111111111
0 0 minor 0
0 1 minor 1
0 0 utilization 80
0 1 utilization 20
0 * memory_utilization 30
0 * memory_total 85899345920
0 * memory_used 1073741824
0 * power 350000
0 * power_limit 700000
0 * temperature 55
0 * sm_clock 1700
0 * max_sm_clock 1980
0 * throttle 4
0 * pcie_rx 2048
0 * pcie_tx 1024
0 * ecc_corrected 3
0 * ecc_uncorrected 0
0 * nvlink_rx 2
0 * nvlink_tx 1
0 * mig 0
`
