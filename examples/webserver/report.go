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
	server *server
	end    pipeline.Snapshot
	wall   time.Duration
	peak   uint64
}

// report is the object that -json prints.
type report struct {
	Policy       string        `json:"policy"`
	Connections  uint64        `json:"connections"`
	Refused      uint64        `json:"connections_refused"`
	Answers      uint64        `json:"answers"`
	OK           uint64        `json:"answers_2xx"`
	Moved        uint64        `json:"answers_3xx"`
	ClientErrors uint64        `json:"answers_4xx"`
	ServerErrors uint64        `json:"answers_5xx"`
	SentBytes    uint64        `json:"sent_bytes"`
	CacheHits    uint64        `json:"cache_hits"`
	CacheMisses  uint64        `json:"cache_misses"`
	WallMS       int64         `json:"wall_ms"`
	PeakRSSBytes uint64        `json:"peak_rss_bytes"`
	Commands     uint64        `json:"commands"`
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
	WorkersMax int    `json:"workers_max"`
}

func (r result) report() report {
	stages := make([]stageReport, len(r.end.Stages))
	for i, s := range r.end.Stages {
		c := &s.Counts
		stages[i] = stageReport{s.Name, c.Accepted, c.OK, c.Forwarded, c.Errors, c.Crashes, s.Workers.Most}
	}
	told := &r.server.stats
	hits, misses := r.server.cache.counts()
	all := report{
		Policy: r.end.Policy, Connections: told.accepted.Load(), Refused: told.refused.Load(),
		OK: told.byClass[2].Load(), Moved: told.byClass[3].Load(),
		ClientErrors: told.byClass[4].Load(), ServerErrors: told.byClass[5].Load(),
		SentBytes: told.sent.Load(), CacheHits: hits, CacheMisses: misses,
		WallMS: r.wall.Milliseconds(), PeakRSSBytes: r.peak,
		Commands: r.end.Accepted, Balanced: r.end.Balanced(), Stages: stages,
	}
	all.Answers = all.OK + all.Moved + all.ClientErrors + all.ServerErrors
	return all
}

// tell prints the report.
func (r result) tell(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r.report())
	}
	return r.print(w)
}

func (r result) print(w io.Writer) error {
	if err := printStages(w, r.end.Stages); err != nil {
		return err
	}
	all := r.report()
	_, err := fmt.Fprintf(w, "\n%d answers to %d connections in %s: "+
		"%d as asked for, %d moved or unchanged, %d refused, %d failed\nat most %d MiB of memory; policy %s\n%s\n",
		all.Answers, all.Connections, show.Brief(r.wall), all.OK, all.Moved, all.ClientErrors, all.ServerErrors,
		all.PeakRSSBytes>>20, all.Policy, show.Law(r.end))
	return err
}

func printStages(w io.Writer, stages []stage.Snapshot) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// Flush reports a write error.
	_, _ = fmt.Fprintln(t, strings.ReplaceAll(
		"stage|accepted|ok|forwarded|errors|crashes|workers now/most|wait p50/p99|service p50/p99|", "|", "\t"))
	for _, s := range stages {
		c := &s.Counts
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n",
			s.Name, c.Accepted, c.OK, c.Forwarded, c.Errors, c.Crashes,
			show.Workers(s), show.Quantiles(s.Latency.Wait), show.Quantiles(s.Latency.Service))
	}
	return t.Flush()
}
