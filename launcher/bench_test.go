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

// BenchmarkCanary measures from the job's first line until the canary listens: as long as that, a signal for the whole group may
// reach the job twice. Seen from outside: see listens.
func BenchmarkCanary(b *testing.B) {
	full := fullBinary(b)
	var total, longest time.Duration
	for range b.N {
		cmd := exec.Command(full, "--no-record", "--quiet", "--", "sh", "-c", "echo; exec sleep 0.4")
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for !listens(cmd.Process.Pid) {
			if time.Since(began) > deadline {
				b.Fatal("no agent listens")
			}
			time.Sleep(200 * time.Microsecond)
		}
		took := time.Since(began)
		total, longest = total+took, max(longest, took)
		_ = cmd.Wait()
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/deaf")
	b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
}

// listens reports whether the supervisor has an agent that has said that it is ready: it takes its name just after that.
func listens(supervisor int) bool {
	for _, pid := range children(supervisor) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if string(name) == "ptl-agent\n" {
			return true
		}
	}
	return false
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
