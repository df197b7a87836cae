package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// result is all that there is to tell about a run.
type result struct {
	images   int // as many as there were to do
	wall     time.Duration
	peak     uint64
	end      pipeline.Snapshot
	failures failures
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
		crashes += s.Crashes
		stages[i] = stageReport{s.Name, s.Accepted, s.OK, s.Forwarded, s.Errors, s.Crashes, s.Retries, s.WorkersMost}
	}
	return report{
		Policy: r.end.Policy, Images: r.images,
		OK: r.end.Replied, Failed: r.end.Failed, DeadLettered: r.end.DeadLettered, Crashes: crashes,
		WallMS: r.wall.Milliseconds(), ImagesPerS: r.rate(), PeakRSSBytes: r.peak,
		Balanced: r.end.Balanced(), Stages: stages,
	}
}

// rate is how many images were written in a second.
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
	all := r.report()
	_, err := fmt.Fprintf(w, "\n%d of %d images in %s, %.0f a second; %d crashes; at most %d MiB of memory; policy %s\n%s\n",
		all.OK, all.Images, brief(r.wall), all.ImagesPerS, all.Crashes, all.PeakRSSBytes>>20, all.Policy, law(r.end))
	return err
}

func printStages(w io.Writer, stages []stage.Snapshot) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// What can't be written is told by Flush.
	_, _ = fmt.Fprintln(t, strings.ReplaceAll(
		"stage|accepted|ok|forwarded|errors|crashes|retries|workers now/most|wait p50/p99|service p50/p99|", "|", "\t"))
	for _, s := range stages {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d/%d\t%s\t%s\t\n",
			s.Name, s.Accepted, s.OK, s.Forwarded, s.Errors, s.Crashes, s.Retries,
			s.Workers, s.WorkersMost, quantiles(s.Wait), quantiles(s.Service))
	}
	return t.Flush()
}

func quantiles(q stage.Quantiles) string {
	if q.Count == 0 {
		return "-"
	}
	return brief(q.P50) + "/" + brief(q.P99)
}

// law writes rule 1 out with its numbers.
func law(s pipeline.Snapshot) string {
	if !s.Balanced() {
		return s.Law() + "  NOT BALANCED"
	}
	return s.Law() + "  balanced"
}

// brief writes a time with about three digits.
func brief(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit / 10).String()
		}
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
