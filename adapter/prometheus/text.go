package prometheus

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

// ServeHTTP answers a scrape with the metrics of this pipeline alone, in
// Prometheus' text format, without native histograms and uncompressed. A
// registry has the same samples and sorts and checks them, which takes most of
// the time of a scrape: use ServeHTTP for a pipeline of many hundred stages.
func (c *Collector) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s := c.source.Snapshot()
	buffer, _ := pages.Get().(*[]byte)
	t := &page{text: (*buffer)[:0], all: "pipeline=" + labelValue(s.Pipeline)}
	t.text = slices.Grow(t.text, int(latest.Load()))
	defer func() {
		latest.Store(int64(len(t.text)))
		*buffer = t.text
		pages.Put(buffer)
	}()
	if !t.name(s.Pipeline) {
		http.Error(w, t.problem, http.StatusInternalServerError)
		return
	}
	writeSeries(t, c.ofAll, []pipeline.Snapshot{s}, func(*pipeline.Snapshot) string { return "" })
	t.stages(c, s.Stages)
	writeSeries(t, c.ofPool, s.Pools, func(p *pipeline.Pool) string { return t.label("pool", p.Name) })
	writeSeries(t, c.ofFeed, s.Feeds, func(f *pipeline.FeedSnapshot) string { return t.label("feed", f.Name) })
	if from, ok := c.source.(withLetters); ok {
		for _, m := range c.ofStore {
			t.family(m.name, m.help, kindOf(m.kind))
			for _, st := range stores {
				t.sample(m.name, t.label("store", st.name), "", m.read(st.of(from)))
			}
		}
	}
	t.decisions(s.Decided)
	if t.problem != "" {
		http.Error(w, t.problem, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(t.text)
}

// pages has the memory of pages for the next ones.
var pages = sync.Pool{New: func() any { return new([]byte) }}

// latest is how long the last page was: the collector of garbage may have
// emptied pages.
var latest atomic.Int64

// page is the text of a scrape.
type page struct {
	text    []byte
	all     string // the label of all samples
	problem string // why there is no text
}

// name reports whether a name may be the value of a label.
func (t *page) name(name string) bool {
	if !utf8.ValidString(name) {
		t.problem = fmt.Sprintf("the name %q is not valid UTF-8", name)
	}
	return t.problem == ""
}

// label returns a further label of a sample.
func (t *page) label(name, value string) string {
	t.name(value)
	return "," + name + "=" + labelValue(value)
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labelValue returns the value of a label as the format quotes it.
func labelValue(value string) string {
	return `"` + escapes.Replace(value) + `"`
}

func kindOf(kind prometheus.ValueType) string {
	if kind == counter {
		return "counter"
	}
	return "gauge"
}

// family begins the samples of one metric.
func (t *page) family(name, help, kind string) {
	t.text = append(t.text, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample writes one sample, with labels beside the pipeline.
func (t *page) sample(name, labels, more string, value float64) {
	t.text = append(t.text, name...)
	t.text = append(t.text, '{')
	t.text = append(t.text, t.all...)
	t.text = append(t.text, labels...)
	t.text = append(t.text, more...)
	t.text = append(t.text, "} "...)
	if whole := int64(value); float64(whole) == value { // most are, and this is quicker
		t.text = strconv.AppendInt(t.text, whole, 10)
	} else {
		t.text = strconv.AppendFloat(t.text, value, 'g', -1, 64)
	}
	t.text = append(t.text, '\n')
}

// writeSeries writes samples of each metric for each of all.
func writeSeries[S any](t *page, metrics []series[S], all []S, label func(*S) string) {
	if len(all) == 0 {
		return
	}
	labels := make([]string, len(all))
	for i := range all {
		labels[i] = label(&all[i])
	}
	for _, m := range metrics {
		t.family(m.name, m.help, kindOf(m.kind))
		for i := range all {
			t.sample(m.name, labels[i], "", m.read(&all[i]))
		}
	}
}

// stages writes the samples of stages and of their edges.
func (t *page) stages(c *Collector, all []stage.Snapshot) {
	writeSeries(t, c.ofOne, all, func(s *stage.Snapshot) string { return t.label(stageLabel, s.Name) })
	labels := make([]string, len(all))
	for i := range all {
		labels[i] = t.label(stageLabel, all[i].Name)
	}
	for _, r := range c.byWhy {
		t.family(r.name, r.help, "counter")
		for i := range all {
			t.reasons(&r, labels[i], &all[i])
		}
	}
	t.family(edgeName, edgeHelp, "counter")
	for i := range all {
		for _, e := range all[i].Edges {
			t.sample(edgeName, labels[i], t.label("to", e.To)+t.label("port", e.Port), float64(e.Moved))
		}
	}
	for _, h := range histograms {
		t.family(h.name, h.help, "histogram")
		names := [3]string{h.name + "_bucket", h.name + "_sum", h.name + "_count"}
		for i := range all {
			t.histogram(names, labels[i], h.read(&all[i]))
		}
	}
}

// reasons writes the counter of each known reason, and of others that occurred.
func (t *page) reasons(r *reasons, labels string, s *stage.Snapshot) {
	by := r.read(s)
	for i, why := range r.known {
		t.sample(r.name, labels, r.texts[i], float64(by[why]))
	}
	for why, n := range by {
		if !slices.Contains(r.known, why) {
			t.sample(r.name, labels, t.label("reason", string(why)), float64(n))
		}
	}
}

// histogram writes classic buckets.
func (t *page) histogram(name [3]string, labels string, of *stats.Durations) {
	total, next := uint64(0), 0
	for i, bound := range bounds {
		for ; next < len(of.Buckets) && of.Buckets[next].UpTo <= bound; next++ {
			total += of.Buckets[next].Count
		}
		t.sample(name[0], labels, leLabels[i], float64(total))
	}
	t.sample(name[0], labels, `,le="+Inf"`, float64(of.Count))
	t.sample(name[1], labels, "", of.Sum())
	t.sample(name[2], labels, "", float64(of.Count))
}

// leLabels are the labels of the bounds.
var leLabels = func() (all []string) {
	for _, u := range upper {
		all = append(all, `,le="`+strconv.FormatFloat(u, 'g', -1, 64)+`"`)
	}
	return all
}()
