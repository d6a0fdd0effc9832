package inherited

import (
	"os"
	"strings"
)

// Environ returns the environment byte for byte, in its order. os.Environ would drop the second of two entries with one name.
// Without a readable /proc it is os.Environ all the same.
func Environ() []string {
	block, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return splitEnviron(string(block))
}

// splitEnviron splits entries that each end in a NUL byte.
func splitEnviron(block string) []string {
	if block == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(block, "\x00"), "\x00")
}
