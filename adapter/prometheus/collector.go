package prometheus

import (
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// stageLabel is the label with the name of a stage.
const stageLabel = "stage"

const (
	edgeName = "golda_edge_moved_total"
	edgeHelp = "Commands that were handed over to another stage."
)

// Source is what a [Collector] reads: a [*pipeline.Pipeline], or a test double.
// Snapshot may be called by several goroutines at once.
type Source interface {
	Snapshot() pipeline.Snapshot
}

// Collector exports one pipeline's snapshot to Prometheus. It holds no state
// but the descriptions of its metrics, and may be used by several registries
// and several scrapes at once.
type Collector struct {
	source  Source
	ofAll   []series[pipeline.Snapshot]
	ofOne   []series[stage.Snapshot]
	ofPool  []series[pipeline.Pool]
	ofFeed  []series[pipeline.FeedSnapshot]
	ofStore []series[letters.Store]
	byWhy   []reasons
	times   []*prometheus.Desc // of histograms
	moved   *prometheus.Desc   // of edges
	decided *prometheus.Desc
}

// NewCollector returns a collector for a pipeline, which need not run yet.
// NewCollector reads the pipeline's name once; it becomes a constant label of
// all metrics. So one registry can hold the collectors of several pipelines, it
// refuses a second one of the same name, and the collector of a stopped
// pipeline can be unregistered. It panics if p is nil.
func NewCollector(p Source) *Collector {
	labels := prometheus.Labels{"pipeline": snapshotOf(p, "NewCollector").Pipeline}
	times := make([]*prometheus.Desc, len(histograms))
	for i, h := range histograms {
		times[i] = prometheus.NewDesc(h.name, h.help, []string{stageLabel}, labels)
	}
	return &Collector{
		source: p,
		times:  times,
		moved: prometheus.NewDesc(edgeName, edgeHelp,
			[]string{stageLabel, "to", "port"}, labels),
		decided: prometheus.NewDesc(decisionsName, decisionsHelp, []string{"owner", "knob"}, labels),
		ofAll:   describe(pipelineMetrics, labels),
		ofOne:   describe(stageMetrics, labels, stageLabel),
		ofPool:  describe(poolMetrics, labels, "pool"),
		ofFeed:  describe(feedMetrics, labels, "feed"),
		ofStore: describe(letterMetrics, labels, "store"),
		byWhy:   describeReasons(labels),
	}
}

// snapshotOf returns the snapshot of a source. It panics if there is none.
func snapshotOf(p Source, caller string) pipeline.Snapshot {
	if v := reflect.ValueOf(p); p == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("prometheus: " + caller + ": the pipeline is nil")
	}
	return p.Snapshot()
}

// Describe sends the descriptions of all metrics that Collect may send.
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
	for _, s := range c.ofFeed {
		out <- s.desc
	}
	for _, s := range c.ofStore {
		out <- s.desc
	}
	for _, r := range c.byWhy {
		out <- r.desc
	}
	out <- c.moved
	out <- c.decided
	for _, desc := range c.times {
		out <- desc
	}
}

// Collect takes one snapshot and sends all its numbers, so that the numbers of
// a scrape are consistent.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.source.Snapshot()
	send(out, c.ofAll, &s)
	times := make([]durations, len(s.Stages)*len(histograms)) // in one allocation
	for i := range s.Stages {
		st := &s.Stages[i]
		if own := send(out, c.ofOne, st, st.Name); own != nil {
			sendReasons(out, c.byWhy, st, own)
			c.sendEdges(out, st, own)
			for k, h := range histograms {
				d := &times[i*len(histograms)+k]
				*d = durations{c.times[k], h.read(st), own}
				out <- d
			}
		}
	}
	for i := range s.Pools {
		send(out, c.ofPool, &s.Pools[i], s.Pools[i].Name)
	}
	for i := range s.Feeds {
		send(out, c.ofFeed, &s.Feeds[i], s.Feeds[i].Name)
	}
	c.sendLetters(out)
	c.sendDecisions(out, &s.Pipeline, s.Decided)
}

