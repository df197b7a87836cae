// Package show is shared by the larger examples: it has flags and exit
// statuses, the cells of their tables, the memory and time that they used, and
// their metrics.
package show

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

// Workers returns the number of the stage's own workers, or the name of the
// shared pool that serves it.
func Workers(s stage.Snapshot) string {
	if s.Pool != s.Name {
		return fmt.Sprintf("of %q", s.Pool)
	}
	return fmt.Sprintf("%d/%d", s.Workers.Live, s.Workers.Most)
}

// Quantiles returns the median and the 99th percentile, if anything was
// measured.
func Quantiles(q stats.Durations) string {
	if q.Count == 0 {
		return "-"
	}
	return Brief(q.P50) + "/" + Brief(q.P99)
}

// Law returns the law with its numbers, and whether it balances.
func Law(s pipeline.Snapshot) string {
	if !s.Balanced() {
		return s.Law() + "  NOT BALANCED"
	}
	return s.Law() + "  balanced"
}

// Brief returns a time with about three digits.
func Brief(d time.Duration) string {
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
