package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// keepRun copies what a replay needs into folder: the recording as it is (it is compressed), the manifest, and the truth.
func keepRun(run, truth, folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(folder, "recording"), os.DirFS(filepath.Join(run, "recording"))); err != nil {
		return fmt.Errorf("keep recording: %v", err)
	}
	if err := copyFile(filepath.Join(run, "run.json"), filepath.Join(folder, "run.json")); err != nil {
		return fmt.Errorf("keep manifest: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(truth, "*.jsonl"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(folder, "truth"), 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := compressFile(name, filepath.Join(folder, "truth", filepath.Base(name)+".gz")); err != nil {
			return fmt.Errorf("keep truth: %v", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

func compressFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, in)
	return errors.Join(err, zip.Close(), out.Close())
}
