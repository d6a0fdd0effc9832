package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A recording is a folder of numbered segments, each a gzip stream of JSON lines: a header, then one Snapshot per line. A
// segment can be read alone, because its header repeats the facts of all processes that lived when it began. The format is
// plain on purpose: zcat and jq read it.

// recordingFormat and recordingVersion begin every segment. The version goes up when an older reader would misread what is
// written; a field that is added does not need it.
const (
	recordingFormat  = "ptlaunch.recording"
	recordingVersion = 1
)

const segmentSuffix = ".jsonl.gz"

// header is the first line of a segment.
type header struct {
	Format  string     `json:"format"`
	Version int        `json:"version"`
	Segment int        `json:"segment"`
	Wall    time.Time  `json:"wall"`
	Infos   []ProcInfo `json:"infos,omitempty"`
	Dropped Dropped    `json:"dropped,omitzero"`
}

// Dropped is what a recording has lost to its size cap.
type Dropped struct {
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"` // compressed
}

func segmentPath(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%06d%s", n, segmentSuffix))
}

// segments lists the numbers of the segments in a folder, ascending.
func segments(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ns []int
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(base); err == nil && n > 0 {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}
