package kernfile

import (
	"bytes"
	"math"
)

// Line cuts the first line off b. The newline belongs to neither part.
func Line(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// Field cuts the first field off b: blanks before it are skipped.
func Field(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\t' {
		j++
	}
	return b[i:j], b[j:]
}

// Uint parses a decimal number: digits alone, within 64 bits.
func Uint(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// UintField is Field and Uint in one.
func UintField(b []byte) (n uint64, rest []byte, ok bool) {
	f, rest := Field(b)
	n, ok = Uint(f)
	return n, rest, ok
}
