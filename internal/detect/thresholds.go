package detect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
)

// Thresholds are all the figures that judgements turn on. Each carries its unit, its origin and what it means in its tags, so
// that the report can print the ones in force and a file can override them by name. Origins: a source by name is
// published; "measured" rests on recordings of real PyTorch jobs; "proposed" is a starting point.
type Thresholds struct {
	// Phases.
	SettleSeconds        float64 `json:"settle_seconds" unit:"s" origin:"proposed" doc:"time that a reading is held before it is booked on a phase, so that a checkpoint, a peer or the end seen a little later can still claim it"`
	StartupSettleSeconds float64 `json:"startup_settle_seconds" unit:"s" origin:"proposed" doc:"the same while a rank is still starting: longer, because the end of a start without workers shows only afterwards"`
	EndHoldSeconds       float64 `json:"end_hold_seconds" unit:"s" origin:"measured" doc:"the same while a rank shows no sign of its training loop any more and may be about to end"`
	PlateauSeconds       float64 `json:"plateau_seconds" unit:"s" origin:"measured" doc:"a rank without workers has started when its resident memory has not grown for this long"`
	PlateauGrowth        float64 `json:"plateau_growth" unit:"1" origin:"measured" doc:"growth of resident memory within plateau_seconds that still counts as none"`
	AttachAgeSeconds     float64 `json:"attach_age_seconds" unit:"s" origin:"proposed" doc:"a rank that is older than this in the first frame was not seen starting: it is accounted from the first frame on"`
	LongSyncSeconds      float64 `json:"long_sync_seconds" unit:"s" origin:"proposed" doc:"an unbroken wait in a collective of this length, while another rank is not in it, is a wait for that rank"`
	SyncExcess           float64 `json:"sync_excess" unit:"1" origin:"NVRx (a rank under 0.75 of the best is a straggler)" doc:"share of the time by which a rank waits longer in collectives than the rank that waits least, before it counts as waiting for that rank: less is the jitter of equal ranks"`
	SyncWindowSeconds    float64 `json:"sync_window_seconds" unit:"s" origin:"proposed" doc:"window of the comparison of ranks in collectives"`

	// Stalls.
	StallStretchSeconds   float64 `json:"stall_stretch_seconds" unit:"s" origin:"proposed" doc:"a stall opens when a rank lost this much at a stretch"`
	StallWindowSeconds    float64 `json:"stall_window_seconds" unit:"s" origin:"proposed" doc:"the window of the next two"`
	StallOpenShare        float64 `json:"stall_open_share" unit:"1" origin:"TraceML (critical band)" doc:"a stall opens when a rank lost this share of the window"`
	StallCloseShare       float64 `json:"stall_close_share" unit:"1" origin:"TraceML (warning band)" doc:"a stall closes when the loss over the window falls under this share"`
	ConfidentStallSeconds float64 `json:"confident_stall_seconds" unit:"s" origin:"proposed" doc:"lost time from which a cause may be called with high confidence"`
	CloseCandidates       float64 `json:"close_candidates" unit:"1" origin:"proposed" doc:"two causes whose weights differ by less than this are both named, with low confidence"`

	// Checkpoints.
	CheckpointMinBytes     float64 `json:"checkpoint_min_bytes" unit:"By" origin:"proposed" doc:"smallest checkpoint: a write burst into a file that is named like one"`
	CheckpointUnnamedBytes float64 `json:"checkpoint_unnamed_bytes" unit:"By" origin:"proposed" doc:"smallest checkpoint when no file, or a file of an unknown kind, was seen"`
	BurstRate              float64 `json:"burst_rate" unit:"By/s" origin:"measured" doc:"writing faster than this begins a burst"`
	BurstGapSeconds        float64 `json:"burst_gap_seconds" unit:"s" origin:"proposed" doc:"a burst ends when nothing was written for this long"`
	MeanWriteBytes         float64 `json:"mean_write_bytes" unit:"By" origin:"measured" doc:"a model state is written in few large calls: a smaller mean is a log, a cache or a download"`
	ReadBackShare          float64 `json:"read_back_share" unit:"1" origin:"measured" doc:"reads beside a burst above this share of its writes make it a cache or offload traffic"`
	DownloadShare          float64 `json:"download_share" unit:"1" origin:"proposed" doc:"network bytes received beside a burst above this share of its writes make it a download"`
	BackgroundShare        float64 `json:"background_share" unit:"1" origin:"measured" doc:"a burst is in the background when the main thread was seen elsewhere, or used less than the rest of the process's CPU time, for this share of it"`
	SaveGroupSeconds       float64 `json:"save_group_seconds" unit:"s" origin:"proposed" doc:"writes of different ranks this close together belong to one save of the job"`

	// Causes.
	WorkerIdleAhead    float64 `json:"worker_idle_ahead" unit:"1" origin:"measured" doc:"workers that wait for work for this share of the time are ahead of their rank"`
	Dominant           float64 `json:"dominant" unit:"1" origin:"measured" doc:"share of a worker's active time from which one kind of waiting, or running, is what it does"`
	SlowWorkerBusy     float64 `json:"slow_worker_busy" unit:"1" origin:"proposed" doc:"one worker busy for this share of the time ..."`
	SlowWorkerOthers   float64 `json:"slow_worker_others" unit:"1" origin:"proposed" doc:"... while the others wait for work for this share holds the others back"`
	RunQueueRatio      float64 `json:"run_queue_ratio" unit:"1" origin:"proposed" doc:"time spent waiting for a CPU, relative to the time on one, from which CPUs are short"`
	ThrottledPeriods   float64 `json:"throttled_periods" unit:"1" origin:"proposed" doc:"share of the scheduler's periods in which the cgroup's quota ran out"`
	FreeCPUs           float64 `json:"free_cpus" unit:"{cpu}" origin:"proposed" doc:"idle CPUs, of those the job may use, from which one more worker would have found room"`
	SmallRequestBytes  float64 `json:"small_request_bytes" unit:"By" origin:"Drishti names 1 MiB; measured with Python's own reads" doc:"mean bytes per read call below which operations, not bytes, are the limit"`
	MetadataShare      float64 `json:"metadata_share" unit:"1" origin:"proposed" doc:"share of storage waits spent in open, stat and the like from which metadata is the limit"`
	AtLimitShare       float64 `json:"at_limit_share" unit:"1" origin:"proposed" doc:"share of a configured rate limit, or of a device's time, from which it is used up"`
	MemoryPressure     float64 `json:"memory_pressure" unit:"1" origin:"proposed" doc:"share of the time in which tasks stalled for memory (PSI some) from which memory is short"`
	MajorFaultsPerSec  float64 `json:"major_faults_per_second" unit:"{fault}/s" origin:"measured" doc:"major faults per second and process that make memory, or mapped files, visible in a wait"`
	MemoryNearLimit    float64 `json:"memory_near_limit" unit:"1" origin:"proposed" doc:"share of the memory limit in use, droppable cache left out, from which it is near"`
	ShmFullShare       float64 `json:"shm_full_share" unit:"1" origin:"proposed" doc:"share of /dev/shm in use from which it is full"`
	CauseQuorumSamples float64 `json:"cause_quorum_samples" unit:"{sample}" origin:"proposed" doc:"readings of workers needed before a cause is named"`
	GPUIdle            float64 `json:"gpu_idle" unit:"1" origin:"TraceML" doc:"GPU utilisation below this is low"`
	GPUSpin            float64 `json:"gpu_spin" unit:"1" origin:"measured (reported by NVIDIA/nccl#968)" doc:"utilisation above this at low power is a kernel that waits in a collective"`
	GPUSpinPower       float64 `json:"gpu_spin_power" unit:"1" origin:"reported (NVIDIA/nccl#968: 70 W of 400 W)" doc:"share of the power limit below which a busy GPU only waits"`
	GPUThrottledShare  float64 `json:"gpu_throttled_share" unit:"1" origin:"proposed" doc:"share of readings in which the GPU clocked itself down for heat or power"`
	HotMainThread      float64 `json:"hot_main_thread" unit:"1" origin:"measured" doc:"CPUs that the rank itself burns while its workers are ahead, from which its own code is what holds it back"`
	CutShortSeconds    float64 `json:"cut_short_seconds" unit:"s" origin:"proposed" doc:"a process that ends this soon after its last write, with the file still open, was cut short"`

	// Words in the log while the run goes on.
	LiveStallSeconds         float64 `json:"live_stall_seconds" unit:"s" origin:"proposed" doc:"an open stall of this length gets a line in the log while it lasts"`
	CollectiveTimeoutSeconds float64 `json:"collective_timeout_seconds" unit:"s" origin:"PyTorch (default timeout of NCCL process groups since 2.2; gloo has 1800)" doc:"how long the other ranks wait for one that saves before they give up"`
	LiveSaveShare            float64 `json:"live_save_share" unit:"1" origin:"proposed" doc:"a save that takes longer than this share of collective_timeout_seconds gets a line in the log while it lasts"`
}

