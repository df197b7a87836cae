package prometheus

import (
	"fmt"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/golda-dev/golda/controller"
)

const (
	decisionsName = "golda_decisions_total"
	decisionsHelp = "Changes of knobs by policies and operators; the owner is a stage, a pool, or entry."
)

// sendDecisions sends how often each knob was changed: with the labels knob,
// owner and pipeline, in this order.
func (c *Collector) sendDecisions(out chan<- prometheus.Metric, pipeline *string, all []controller.Decided) {
	samples := make([]decision, len(all)) // in one allocation
	for i := range all {
		d, m := &all[i], &samples[i]
		if !utf8.ValidString(d.Owner) || !utf8.ValidString(*pipeline) {
			out <- prometheus.NewInvalidMetric(c.decided, fmt.Errorf("the name %q is not valid UTF-8", d.Owner))
			continue
		}
		m.knob.Name, m.knob.Value = &knobLabel, &d.Knob
		m.owner.Name, m.owner.Value = &ownerLabel, &d.Owner
		m.pipeline.Name, m.pipeline.Value = &pipelineLabel, pipeline
		m.all = [3]*dto.LabelPair{&m.knob, &m.owner, &m.pipeline}
		m.sample = sample{c.decided, prometheus.CounterValue, float64(d.Changes), m.all[:]}
		out <- &m.sample
	}
}

// decision is a sample with its labels.
type decision struct {
	sample
	knob, owner, pipeline dto.LabelPair
	all                   [3]*dto.LabelPair
}

// The names of the labels; they are never changed.
var knobLabel, ownerLabel, pipelineLabel = "knob", "owner", "pipeline"

// decisions writes the same to a page.
func (t *page) decisions(all []controller.Decided) {
	if len(all) > 0 {
		t.family(decisionsName, decisionsHelp, "counter")
	}
	for _, d := range all {
		t.sample(decisionsName, t.label("owner", d.Owner), t.label("knob", d.Knob), float64(d.Changes))
	}
}
