package identity

import "strings"

// Traceparent is a parsed W3C trace context header.
type Traceparent struct {
	TraceID string // 32 hex digits, not all zero
	SpanID  string // 16 hex digits, not all zero
	Flags   string // 2 hex digits
}

// ParseTraceparent reads a traceparent value as https://www.w3.org/TR/trace-context/ asks: a malformed one counts as absent,
// one of a later version is read by the fields of version 00.
func ParseTraceparent(s string) (Traceparent, bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-") + 2
	if len(s) < length {
		return Traceparent{}, false
	}
	version := s[:2]
	switch {
	case !isHex(version) || version == "ff":
		return Traceparent{}, false
	case version == "00" && len(s) != length:
		return Traceparent{}, false
	case len(s) > length && s[length] != '-':
		return Traceparent{}, false
	}
	if s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Traceparent{}, false
	}
	tp := Traceparent{TraceID: s[3:35], SpanID: s[36:52], Flags: s[53:55]}
	if !isHex(tp.TraceID) || !isHex(tp.SpanID) || !isHex(tp.Flags) || allZero(tp.TraceID) || allZero(tp.SpanID) {
		return Traceparent{}, false
	}
	return tp, true
}

// isHex reports whether s is lower-case hexadecimal; the format forbids upper case.
func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func allZero(s string) bool { return strings.Trim(s, "0") == "" }
