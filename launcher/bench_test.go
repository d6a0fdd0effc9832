package launcher_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// fullBinary builds the product: the test binary holds neither gRPC nor OpenTelemetry.
func fullBinary(b *testing.B) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), "ptlaunch")
	if out, err := exec.Command("go", "build", "-o", file, "../cmd/ptlaunch").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return file
}

// BenchmarkStart measures from the start of the wrapper to the first byte that the job writes.
func BenchmarkStart(b *testing.B) {
	full := fullBinary(b)
	for _, w := range []struct {
		name string
		argv []string
	}{
		{"bare", nil},
		{"tini", []string{look(b, "tini"), "-s", "--"}},
		{"dumb-init", []string{look(b, "dumb-init"), "--"}},
		{"ptlaunch", []string{full, "--no-record", "--quiet", "--"}},
	} {
		b.Run(w.name, func(b *testing.B) {
			argv := append(append([]string{}, w.argv...), look(b, "cat"), "/proc/uptime")
			var total time.Duration
			for range b.N {
				cmd := exec.Command(argv[0], argv[1:]...)
				out, err := cmd.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				if _, err := out.Read(make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				total += time.Since(began)
				_ = cmd.Wait()
			}
			b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/first-byte")
		})
	}
}

// BenchmarkMemory reports what a supervisor holds while its job runs: resident, and private alone.
func BenchmarkMemory(b *testing.B) {
	full := fullBinary(b)
	for range b.N {
		cmd := exec.Command(full, "--no-record", "--quiet", "--", "sleep", "1")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", cmd.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(kilobytes(rollup, "Rss"), "kB-resident")
		b.ReportMetric(kilobytes(rollup, "Private_Dirty"), "kB-private")
		_ = cmd.Wait()
	}
}

func kilobytes(rollup []byte, field string) float64 {
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(rollup)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb
}
