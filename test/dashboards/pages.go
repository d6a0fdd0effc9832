package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// The label names are those that the Collector's Prometheus exporters make of ptlaunch's attributes, with
// resource_to_telemetry_conversion enabled: dots become underscores, units become suffixes.
const (
	inService = `service_name=~"$service"`
	inRun     = `ptlaunch_run_id="$run"`
	onHost    = `host_name=~"$host"`
)

// Dashboards returns all dashboards by file name.
func Dashboards() map[string]*dashboard.DashboardBuilder {
	return map[string]*dashboard.DashboardBuilder{
		"training-runs.json":     trainingRuns(),
		"one-run.json":           oneRun(),
		"nodes-and-storage.json": nodesAndStorage(),
	}
}

// trainingRuns compares all runs: which of them waste time, and on what.
func trainingRuns() *dashboard.DashboardBuilder {
	return base("ptlaunch-runs", "Training runs", "All runs under ptlaunch: how much of their time computes, and what takes the rest").
		WithVariable(choice("service", "Service", "label_values(pytorch_rank_time_seconds_total, service_name)", true)).
		WithPanel(number(panel{title: "Ranks training now", unit: "none", width: 6, queries: []query{
			{`sum(pytorch_process_count{` + inService + `, pytorch_role="rank"})`, "ranks"}}})).
		WithPanel(number(panel{title: "Goodput", help: "Share of the ranks' wall time spent computing", unit: "percentunit", width: 6, queries: []query{
			{`sum(rate(pytorch_rank_time_seconds_total{` + inService + `, pytorch_phase="compute"}[$__rate_interval])) / sum(rate(pytorch_rank_time_seconds_total{` + inService + `}[$__rate_interval]))`, "goodput"}}})).
		WithPanel(number(panel{title: "Time lost in stalls", help: "Rank seconds lost per second", unit: "none", width: 6, queries: []query{
			{`sum(rate(pytorch_stall_time_seconds_total{` + inService + `}[$__rate_interval]))`, "lost"}}})).
		WithPanel(number(panel{title: "Checkpoint writes", help: "In the time shown", unit: "none", width: 6, queries: []query{
			{`sum(increase(pytorch_checkpoint_duration_seconds_count{` + inService + `}[$__range]))`, "checkpoints"}}})).
		WithPanel(lines(panel{title: "Goodput by run", unit: "percentunit", width: 12, queries: []query{
			{`sum by (service_name, ptlaunch_run_id) (rate(pytorch_rank_time_seconds_total{` + inService + `, pytorch_phase="compute"}[$__rate_interval])) / sum by (service_name, ptlaunch_run_id) (rate(pytorch_rank_time_seconds_total{` + inService + `}[$__rate_interval]))`, "{{service_name}} {{ptlaunch_run_id}}"}}})).
		WithPanel(stacked(panel{title: "Rank time by phase", help: "1 per rank: a rank's phases sum to its wall time", unit: "none", width: 12, queries: []query{
			{`sum by (pytorch_phase) (rate(pytorch_rank_time_seconds_total{` + inService + `}[$__rate_interval]))`, "{{pytorch_phase}}"}}})).
		WithPanel(bars(panel{title: "Time lost by cause", help: "In the time shown, all runs", unit: "s", width: 12, queries: []query{
			{`sum by (pytorch_stall_cause) (increase(pytorch_stall_time_seconds_total{` + inService + `}[$__range]))`, "{{pytorch_stall_cause}}"}}})).
		WithPanel(rows(panel{title: "Runs by time lost", unit: "s", width: 12, queries: []query{
			{`topk(20, sum by (service_name, ptlaunch_run_id, host_name) (increase(pytorch_stall_time_seconds_total{` + inService + `}[$__range])))`, ""}}})).
		WithPanel(traces("Verdicts", "The last runs and what ptlaunch said of them", `{ name = "training.run" } | select(span.ptlaunch.verdict, span.process.exit.code, span.pytorch.world_size)`, 24))
}

