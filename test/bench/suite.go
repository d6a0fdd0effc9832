package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// suite runs the parts of the benchmark one after the other.
type suite struct {
	tools
	binary string // the population's
	repo   string
	window window
	rounds int // of launches

	// Of the smallest job, for the comparison with the larger ones.
	small struct{ sampler, agent cost }
}

// The jobs. A rank with 16 workers is many; the larger ones do less I/O, so that they leave the CPUs to the tools.
var (
	smallJob  = shape{Ranks: 8, Workers: 16, Threads: 40, Period: time.Second}
	middleJob = shape{Ranks: 8, Workers: 124, Threads: 4, Period: 10 * time.Second}
	largeJob  = shape{Ranks: 8, Workers: 624, Threads: 1, Period: 10 * time.Second}
	unrelated = shape{Ranks: 1, Workers: 4998, Threads: 1, Period: time.Minute}
)

// observers measures the sampler and its floor, the agent and the peers on the same job in the same window.
func (s *suite) observers(ctx context.Context) (section, error) {
	sec := section{Title: "A job of " + smallJob.String() + " threads, one sample a second"}
	p, err := startPopulation(ctx, s.binary, smallJob)
	if err != nil {
		return sec, err
	}
	defer p.stop()
	col, endpoint, err := s.startCollector()
	if err != nil {
		fmt.Println("bench:", err)
	} else {
		defer col.end()
	}
	list := []*tool{
		s.ourselves("floor: the raw reads of the same files", roleFloor, p),
		s.ourselves("sampler", roleSampler, p),
		s.ourselves("floor with 8 ranks read at 10 Hz", roleFloorLane, p),
		s.ourselves("sampler with 8 ranks read at 10 Hz", roleSamplerLane, p),
		s.agent(p, endpoint),
		s.pidstat(p),
		s.iotop(),
	}
	names := len(list)
	exporter, err := s.processExporter(ctx)
	if err != nil {
		return sec, err
	}
	list = append(list, exporter)
	scraper, errScraper := s.collector("hostmetrics process scraper", scrapeProcesses, "")
	if errScraper == nil {
		list = append(list, scraper)
	}
	c, err := measure(ctx, s.window, p, list)
	if err != nil {
		return sec, err
	}
	if errScraper != nil {
		c = append(c, cost{Name: "hostmetrics process scraper", Missing: errScraper})
	}
	for _, one := range c {
		sec.cost(one)
	}
	sampler, lane, agent, pidstat := c[1], c[3], c[4], c[5]
	s.small.sampler, s.small.agent = lane, agent
	sec.ratio("sampler / floor", sampler.Core, c[0].Core, 1.6)
	sec.ratio("sampler / floor, with 8 ranks at 10 Hz", lane.Core, c[2].Core, 1.6)
	sec.add(row{What: "agent: CPU", Figure: percent(agent.Core), Goal: "< 2 % of a core", Met: met(agent.Core > 0 && agent.Core < 0.02)})
	sec.add(row{What: "agent: resident memory", Figure: megabytes(agent.RSS), Goal: "< 40 MB", Met: met(agent.RSS > 0 && agent.RSS < 40e6)})
	sec.times("sampler beside pidstat, per process and sample", float64(sampler.PerSample), float64(pidstat.PerSample), 2)
	for _, peer := range append(slices.Clone(c[names-1:names]), c[names:]...) {
		sec.times("sampler beside "+peer.Name+", per process and sample", float64(sampler.PerSample), float64(peer.PerSample), 8)
	}
	sec.ratio("whole agent / pidstat, per process and sample", float64(agent.PerSample), float64(pidstat.PerSample), 1)
	return sec, nil
}

// startCollector starts the Collector that the agent sends to, and returns its OTLP endpoint.
func (s *suite) startCollector() (*tool, string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	t, err := s.collector("OpenTelemetry Collector", fmt.Sprintf(receiveOTLP, address), address)
	if err != nil {
		return nil, "", err
	}
	return t, "http://" + address, t.start()
}

