package runfolder

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// Schema is the version of run.json. A reader accepts every version that begins with "ptlaunch.run/1".
const Schema = "ptlaunch.run/1"

// Manifest is run.json: what a recording needs beside its snapshots to be judged again, and what a person wants to know
// without reading the rest.
type Manifest struct {
	Schema     string            `json:"schema"`
	RunID      string            `json:"run_id"`
	Name       string            `json:"name"`
	Command    []string          `json:"command"` // redacted
	Dir        string            `json:"working_directory,omitempty"`
	Host       string            `json:"host"`
	Version    string            `json:"ptlaunch_version"`
	Attached   bool              `json:"attached,omitempty"`
	Root       snapshot.ProcID   `json:"root"`
	Start      time.Time         `json:"start"`
	StartMono  time.Duration     `json:"start_monotonic_ns"`
	BootOffset time.Duration     `json:"boot_offset_ns,omitempty"` // CLOCK_BOOTTIME less CLOCK_MONOTONIC
	Trace      Trace             `json:"trace"`
	Env        map[string]string `json:"environment,omitempty"` // allow-listed and redacted
	Config     map[string]string `json:"config,omitempty"`
	Thresholds json.RawMessage   `json:"thresholds,omitempty"`
	Blind      []string          `json:"blind,omitempty"` // what the machine does not show, a sentence each
	Agents     int               `json:"agents"`          // how many agents have observed the run, one after the other
	End        *End              `json:"end,omitempty"`
}

// Trace is the run's place in the trace.
type Trace struct {
	TraceID  string `json:"trace_id"`
	RootSpan string `json:"root_span_id"`
	NodeSpan string `json:"node_span_id"`
	Parent   string `json:"parent_span_id,omitempty"`
	State    string `json:"tracestate,omitempty"`
	JobID    string `json:"job_id,omitempty"`
	EmitRoot *bool  `json:"emit_root,omitempty"`
}

// End says how the run ended.
type End struct {
	At         time.Time            `json:"at"`
	Mono       time.Duration        `json:"monotonic_ns"`
	Status     *snapshot.ExitStatus `json:"status,omitempty"`
	StartError string               `json:"start_error,omitempty"`
	Detached   bool                 `json:"detached,omitempty"`
	Verdict    string               `json:"verdict,omitempty"`
	Signals    []Signal             `json:"signals,omitempty"`
}

// Signal is a signal that reached ptlaunch.
type Signal struct {
	Signal int           `json:"signal"`
	Mono   time.Duration `json:"monotonic_ns"`
}

// New makes the manifest of a run that has just started.
func New(run model.Run) *Manifest {
	return &Manifest{
		Schema: Schema, RunID: run.ID, Name: run.Name, Command: run.Command, Host: run.Host, Version: run.Version,
		Attached: run.Attached, Root: run.Root, Start: run.Start, StartMono: run.StartMono, Trace: Trace(run.Trace), Env: run.Env,
		Agents: 1,
	}
}

// Run returns what the manifest says about the run; dir is the folder it lies in.
func (m *Manifest) Run(dir string) model.Run {
	return model.Run{
		ID: m.RunID, Name: m.Name, Command: m.Command, Version: m.Version, Host: m.Host, Attached: m.Attached, Root: m.Root,
		Start: m.Start, StartMono: m.StartMono, Trace: model.Trace(m.Trace), Env: m.Env, Dir: dir,
	}
}

// SetOutcome notes how the run ended.
func (m *Manifest) SetOutcome(o model.Outcome) {
	e := &End{At: o.End, Mono: o.EndMono, Status: o.Status, StartError: o.StartError, Detached: o.Detached, Verdict: o.Verdict}
	for _, s := range o.Signals {
		e.Signals = append(e.Signals, Signal{Signal: s.Signal, Mono: s.At})
	}
	m.End = e
}

// Outcome returns how the run ended; ok is false when the manifest was never completed: the agent was killed, or still runs.
func (m *Manifest) Outcome() (o model.Outcome, ok bool) {
	if m.End == nil {
		return o, false
	}
	o = model.Outcome{
		End: m.End.At, EndMono: m.End.Mono, Status: m.End.Status, StartError: m.End.StartError, Detached: m.End.Detached,
		Verdict: m.End.Verdict,
	}
	for _, s := range m.End.Signals {
		o.Signals = append(o.Signals, model.SignalSeen{Signal: s.Signal, At: s.Mono})
	}
	return o, true
}

// Write replaces run.json in the folder.
func (m *Manifest) Write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %v", ManifestName, err)
	}
	return WriteFile(filepath.Join(dir, ManifestName), append(data, '\n'))
}

// Read reads the manifest of a run folder.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read %s: %v", path, err)
	}
	if len(m.Schema) < len(Schema) || m.Schema[:len(Schema)] != Schema {
		return nil, fmt.Errorf("read %s: schema %q is not known to this version of ptlaunch (it reads %s)", path, m.Schema, Schema)
	}
	return m, nil
}

// WriteFile writes a file so that a reader, and a crash, see either the old content or the whole new one.
func WriteFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %v", path, cause(err))
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("write %s: %v", path, cause(err))
	}
	return nil
}