// sendEdges sends the samples of a stage's edges, with the labels pipeline, port,
// stage and to, in this order.
func (c *Collector) sendEdges(out chan<- prometheus.Metric, st *stage.Snapshot, own []*dto.LabelPair) {
	for i := range st.Edges {
		e := &st.Edges[i]
		out <- &sample{c.moved, prometheus.CounterValue, float64(e.Moved), []*dto.LabelPair{
			own[0], {Name: new("port"), Value: &e.Port}, own[1], {Name: new("to"), Value: &e.To},
		}}
	}
}

// series is a metric with its description for one pipeline.
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

// send reads each series from a snapshot. It returns the labels that all of them share. If there are no valid
// labels, because a name is not UTF-8, only the scrape fails, not the program.
func send[S any](out chan<- prometheus.Metric, all []series[S], from *S, name ...string) (own []*dto.LabelPair) {
	own, err := labels(all[0].desc, name)
	if err != nil {
		out <- prometheus.NewInvalidMetric(all[0].desc, err)
		return nil
	}
	samples := make([]sample, len(all)) // in one allocation
	for i, s := range all {
		samples[i] = sample{s.desc, s.kind, s.read(from), own}
		out <- &samples[i]
	}
	return own
}

// labels returns the labels that client_golang would give a metric, in its
// order.
func labels(desc *prometheus.Desc, values []string) ([]*dto.LabelPair, error) {
	m, err := prometheus.NewConstMetric(desc, prometheus.UntypedValue, 0, values...)
	if err != nil {
		return nil, err
	}
	var written dto.Metric
	err = m.Write(&written)
	// Clip, because code that adds labels, such as a wrapping registerer,
	// appends and sorts: it must do so on a copy.
	return slices.Clip(written.GetLabel()), err
}

// reasons is a counter of a stage by reason, with its description for one
// pipeline.
type reasons struct {
	reasonMetric
	desc   *prometheus.Desc
	labels []*dto.LabelPair // one for each known reason
	texts  []string         // the same, for a page
}

func describeReasons(constant prometheus.Labels) []reasons {
	all := make([]reasons, len(reasonMetrics))
	for i, m := range reasonMetrics {
		all[i] = reasons{m, prometheus.NewDesc(m.name, m.help, []string{stageLabel, "reason"}, constant), nil, nil}
		for _, why := range m.known {
			all[i].labels = append(all[i].labels, labelOf(why))
			all[i].texts = append(all[i].texts, `,reason="`+string(why)+`"`)
		}
	}
	return all
}

func labelOf(why reason.Reason) *dto.LabelPair {
	return &dto.LabelPair{Name: new("reason"), Value: new(string(why))}
}

func sendReasons(out chan<- prometheus.Metric, all []reasons, st *stage.Snapshot, own []*dto.LabelPair) {
	known := 0
	for i := range all {
		known += len(all[i].known)
	}
	samples := make([]sample, known) // in one allocation
	for _, r := range all {
		r.send(out, st, own, samples[:len(r.known)])
		samples = samples[len(r.known):]
	}
}

// send counts the known reasons from zero on, so that the first event is an
// increase and not a new series; samples has a place for each of them. It sends
// an unknown reason as well: the sum over all reasons is always complete.
func (r reasons) send(out chan<- prometheus.Metric, st *stage.Snapshot, own []*dto.LabelPair, samples []sample) {
	by := r.read(st)
	for i, why := range r.known {
		samples[i] = r.sample(by[why], own, r.labels[i])
		out <- &samples[i]
	}
	for why, n := range by {
		if !slices.Contains(r.known, why) {
			s := r.sample(n, own, labelOf(why))
			out <- &s
		}
	}
}

// sample returns a sample with the labels pipeline, reason and stage, in this
// order.
func (r reasons) sample(n uint64, own []*dto.LabelPair, why *dto.LabelPair) sample {
	return sample{r.desc, prometheus.CounterValue, float64(n), []*dto.LabelPair{own[0], why, own[1]}}
}

// sample is one number of a snapshot. It works like a metric of NewConstMetric,
// which makes and sorts labels of its own: that was two thirds of the work of a
// scrape.
type sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []*dto.LabelPair // in order; shared with other samples
}

// Desc describes the metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write writes the number and the labels.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	switch s.kind {
	case prometheus.CounterValue:
		out.Counter = &dto.Counter{Value: &s.value}
	default:
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}