// larger measures sampler and agent on a larger job: neither may grow faster than the job.
func (s *suite) larger(ctx context.Context, job shape) (section, error) {
	sec := section{Title: "A job of " + job.String() + " threads"}
	p, err := startPopulation(ctx, s.binary, job)
	if err != nil {
		return sec, err
	}
	defer p.stop()
	col, endpoint, err := s.startCollector()
	if err != nil {
		fmt.Println("bench:", err)
	} else {
		defer col.end()
	}
	c, err := measure(ctx, s.window, p, []*tool{
		s.ourselves("floor with 8 ranks read at 10 Hz", roleFloorLane, p),
		s.ourselves("sampler with 8 ranks read at 10 Hz", roleSamplerLane, p),
		s.agent(p, endpoint), s.pidstat(p),
	})
	if err != nil {
		return sec, err
	}
	for _, one := range c {
		sec.cost(one)
	}
	growth := float64(job.Processes()) / float64(smallJob.Processes())
	sec.add(row{What: "processes, as a multiple of the first job's", Figure: fmt.Sprintf("%.1f", growth)})
	sec.ratio("sampler, as a multiple of the first job's", c[1].Core, s.small.sampler.Core, growth)
	sec.ratio("agent, as a multiple of the first job's", c[2].Core, s.small.agent.Core, growth)
	return sec, nil
}

// crowd measures what processes cost that do not belong to the job.
func (s *suite) crowd(ctx context.Context) (section, error) {
	sec := section{Title: fmt.Sprintf("The first job, and %d processes that do not belong to it", unrelated.Processes())}
	p, err := startPopulation(ctx, s.binary, smallJob)
	if err != nil {
		return sec, err
	}
	defer p.stop()
	list := []*tool{s.ourselves("sampler with 8 ranks read at 10 Hz", roleSamplerLane, p), s.agent(p, "")}
	o, err := observeWith(ctx, s.window.Settle, p, list)
	if err != nil {
		return sec, err
	}
	defer o.end()
	alone, err := o.measure(ctx, s.window.Length)
	if err != nil {
		return sec, err
	}
	others, err := startPopulation(ctx, s.binary, unrelated)
	if err != nil {
		return sec, err
	}
	defer others.stop()
	if err := pause(ctx, 3*time.Second); err != nil { // each of them is looked at once
		return sec, err
	}
	crowded, err := o.measure(ctx, s.window.Length)
	if err != nil {
		return sec, err
	}
	for i, t := range list {
		without, with := alone[i], crowded[i]
		r := row{What: t.name + ": more than without them", Goal: "< 0.5 % of a core", Met: unknown}
		if without.Missing == nil && with.Missing == nil {
			more := with.Core - without.Core
			r.Figure = fmt.Sprintf("%s (%s to %s)", percent(more), percent(without.Core), percent(with.Core))
			r.Met = met(more < 0.005)
		}
		sec.add(r)
	}
	return sec, nil
}

// launches measures what the job itself notices.
func (s *suite) launches(ctx context.Context) (section, error) {
	sec := section{Title: "What the job notices"}
	list, err := s.launchers(ctx, s.repo)
	if err != nil {
		return sec, err
	}
	times, err := startTimes(ctx, list, s.binary, s.rounds)
	if err != nil {
		return sec, err
	}
	median := map[string]float64{}
	for _, l := range list {
		sorted := slices.Sorted(slices.Values(times[l.name]))
		median[l.name] = float64(quantile(sorted, 0.5))
		sec.add(row{What: "start to the job's first instruction, " + l.name, Figure: fmt.Sprintf("%.1f ms (%.1f to %.1f)",
			median[l.name]/1e6, float64(quantile(sorted, 0.1))/1e6, float64(quantile(sorted, 0.9))/1e6)})
	}
	sec.ratio("ptlaunch / minimal Go wrapper", median["ptlaunch"], median["minimal Go wrapper"], 1.5)
	last := list[len(list)-1]
	rss, err := supervisorRSS(ctx, last)
	if err != nil {
		return sec, err
	}
	sec.add(row{What: "supervisor: resident memory", Figure: megabytes(rss), Goal: "< 12 MB", Met: met(rss < 12e6)})
	for _, job := range [][]string{{s.binary, "cpu", "400000", s.dir}, {s.binary, "io", "200000", s.dir}} {
		sp, err := ownSpeed(ctx, list[0], last, job, s.rounds)
		if err != nil {
			return sec, err
		}
		sec.add(speedRow("wall", job[1], sp.Wall))
		sec.add(speedRow("CPU", job[1], sp.CPU))
	}
	return sec, nil
}

// speedRow is how much longer a job took. Half of the pairs lie in the middle half; 1 or less in it is no difference.
func speedRow(kind, work string, sorted []float64) row {
	low, mid, high := quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)
	return row{
		What:   fmt.Sprintf("a job's own %s time with ptlaunch / without (%s loop)", kind, work),
		Figure: fmt.Sprintf("%.3f (middle half %.3f to %.3f)", mid, low, high),
		Goal:   "1 within the spread", Met: met(low <= 1),
	}
}
