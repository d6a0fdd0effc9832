package procfs

import (
	"slices"
	"strings"
)

// Redacted stands for a value that was taken out.
const Redacted = "[redacted]"

// RedactArgs returns a command line without the values that look like secrets: those of options and assignments whose
// name says so, credentials and signed parameters in URLs, well-known token formats, and long random words. It errs on
// the side of taking out too much. The input is not changed.
func RedactArgs(args []string) []string {
	out := make([]string, len(args))
	next := strict(0) // what the previous argument says of this one
	for i, arg := range args {
		out[i], next = redactArg(arg, next)
	}
	return out
}

// RedactText does the same to free text, such as a script handed to a shell with -c, or the value of a variable.
func RedactText(s string) string {
	var b strings.Builder
	next := strict(0)
	for s != "" {
		n := strings.IndexFunc(s, isBreak)
		if n < 0 {
			n = len(s)
		}
		if n > 0 {
			var word string
			word, next = redactWord(s[:n], next)
			b.WriteString(word)
			s = s[n:]
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

func isBreak(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\'' || r == '"' || r == ';' || r == ','
}

// strict is how sure a name makes us that its value is a secret.
type strict uint8

const (
	notSecret   strict = iota
	maybeSecret        // "token", "key": harmless when the value is a small number or a switch (--token-dim 64)
	surelySecret
)

func redactArg(arg string, before strict) (string, strict) {
	if before != notSecret && !strings.HasPrefix(arg, "-") {
		return redactValue(arg, before), notSecret
	}
	if strings.ContainsFunc(arg, isBreak) {
		return RedactText(arg), notSecret
	}
	return redactWord(arg, notSecret)
}

// redactWord handles a word without blanks and says what it announces for the next one.
func redactWord(word string, before strict) (string, strict) {
	if isScheme(word) {
		return word, surelySecret // Authorization: Bearer …
	}
	if before != notSecret && !strings.HasPrefix(word, "-") {
		return redactValue(word, before), notSecret
	}
	if strings.Contains(word, "://") {
		return redactURL(word), notSecret
	}
	if name, value, ok := strings.Cut(word, "="); ok {
		if s := secretName(name); s != notSecret {
			if value == "" {
				return word, s // NAME='…' in a script: the quote ends the word
			}
			return name + "=" + redactValue(value, s), notSecret
		}
		return redactRandom(name) + "=" + redactRandom(value), notSecret
	}
	if strings.HasPrefix(word, "-") {
		return word, secretName(word)
	}
	if name, value, ok := strings.Cut(word, ":"); ok && secretName(name) == surelySecret { // as in HTTP headers and YAML
		if value == "" {
			return word, surelySecret
		}
		return name + ":" + Redacted, notSecret
	}
	return redactRandom(word), notSecret
}

func redactValue(value string, s strict) string {
	if value == "" || s == maybeSecret && isPlain(value) {
		return value
	}
	return Redacted
}

// isScheme reports the word that stands before the secret in an HTTP header.
func isScheme(word string) bool {
	return strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic")
}

// isPlain reports a value that gives nothing away: a small number, a switch.
func isPlain(v string) bool {
	switch strings.ToLower(v) {
	case "true", "false", "yes", "no", "none", "null", "on", "off":
		return true
	}
	return len(v) <= 7 && strings.Trim(v, "0123456789.e-+") == ""
}

// secretName judges the name of an option, variable or parameter by its words.
func secretName(name string) strict {
	level := notSecret
	words := splitName(name)
	for i, w := range words {
		switch strings.ToLower(w) {
		case "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "credential", "credentials",
			"apikey", "authorization", "signature", "sig", "auth", "dsn":
			return surelySecret
		case "token", "key", "pat":
			level = maybeSecret
			// api-key, access_token, …: the words before leave no doubt.
			if i > 0 && slices.Contains(sureBefore, strings.ToLower(words[i-1])) {
				return surelySecret
			}
		}
		if l := strings.ToLower(w); strings.HasSuffix(l, "password") || strings.HasSuffix(l, "apikey") ||
			strings.HasSuffix(l, "secret") || strings.HasSuffix(l, "accesskey") || strings.HasSuffix(l, "authtoken") {
			return surelySecret
		}
	}
	return level
}

var sureBefore = []string{"api", "access", "secret", "private", "auth", "hf", "wandb", "refresh", "session", "account"}

// splitName splits at punctuation and where lower case turns upper: apiKey, api-key and API_KEY are the same words.
func splitName(name string) []string {
	var words []string
	start := 0
	for i := 0; i <= len(name); i++ {
		end := i == len(name) || !isAlnum(name[i])
		hump := !end && i > start && isUpper(name[i]) && isLower(name[i-1])
		if (end || hump) && i > start {
			words = append(words, name[start:i])
		}
		switch {
		case end:
			start = i + 1
		case hump:
			start = i
		}
	}
	return words
}

// redactURL takes the credentials and the secret parameters out of a URL.
func redactURL(u string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		rest = Redacted + rest[at:]
	}
	path, query, ok := strings.Cut(rest, "?")
	segments := strings.Split(path, "/")
	for i := range segments[1:] {
		segments[i+1] = redactRandom(segments[i+1])
	}
	out := scheme + "://" + strings.Join(segments, "/")
	if name, value, ok := strings.Cut(scheme, "="); ok && secretName(name) == surelySecret && value != "" {
		return name + "=" + Redacted
	}
	if !ok {
		return out
	}
	params := strings.Split(query, "&")
	for i, p := range params {
		params[i], _ = redactWord(p, notSecret)
	}
	return out + "?" + strings.Join(params, "&")
}

// tokenPrefixes begin the tokens of services that training scripts talk to.
var tokenPrefixes = []string{"hf_", "sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ", "AIza"}

// redactRandom takes out words that look like a token: a known prefix, or a long run of letters and digits mixed the way
// only a machine mixes them.
func redactRandom(word string) string {
	for _, p := range tokenPrefixes {
		if len(word) >= 16 && strings.HasPrefix(word, p) {
			return Redacted
		}
	}
	start := 0
	for i := 0; i <= len(word); i++ {
		if i < len(word) && (isAlnum(word[i]) || word[i] == '+') {
			continue
		}
		if isRandom(word[start:i]) {
			return Redacted
		}
		start = i + 1
	}
	return word
}

// isRandom reports 20 characters or more in which the kind of character (lower, upper, digit) changes at least once in
// five: 40 hex digits of a key do so some 20 times, a run name with a date in it two or three times.
func isRandom(s string) bool {
	if len(s) < 20 {
		return false
	}
	changes := 0
	for i := 1; i < len(s); i++ {
		if kind(s[i]) != kind(s[i-1]) {
			changes++
		}
	}
	return changes*5 >= len(s)
}

func kind(c byte) int {
	switch {
	case isLower(c):
		return 1
	case isUpper(c):
		return 2
	}
	return 3
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isAlnum(c byte) bool { return isLower(c) || isUpper(c) || c >= '0' && c <= '9' }
