package prometheus

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Source is what a [Collector] looks at: a [*pipeline.Pipeline], or a test double.
// Snapshot may be called by several goroutines at once.
type Source interface {
	Snapshot() pipeline.Snapshot
}

// Collector shows one pipeline's snapshot to Prometheus. It holds no state but
// the descriptions of its metrics, and may be used by several registries and
// several scrapes at once.
type Collector struct {
	source Source
	ofAll  []series[pipeline.Snapshot]
	ofOne  []series[stage.Snapshot]
	ofPool []series[pipeline.Pool]
	byWhy  []reasons
}

// NewCollector makes a collector for a pipeline, which need not run yet. The
// pipeline's name is read once, here, and becomes a constant label of all
// metrics: so the collectors of several pipelines live in one registry, a second
// one of the same name is refused when it is registered, and one whose pipeline
// has stopped can be unregistered.
func NewCollector(p Source) *Collector {
	labels := prometheus.Labels{"pipeline": p.Snapshot().Pipeline}
	return &Collector{
		source: p,
		ofAll:  describe(pipelineMetrics, labels),
		ofOne:  describe(stageMetrics, labels, "stage"),
		ofPool: describe(poolMetrics, labels, "pool"),
		byWhy:  describeReasons(labels),
	}
}

// Describe tells all metrics that Collect may send.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range c.ofAll {
		out <- s.desc
	}
	for _, s := range c.ofOne {
		out <- s.desc
	}
	for _, s := range c.ofPool {
		out <- s.desc
	}
	for _, r := range c.byWhy {
		out <- r.desc
	}
}

// Collect takes one snapshot and sends all that is in it, so that the numbers of
// a scrape belong together.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.source.Snapshot()
	send(out, c.ofAll, &s)
	for i := range s.Stages {
		st := &s.Stages[i]
		send(out, c.ofOne, st, st.Name)
		for _, r := range c.byWhy {
			r.send(out, st)
		}
	}
	for i := range s.Pools {
		send(out, c.ofPool, &s.Pools[i], s.Pools[i].Name)
	}
}

// series is a metric that has been described for one pipeline.
type series[S any] struct {
	metric[S]
	desc *prometheus.Desc
}

func describe[S any](metrics []metric[S], constant prometheus.Labels, labels ...string) []series[S] {
	all := make([]series[S], len(metrics))
	for i, m := range metrics {
		all[i] = series[S]{m, prometheus.NewDesc(m.name, m.help, labels, constant)}
	}
	return all
}

// send reads each series out of a snapshot; what has never been measured is
// left out.
func send[S any](out chan<- prometheus.Metric, all []series[S], from *S, labels ...string) {
	for _, s := range all {
		if v := s.read(from); !math.IsNaN(v) {
			out <- number(s.desc, s.kind, v, labels...)
		}
	}
}

// reasons is a counter of a stage that has been described for one pipeline, and
// is told by reason.
type reasons struct {
	reasonMetric
	desc *prometheus.Desc
}

func describeReasons(constant prometheus.Labels) []reasons {
	all := make([]reasons, len(reasonMetrics))
	for i, m := range reasonMetrics {
		all[i] = reasons{m, prometheus.NewDesc(m.name, m.help, []string{"stage", "reason"}, constant)}
	}
	return all
}

// send counts the known reasons from zero on, so that the first event is a rise
// and not a series out of nowhere. A reason that is not known is sent as well:
// the sum over all reasons is always the whole.
func (r reasons) send(out chan<- prometheus.Metric, st *stage.Snapshot) {
	by := r.read(st)
	for _, why := range r.known {
		out <- number(r.desc, prometheus.CounterValue, float64(by[why]), st.Name, string(why))
	}
	for why, n := range by {
		if !slices.Contains(r.known, why) {
			out <- number(r.desc, prometheus.CounterValue, float64(n), st.Name, string(why))
		}
	}
}

// number makes a sample. One that cannot be made, for a name that is not UTF-8,
// fails the scrape and not the program.
func number(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(desc, kind, v, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
