package proctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Archive is the files and links of a fake /proc, by path below its root ("123/stat").
type Archive struct {
	Files map[string]string
	Links map[string]string // target by path; targets need not exist
}

// NewArchive returns an empty archive.
func NewArchive() *Archive {
	return &Archive{Files: map[string]string{}, Links: map[string]string{}}
}

// The heads of the entries in the text form. A file whose text would not survive as it is (NUL bytes, no final newline, a
// line that looks like a head) is written as one quoted Go string.
const (
	headText   = "== text "
	headQuoted = "== quoted "
	headLink   = "== link "
)

// WriteTo writes the text form: per entry a head with the path, then the content. Entries are sorted by path.
func (a *Archive) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for _, path := range sorted(a.Files) {
		content := a.Files[path]
		if isPlain(content) {
			b.WriteString(headText + path + "\n" + content)
			continue
		}
		b.WriteString(headQuoted + path + "\n" + strconv.QuoteToASCII(content) + "\n")
	}
	for _, path := range sorted(a.Links) {
		b.WriteString(headLink + path + "\n" + strconv.QuoteToASCII(a.Links[path]) + "\n")
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func isPlain(s string) bool {
	if s != "" && !strings.HasSuffix(s, "\n") || strings.HasPrefix(s, "== ") || strings.Contains(s, "\n== ") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r > '~' })
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ParseArchive reads the text form.
func ParseArchive(r io.Reader) (*Archive, error) {
	a := NewArchive()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	kind, path := "", ""
	for lines.Scan() {
		line := lines.Text()
		if k, p, ok := cutHead(line); ok {
			if !filepath.IsLocal(p) {
				return nil, fmt.Errorf("parse capture: path %q leads out of it", p)
			}
			kind, path = k, p
			if kind == headText {
				a.Files[path] = ""
			}
			continue
		}
		switch kind {
		case headText:
			a.Files[path] += line + "\n"
		case headQuoted, headLink:
			s, err := strconv.Unquote(line)
			if err != nil {
				return nil, fmt.Errorf("parse capture: content of %s: %v", path, err)
			}
			if kind == headLink {
				a.Links[path] = s
			} else {
				a.Files[path] = s
			}
		default:
			return nil, fmt.Errorf("parse capture: %q comes before any head", line)
		}
	}
	return a, lines.Err()
}

func cutHead(line string) (kind, path string, ok bool) {
	for _, h := range [...]string{headText, headQuoted, headLink} {
		if p, found := strings.CutPrefix(line, h); found {
			return h, p, true
		}
	}
	return "", "", false
}

// Unpack writes the archive as files and links below root.
func (a *Archive) Unpack(root string) error {
	for _, path := range sorted(a.Files) {
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("unpack capture: %v", err)
		}
		if err := os.WriteFile(to, []byte(a.Files[path]), 0o644); err != nil {
			return fmt.Errorf("unpack capture: %v", err)
		}
	}
	for _, path := range sorted(a.Links) {
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("unpack capture: %v", err)
		}
		if err := os.Symlink(a.Links[path], to); err != nil {
			return fmt.Errorf("unpack capture: %v", err)
		}
	}
	return nil
}