// Default returns the thresholds in force when no file overrides them.
func Default() Thresholds {
	return Thresholds{
		LiveStallSeconds: 30, CollectiveTimeoutSeconds: 600, LiveSaveShare: 0.2,
		SettleSeconds: 1.5, StartupSettleSeconds: 7, EndHoldSeconds: 10, PlateauSeconds: 4, PlateauGrowth: 0.03, AttachAgeSeconds: 10,
		LongSyncSeconds: 1, SyncExcess: 0.25, SyncWindowSeconds: 10,

		StallStretchSeconds: 1, StallWindowSeconds: 5, StallOpenShare: 0.2, StallCloseShare: 0.1,
		ConfidentStallSeconds: 20, CloseCandidates: 0.1,

		CheckpointMinBytes: 1 << 20, CheckpointUnnamedBytes: 16 << 20, BurstRate: 8e6, BurstGapSeconds: 0.6,
		MeanWriteBytes: 128 << 10, ReadBackShare: 0.5, DownloadShare: 0.5, BackgroundShare: 0.3, SaveGroupSeconds: 2,

		WorkerIdleAhead: 0.8, Dominant: 0.5, SlowWorkerBusy: 0.7, SlowWorkerOthers: 0.6, RunQueueRatio: 0.2,
		ThrottledPeriods: 0.1, FreeCPUs: 0.5, SmallRequestBytes: 64 << 10, MetadataShare: 0.5, AtLimitShare: 0.8,
		MemoryPressure: 0.1, MajorFaultsPerSec: 20, MemoryNearLimit: 0.9, ShmFullShare: 0.95, CauseQuorumSamples: 4,
		GPUIdle: 0.3, GPUSpin: 0.9, GPUSpinPower: 0.35, GPUThrottledShare: 0.5, HotMainThread: 0.8, CutShortSeconds: 2,
	}
}

// ReadThresholds reads a JSON object whose keys override the defaults. An unknown key, a value of another type and text
// after the object are errors: a misspelt threshold must not be ignored.
func ReadThresholds(r io.Reader) (Thresholds, error) {
	t := Default()
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return Default(), fmt.Errorf("read thresholds: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Default(), errors.New("read thresholds: text after the object")
	}
	for _, e := range t.List() {
		if e.Value < 0 {
			return Default(), fmt.Errorf("read thresholds: %s is negative", e.Name)
		}
	}
	return t, nil
}

// Threshold describes one threshold for a person.
type Threshold struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Origin string  `json:"origin"`
	Doc    string  `json:"doc"`
}

// List gives all thresholds in the order of their declaration.
func (t Thresholds) List() []Threshold {
	v, ty := reflect.ValueOf(t), reflect.TypeOf(t)
	out := make([]Threshold, 0, ty.NumField())
	for i := range ty.NumField() {
		tag := ty.Field(i).Tag
		out = append(out, Threshold{
			Name: tag.Get("json"), Value: v.Field(i).Float(),
			Unit: tag.Get("unit"), Origin: tag.Get("origin"), Doc: tag.Get("doc"),
		})
	}
	return out
}

// seconds turns a threshold in seconds into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
