package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/golda-dev/golda/pipeline/letters"
)

// withLetters is a [Source] that keeps letters: a *pipeline.Pipeline.
type withLetters interface {
	DeadLetters() *letters.Store
	Quarantine() *letters.Store
	Failures() *letters.Store
}

var stores = []struct {
	name string
	of   func(withLetters) *letters.Store
}{
	{"dead_letters", withLetters.DeadLetters},
	{"failures", withLetters.Failures},
	{"quarantine", withLetters.Quarantine},
}

var letterMetrics = []metric[letters.Store]{
	{
		"golda_letters", "Letters in a store: dead_letters, failures or quarantine.",
		gauge, func(l *letters.Store) float64 { return float64(l.Len()) },
	},
	{
		"golda_letters_dropped_total", "Letters that a full store has evicted: their commands are lost.",
		counter, func(l *letters.Store) float64 { return float64(l.Dropped()) },
	},
}

// sendLetters sends the numbers of each store, if the source has stores.
func (c *Collector) sendLetters(out chan<- prometheus.Metric) {
	from, ok := c.source.(withLetters)
	if !ok {
		return
	}
	for _, s := range stores {
		send(out, c.ofStore, s.of(from), s.name)
	}
}