// oneRun is a run from the inside: where each rank's time goes, and why.
func oneRun() *dashboard.DashboardBuilder {
	d := base("ptlaunch-run", "One run", "Where each rank's wall time goes, and what holds it back").
		WithVariable(choice("service", "Service", "label_values(pytorch_rank_time_seconds_total, service_name)", false)).
		WithVariable(choice("run", "Run", `label_values(pytorch_rank_time_seconds_total{service_name="$service"}, ptlaunch_run_id)`, false)).
		Annotation(mark("Checkpoint", "blue", `sum by (pytorch_checkpoint_mode) (increase(pytorch_checkpoint_duration_seconds_count{`+inRun+`}[1m])) > 0`, "{{pytorch_checkpoint_mode}} checkpoint written")).
		Annotation(mark("Stall", "red", `sum by (pytorch_stall_cause) (rate(pytorch_stall_time_seconds_total{`+inRun+`}[1m])) > 0.2`, "{{pytorch_stall_cause}}"))
	timeBudget(d)
	dataAndStorage(d)
	checkpointsAndGPUs(d)
	return d
}

func timeBudget(d *dashboard.DashboardBuilder) {
	d.WithRow(row("Where the time goes")).
		WithPanel(stacked(panel{title: "Time budget, all ranks", help: "1 per rank", unit: "none", width: 12, queries: []query{
			{`sum by (pytorch_phase) (rate(pytorch_rank_time_seconds_total{` + inRun + `}[$__rate_interval]))`, "{{pytorch_phase}}"}}})).
		WithPanel(stacked(panel{title: "Time lost by cause", unit: "none", width: 12, queries: []query{
			{`sum by (pytorch_stall_cause) (rate(pytorch_stall_time_seconds_total{` + inRun + `}[$__rate_interval]))`, "{{pytorch_stall_cause}}"}}})).
		WithPanel(lines(panel{title: "Compute share by rank", help: "The odd one out is usually the culprit", unit: "percentunit", width: 12, queries: []query{
			{`sum by (pytorch_rank) (rate(pytorch_rank_time_seconds_total{` + inRun + `, pytorch_phase="compute"}[$__rate_interval])) / sum by (pytorch_rank) (rate(pytorch_rank_time_seconds_total{` + inRun + `}[$__rate_interval]))`, "rank {{pytorch_rank}}"}}})).
		WithPanel(traces("Stalls and checkpoints", "Open one to see its evidence", `{ resource.ptlaunch.run.id = "$run" && (name = "training.stall" || name = "checkpoint.write") } | select(span.pytorch.stall.cause, span.pytorch.stall.culprit, span.pytorch.checkpoint.size, span.pytorch.rank)`, 12))
}

func dataAndStorage(d *dashboard.DashboardBuilder) {
	d.WithRow(row("Data")).
		WithPanel(lines(panel{title: "Read: asked for", help: "What the programs asked for with read(); memory-mapped files do not count here", unit: "Bps", width: 12, queries: []query{
			{`sum by (pytorch_role) (rate(pytorch_process_io_bytes_total{` + inRun + `, disk_io_direction="read"}[$__rate_interval]))`, "{{pytorch_role}}"}}})).
		WithPanel(lines(panel{title: "Read: from storage", help: "What came from a block device; 0 from the page cache, and not counted on FUSE, NFS and tmpfs", unit: "Bps", width: 12, queries: []query{
			{`sum by (pytorch_role) (rate(process_disk_io_bytes_total{` + inRun + `, disk_io_direction="read"}[$__rate_interval]))`, "{{pytorch_role}}"}}})).
		WithPanel(lines(panel{title: "Workers alive", unit: "none", width: 8, queries: []query{
			{`sum by (pytorch_rank) (pytorch_dataloader_workers{` + inRun + `})`, "rank {{pytorch_rank}}"}}})).
		WithPanel(lines(panel{title: "Worker starts", help: "Steady starts mean that workers are made anew at every epoch: persistent_workers=True avoids it", unit: "none", width: 8, queries: []query{
			{`sum by (pytorch_rank) (increase(pytorch_dataloader_worker_starts_total{` + inRun + `}[$__rate_interval]))`, "rank {{pytorch_rank}}"}}})).
		WithPanel(lines(panel{title: "CPUs used by role", unit: "none", width: 8, queries: []query{
			{`sum by (pytorch_role) (rate(process_cpu_time_seconds_total{` + inRun + `}[$__rate_interval]))`, "{{pytorch_role}}"}}})).
		WithPanel(lines(panel{title: "Worker main threads: what they wait for", help: "blocked: asleep or waiting for I/O; runqueue: ready, but no CPU is free", unit: "none", width: 12, queries: []query{
			{`sum by (pytorch_wait_kind) (rate(pytorch_process_wait_time_seconds_total{` + inRun + `, pytorch_role="dataloader_worker"}[$__rate_interval]))`, "{{pytorch_wait_kind}}"}}})).
		WithPanel(lines(panel{title: "Memory by role", unit: "bytes", width: 12, queries: []query{
			{`sum by (pytorch_role) (process_memory_usage_bytes{` + inRun + `})`, "{{pytorch_role}}"}}}))
}

