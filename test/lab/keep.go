package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// keepRun copies what a replay needs into folder: the recording, the manifest, and the truth. The paths of this checkout and
// of the control group that the laboratory itself runs in are taken out: they say nothing, and would change with every machine.
func keepRun(run, truth, repo, folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, sub := range []string{"recording", "truth"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			return err
		}
	}
	neutral := neutralize(repo)
	manifest, err := os.ReadFile(filepath.Join(run, "run.json"))
	if err != nil {
		return fmt.Errorf("keep manifest: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run.json"), []byte(neutral.Replace(string(manifest))), 0o644); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(run, "recording", "*.gz"))
	if err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(truth, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, name := range segments {
		if err := compressFile(name, filepath.Join(folder, "recording", filepath.Base(name)), neutral); err != nil {
			return fmt.Errorf("keep recording: %v", err)
		}
	}
	for _, name := range logs {
		if err := compressFile(name, filepath.Join(folder, "truth", filepath.Base(name)+".gz"), neutral); err != nil {
			return fmt.Errorf("keep truth: %v", err)
		}
	}
	return nil
}

// neutralize replaces the checkout's folder and the names of our own control groups.
func neutralize(repo string) *strings.Replacer {
	pairs := []string{repo, "/src/ptlaunch"}
	own, _ := os.ReadFile("/proc/self/cgroup") // absent without cgroups: nothing to hide then
	for line := range strings.Lines(string(own)) {
		if _, path, ok := strings.Cut(strings.TrimSpace(line), ":/"); ok && len(path) > 1 {
			pairs = append(pairs, path, "job")
		}
	}
	return strings.NewReplacer(pairs...)
}

// compressFile copies a file, compressed or not, to a compressed one.
func compressFile(from, to string, change *strings.Replacer) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	var r io.Reader = in
	if filepath.Ext(from) == ".gz" {
		if r, err = gzip.NewReader(in); err != nil {
			return err
		}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = change.WriteString(zip, string(text))
	return errors.Join(err, zip.Close(), out.Close())
}
