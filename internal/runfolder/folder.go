package runfolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Names within a run folder.
const (
	ManifestName  = "run.json"
	ReportName    = "report.json"
	LogName       = "ptlaunch.log"
	RecordingName = "recording"
	latestName    = "latest"
)

// Folder is an open run folder.
type Folder struct {
	Path    string // absolute
	Shown   string // as a person should read it: relative to the job's directory where --out was
	Trouble string // why it is not where it was asked for, "" when it is
	Found   bool   // an earlier agent of the same run had made it
}

// Place says which folder a run gets.
type Place struct {
	Dir   string // working directory of the job: Out is relative to it
	Out   string
	Name  string // of the run
	RunID string
	Start time.Time
	// Temp is where the folder goes when Out cannot be written; "" for the system's own.
	Temp string
}

// Open makes the run's folder, or finds the one that an earlier agent of the same run has made. When Out cannot be written,
// a folder of the user's own under Temp takes its place.
func Open(p Place) (*Folder, error) {
	out := p.Out
	if !filepath.IsAbs(out) {
		out = filepath.Join(p.Dir, out)
	}
	path, found, err := p.makeIn(out, 0o777)
	if err == nil {
		f := &Folder{Path: path, Shown: filepath.Join(p.Out, filepath.Base(path)), Found: found}
		f.link()
		return f, nil
	}
	temp := p.Temp
	if temp == "" {
		temp = os.TempDir()
	}
	private := filepath.Join(temp, fmt.Sprintf("ptlaunch-runs-%d", os.Getuid()))
	if terr := ensurePrivate(private); terr != nil {
		return nil, fmt.Errorf("make a run folder: %v; %v", err, terr)
	}
	path, found, terr := p.makeIn(private, 0o700)
	if terr != nil {
		return nil, fmt.Errorf("make a run folder: %v; %v", err, terr)
	}
	f := &Folder{Path: path, Shown: path, Found: found, Trouble: fmt.Sprintf("%s cannot be written (%v)", p.Out, cause(err))}
	f.link()
	return f, nil
}

// maxSameSecond bounds the runs of one name that start in one second.
const maxSameSecond = 1000

// makeIn makes the folder below out. A folder of that name that belongs to another run is passed over, one that belongs to
// this run is taken.
func (p Place) makeIn(out string, perm fs.FileMode) (path string, found bool, err error) {
	if err := os.MkdirAll(out, perm); err != nil {
		return "", false, err
	}
	base := p.Start.UTC().Format("20060102T150405Z") + "-" + clean(p.Name)
	for n := 1; n <= maxSameSecond; n++ {
		path := filepath.Join(out, base)
		if n > 1 {
			path = fmt.Sprintf("%s-%d", path, n)
		}
		err := os.Mkdir(path, perm)
		switch {
		case err == nil:
			return path, false, nil
		case !errors.Is(err, fs.ErrExist):
			return "", false, err
		}
		if m, err := Read(path); err == nil && m.RunID == p.RunID && m.Start.Equal(p.Start) {
			return path, true, nil
		}
	}
	return "", false, fmt.Errorf("%s: too many runs in one second", filepath.Join(out, base))
}

// link points OUT/latest at the folder. Whatever a person has put there instead of a link stays.
func (f *Folder) link() {
	latest := filepath.Join(filepath.Dir(f.Path), latestName)
	if info, err := os.Lstat(latest); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return
	}
	temp := fmt.Sprintf("%s.%d", latest, os.Getpid())
	if os.Symlink(filepath.Base(f.Path), temp) != nil {
		return // a file system without links: the folder's own name has to do
	}
	if os.Rename(temp, latest) != nil {
		os.Remove(temp)
	}
}

// ensurePrivate makes a folder that nobody else can read, and refuses one that somebody else has put there: /tmp is
// everybody's.
func ensurePrivate(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a private folder of ours", path)
	}
	return nil
}

// clean makes a run's name a plain file name.
func clean(name string) string {
	const most = 64
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(name, ".-")
	if len(name) > most {
		name = name[:most]
	}
	if name == "" {
		return "run"
	}
	return name
}

// cause takes the path out of an error: the message names it already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// Find resolves a person's word for a run: a path to a run folder, "latest", or the prefix of a name below out.
func Find(out, word string) (string, error) {
	if isRun(word) {
		return filepath.Clean(word), nil
	}
	if exact := filepath.Join(out, word); !filepath.IsAbs(word) && isRun(exact) {
		if resolved, err := filepath.EvalSymlinks(exact); err == nil {
			return resolved, nil
		}
		return exact, nil
	}
	if strings.ContainsRune(word, filepath.Separator) {
		return "", fmt.Errorf("%s is not a run folder: it has no %s", word, ManifestName)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		return "", fmt.Errorf("look for run %q in %s: %v", word, out, cause(err))
	}
	var matches []string
	for _, e := range entries {
		if e.Name() != latestName && strings.HasPrefix(e.Name(), word) && isRun(filepath.Join(out, e.Name())) {
			matches = append(matches, e.Name())
		}
	}
	switch len(matches) {
	case 0:
		return "", fmt.Errorf("no run %q in %s", word, out)
	case 1:
		return filepath.Join(out, matches[0]), nil
	}
	return "", fmt.Errorf("%q is not clear: %d runs in %s begin so, for example %s and %s",
		word, len(matches), out, matches[0], matches[len(matches)-1])
}

func isRun(path string) bool {
	info, err := os.Stat(filepath.Join(path, ManifestName))
	return err == nil && info.Mode().IsRegular()
}