func checkpointsAndGPUs(d *dashboard.DashboardBuilder) {
	d.WithRow(row("Checkpoints")).
		WithPanel(lines(panel{title: "Checkpoint duration", unit: "s", width: 12, queries: []query{
			{`sum by (pytorch_checkpoint_mode) (rate(pytorch_checkpoint_duration_seconds_sum{` + inRun + `}[$__rate_interval])) / sum by (pytorch_checkpoint_mode) (rate(pytorch_checkpoint_duration_seconds_count{` + inRun + `}[$__rate_interval]))`, "{{pytorch_checkpoint_mode}}"}}})).
		WithPanel(lines(panel{title: "Checkpoint bytes written", unit: "bytes", width: 12, queries: []query{
			{`sum(increase(pytorch_checkpoint_size_bytes_sum{` + inRun + `}[$__rate_interval]))`, "bytes"}}})).
		WithRow(row("GPUs")).
		WithPanel(lines(panel{title: "GPU utilisation", help: "Reads 100 % in a collective that waits: compare with the power", unit: "percentunit", width: 8, queries: []query{
			{`max by (pytorch_rank, hw_id) (hw_gpu_utilization_ratio{` + inRun + `})`, "rank {{pytorch_rank}}"}}})).
		WithPanel(lines(panel{title: "GPU power", unit: "watt", width: 8, queries: []query{
			{`max by (pytorch_rank, hw_id) (hw_power_watts{` + inRun + `})`, "rank {{pytorch_rank}}"}}})).
		WithPanel(lines(panel{title: "GPU memory", unit: "bytes", width: 8, queries: []query{
			{`max by (pytorch_rank, hw_id) (hw_gpu_memory_usage_bytes{` + inRun + `})`, "rank {{pytorch_rank}}"}}})).
		WithRow(row("ptlaunch itself")).
		WithPanel(lines(panel{title: "CPUs used", unit: "percentunit", width: 8, queries: []query{
			{`sum by (host_name) (rate(ptlaunch_self_cpu_time_seconds_total{` + inRun + `}[$__rate_interval]))`, "{{host_name}}"}}})).
		WithPanel(lines(panel{title: "Memory", unit: "bytes", width: 8, queries: []query{
			{`sum by (host_name) (ptlaunch_self_memory_usage_bytes{` + inRun + `})`, "{{host_name}}"}}})).
		WithPanel(rows(panel{title: "What cannot be seen", help: "Sources that are not available, and why", unit: "none", width: 8, queries: []query{
			{`max by (ptlaunch_source, error_type) (ptlaunch_source_unavailable{` + inRun + `})`, ""}}}))
}

