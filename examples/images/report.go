package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// result is the data of a run for its report.
type result struct {
	images   int // the number of images to process
	wall     time.Duration
	cpu      *time.Duration // nil if unknown
	peak     uint64
	alive    int // the most images that were in memory at once
	end      pipeline.Snapshot
	failures failures
	digest   string // of the images that were written, if the run is compared
}

// report is the object that -json prints.
type report struct {
	Policy       string        `json:"policy"`
	Images       int           `json:"images"`
	OK           uint64        `json:"ok"`
	Failed       uint64        `json:"failed"`
	DeadLettered uint64        `json:"dead_lettered"`
	Crashes      uint64        `json:"crashes"`
	WallMS       int64         `json:"wall_ms"`
	ImagesPerS   float64       `json:"images_per_s"`
	PeakRSSBytes uint64        `json:"peak_rss_bytes"`
	Balanced     bool          `json:"balanced"`
	Stages       []stageReport `json:"stages"`
	CPUMS        *int64        `json:"cpu_ms,omitempty"`
	PeakLive     int           `json:"peak_live_images"`
	Rounds       uint64        `json:"rounds"`
	EmptyVisits  uint64        `json:"empty_visits"`
	Digest       string        `json:"digest,omitempty"`
}

type stageReport struct {
	Name       string `json:"name"`
	Accepted   uint64 `json:"accepted"`
	OK         uint64 `json:"ok"`
	Forwarded  uint64 `json:"forwarded"`
	Errors     uint64 `json:"errors"`
	Crashes    uint64 `json:"crashes"`
	Retries    uint64 `json:"retries"`
	WorkersMax int    `json:"workers_max"`
}

func (r result) report() report {
	var crashes uint64
	stages := make([]stageReport, len(r.end.Stages))
	for i, s := range r.end.Stages {
		c := &s.Counts
		crashes += c.Crashes
		stages[i] = stageReport{s.Name, c.Accepted, c.OK, c.Forwarded, c.Errors, c.Crashes, c.Retries, s.Workers.Most}
	}
	all := report{
		Policy: r.end.Policy, Images: r.images,
		OK: r.end.Replied, Failed: r.end.Failed, DeadLettered: r.end.DeadLettered, Crashes: crashes,
		WallMS: r.wall.Milliseconds(), ImagesPerS: r.rate(), PeakRSSBytes: r.peak,
		Balanced: r.end.Balanced(), Stages: stages, PeakLive: r.alive, Digest: r.digest,
	}
	if r.cpu != nil {
		ms := r.cpu.Milliseconds()
		all.CPUMS = &ms
	}
	for _, pool := range r.end.Pools {
		all.Rounds += pool.Rounds
		all.EmptyVisits += pool.EmptyVisits
	}
	return all
}

// rate returns how many images were written per second.
func (r result) rate() float64 {
	if r.wall <= 0 {
		return 0
	}
	return float64(r.end.Replied) / r.wall.Seconds()
}

func (r result) printJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(r.report())
}

func (r result) print(w io.Writer) error {
	if err := printStages(w, r.end.Stages); err != nil {
		return err
	}
	if err := printPools(w, r.end.Pools); err != nil {
		return err
	}
	all := r.report()
	_, err := fmt.Fprintf(w, "\n%d of %d images in %s, %.0f a second, with %s of CPU; %d crashes; "+
		"at most %d images and %d MiB in memory; policy %s\n%s\n",
		all.OK, all.Images, show.Brief(r.wall), all.ImagesPerS, all.cpu(), all.Crashes,
		all.PeakLive, all.PeakRSSBytes>>20, all.Policy, show.Law(r.end))
	return err
}

func (r report) cpu() string {
	if r.CPUMS == nil {
		return "-"
	}
	return show.Brief(time.Duration(*r.CPUMS) * time.Millisecond)
}

func printStages(w io.Writer, stages []stage.Snapshot) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// Flush reports a write error.
	_, _ = fmt.Fprintln(t, strings.ReplaceAll(
		"stage|accepted|ok|forwarded|errors|crashes|retries|workers now/most|wait p50/p99|service p50/p99|", "|", "\t"))
	for _, s := range stages {
		c := &s.Counts
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n",
			s.Name, c.Accepted, c.OK, c.Forwarded, c.Errors, c.Crashes, c.Retries,
			show.Workers(s), show.Quantiles(s.Latency.Wait), show.Quantiles(s.Latency.Service))
	}
	return t.Flush()
}

func printPools(w io.Writer, pools []pipeline.Pool) error {
	var text strings.Builder
	for _, p := range pools {
		_, _ = fmt.Fprintf(&text, "\npool %q, %s: at most %d workers, %d visits, %d of them empty, %d rounds",
			p.Name, p.Dispatch, p.Most, p.Visits, p.EmptyVisits, p.Rounds)
	}
	if text.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, text.String())
	return err
}