// nodesAndStorage is the machines below the runs: what node_exporter's users look at, beside the job's own limits.
func nodesAndStorage() *dashboard.DashboardBuilder {
	return base("ptlaunch-nodes", "Nodes and storage", "Devices, mounts, pressure and limits of the machines that train").
		WithVariable(choice("host", "Host", "label_values(system_cpu_time_seconds_total, host_name)", true)).
		WithRow(row("Devices")).
		WithPanel(lines(panel{title: "Read", unit: "Bps", width: 12, queries: []query{
			{`sum by (host_name, system_device) (rate(system_disk_io_bytes_total{` + onHost + `, disk_io_direction="read"}[$__rate_interval]))`, "{{host_name}} {{system_device}}"}}})).
		WithPanel(lines(panel{title: "Written", unit: "Bps", width: 12, queries: []query{
			{`sum by (host_name, system_device) (rate(system_disk_io_bytes_total{` + onHost + `, disk_io_direction="write"}[$__rate_interval]))`, "{{host_name}} {{system_device}}"}}})).
		WithPanel(lines(panel{title: "Time per operation", help: "iostat's await", unit: "s", width: 12, queries: []query{
			{`sum by (host_name, system_device, disk_io_direction) (rate(system_disk_operation_time_seconds_total{` + onHost + `}[$__rate_interval])) / sum by (host_name, system_device, disk_io_direction) (rate(system_disk_operations_total{` + onHost + `}[$__rate_interval]))`, "{{host_name}} {{system_device}} {{disk_io_direction}}"}}})).
		WithPanel(lines(panel{title: "Busy", help: "Share of time with an operation in flight. Says little about NVMe and RAID, which serve many at once", unit: "percentunit", width: 12, queries: []query{
			{`sum by (host_name, system_device) (rate(system_disk_io_time_seconds_total{` + onHost + `}[$__rate_interval]))`, "{{host_name}} {{system_device}}"}}})).
		WithRow(row("Mounts that the jobs use")).
		WithPanel(bars(panel{title: "Used", unit: "percentunit", width: 12, queries: []query{
			{`sum by (host_name, system_filesystem_mountpoint) (system_filesystem_usage_bytes{` + onHost + `, system_filesystem_state="used"}) / sum by (host_name, system_filesystem_mountpoint) (system_filesystem_usage_bytes{` + onHost + `})`, "{{host_name}} {{system_filesystem_mountpoint}}"}}})).
		WithPanel(lines(panel{title: "Free", unit: "bytes", width: 12, queries: []query{
			{`sum by (host_name, system_filesystem_mountpoint) (system_filesystem_usage_bytes{` + onHost + `, system_filesystem_state="free"})`, "{{host_name}} {{system_filesystem_mountpoint}}"}}})).
		WithRow(row("CPU, memory, pressure and limits")).
		WithPanel(stacked(panel{title: "CPUs", unit: "none", width: 12, queries: []query{
			{`sum by (cpu_mode) (rate(system_cpu_time_seconds_total{` + onHost + `}[$__rate_interval]))`, "{{cpu_mode}}"}}})).
		WithPanel(stacked(panel{title: "Memory", unit: "bytes", width: 12, queries: []query{
			{`sum by (system_memory_state) (system_memory_usage_bytes{` + onHost + `})`, "{{system_memory_state}}"}}})).
		WithPanel(lines(panel{title: "Pressure", help: "Share of time in which tasks stalled for a resource (PSI)", unit: "percentunit", width: 12, queries: []query{
			{`max by (host_name, ptlaunch_pressure_resource, ptlaunch_pressure_scope) (rate(ptlaunch_pressure_time_seconds_total{` + onHost + `, ptlaunch_pressure_kind="some"}[$__rate_interval]))`, "{{host_name}} {{ptlaunch_pressure_resource}} {{ptlaunch_pressure_scope}}"}}})).
		WithPanel(lines(panel{title: "Network", unit: "Bps", width: 12, queries: []query{
			{`sum by (host_name, network_io_direction) (rate(system_network_io_bytes_total{` + onHost + `}[$__rate_interval]))`, "{{host_name}} {{network_io_direction}}"}}}))
}
