package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Exporter exports the numbers that autoscalers need from a [Fleet]. It is a
// collector for Prometheus, and serves JSON for the metrics-api scaler of KEDA.
//
//	e := fleet.NewExporter(f)
//	registry.MustRegister(e)
//	mux.Handle("GET /scaling", e)
//
// A snapshot is taken at most once a second, however many requests there are,
// also after one that failed. All processes export the same numbers, except for
// the moment, and for numbers that a process without a connection does not
// know: so take the maximum over processes, never the sum.
//
// # Metrics
//
// With the label pipeline, and state or inlet:
//
//	golda_fleet_up                   gauge    1 if the server and the processes could be asked
//	golda_fleet_processes            gauge    by state: alive, silent, lost, left
//
//	golda_fleet_published_total      counter  messages, without duplicates
//	golda_fleet_done_total           counter
//	golda_fleet_dead_lettered_total  counter
//	golda_fleet_pending              gauge    messages that are not done
//	golda_fleet_in_flight            gauge    those of them that were delivered
//	golda_fleet_oldest_age_seconds   gauge    age of the oldest one of them
//	golda_fleet_workers              gauge    of the bottleneck
//	golda_fleet_wanted_workers       gauge
//	golda_fleet_feeding_processes    gauge    processes that are fed by the inlet
//	golda_fleet_wanted_processes     gauge
//
// If the server is away, up is 0 and unknown numbers are absent.
//
// # JSON
//
//	{"pipeline": "shop", "processes": {"alive": 3, …}, "inlets": {"orders": {"pending": 12, "wanted_processes": 4, …}}}
//
// has the same. If nothing is known the status is 503, with the error as text.
// Mount it where only clients that may see these numbers reach it: it asks for
// no credentials.
//
// The counters never decrease, unless the stream is made anew. The count of
// done messages is a difference of two numbers that the server gives one after
// the other, so it may be a few less than a moment before; the exporter shows
// the maximum.
//
// Any goroutine may use it. It has none of its own, and needs no stop.
type Exporter struct {
	fleet *Fleet
	turn  chan struct{} // has an element while the rest is used
	last  Snapshot
	err   error
	at    time.Time // of last
	done  map[string]counted

	up, processes *prometheus.Desc
	series        []series
}

// counted has the counters of an inlet that were exported last.
type counted struct{ published, done uint64 }

// series is a metric of an inlet.
type series struct {
	name, help string
	kind       prometheus.ValueType
	read       func(Inlet) float64 // nil for done_total
	desc       *prometheus.Desc
}

const doneTotal = "done_total"

var inletSeries = []series{
	{
		name: "published_total", help: "Messages that were published, without duplicates.", kind: prometheus.CounterValue,
		read: func(i Inlet) float64 { return float64(i.Published) },
	},
	{
		name: doneTotal, help: "Messages that are done.", kind: prometheus.CounterValue,
	},
	{
		name: "dead_lettered_total", help: "Messages that have become dead letters.", kind: prometheus.CounterValue,
		read: func(i Inlet) float64 { return float64(i.Buried) },
	},
	{
		name: "pending", help: "Messages that are not done.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.Pending) },
	},
	{
		name: "in_flight", help: "Messages that were delivered and are not done.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.InFlight) },
	},
	{
		name: "oldest_age_seconds", help: "Age of the oldest message that is not done.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return i.Age.Seconds() },
	},
	{
		name: "workers", help: "Workers of the bottleneck, in all processes.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.Workers) },
	},
	{
		name: "wanted_workers", help: "Workers that the law wants.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.WantedWorkers) },
	},
	{
		name: "feeding_processes", help: "Processes that are fed by the inlet.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.Processes) },
	},
	{
		name: "wanted_processes", help: "Processes that the law wants.", kind: prometheus.GaugeValue,
		read: func(i Inlet) float64 { return float64(i.WantedProcesses) },
	},
}

// NewExporter returns an exporter of a fleet. A nil fleet panics.
func NewExporter(f *Fleet) *Exporter {
	if f == nil {
		panic("fleet: NewExporter: the Fleet is nil")
	}
	labels := prometheus.Labels{"pipeline": f.pipeline}
	e := &Exporter{
		fleet: f, turn: make(chan struct{}, 1), done: map[string]counted{},
		up:        prometheus.NewDesc("golda_fleet_up", "Whether the server and the processes could be asked.", nil, labels),
		processes: prometheus.NewDesc("golda_fleet_processes", "Processes by what is known of them.", []string{"state"}, labels),
	}
	for _, s := range inletSeries {
		s.desc = prometheus.NewDesc("golda_fleet_"+s.name, s.help, []string{"inlet"}, labels)
		e.series = append(e.series, s)
	}
	return e
}

// The bounds of an exporter.
const (
	fresh   = time.Second      // how old a snapshot may be
	longest = 30 * time.Second // how long one may take
)

// latest returns a snapshot that is at most a second old, and how many messages
// of each inlet are done.
func (e *Exporter) latest(ctx context.Context) (Snapshot, map[string]uint64, error) {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return Snapshot{}, nil, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	if e.at.IsZero() || time.Since(e.at) > fresh {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest) // others wait for it, too
		e.last, e.err = e.fleet.Snapshot(own)
		cancel()
		e.at = time.Now()
	}
	return e.last, e.count(), e.err
}

// count returns how many messages of each inlet are done, and never less than
// before.
func (e *Exporter) count() map[string]uint64 {
	done := make(map[string]uint64, len(e.last.Inlets))
	for _, i := range e.last.Inlets {
		now, before := counted{i.Published, i.Done()}, e.done[i.Name]
		if now.published >= before.published { // else the stream was made anew
			now.done = max(now.done, before.done)
		}
		e.done[i.Name], done[i.Name] = now, now.done
	}
	return done
}

// Describe is for [prometheus.Collector].
func (e *Exporter) Describe(out chan<- *prometheus.Desc) {
	out <- e.up
	out <- e.processes
	for _, s := range e.series {
		out <- s.desc
	}
}

// Collect is for [prometheus.Collector].
func (e *Exporter) Collect(out chan<- prometheus.Metric) {
	s, done, err := e.latest(context.Background())
	up := 1.0
	if err != nil {
		up = 0
	}
	out <- prometheus.MustNewConstMetric(e.up, prometheus.GaugeValue, up)
	if err != nil && len(s.Processes) == 0 {
		return
	}
	for state, n := range s.states() {
		out <- prometheus.MustNewConstMetric(e.processes, prometheus.GaugeValue, float64(n), string(state))
	}
	for _, i := range s.Inlets {
		for _, one := range e.series {
			value := float64(done[i.Name])
			if one.read != nil {
				value = one.read(i)
			}
			out <- prometheus.MustNewConstMetric(one.desc, one.kind, value, i.Name)
		}
	}
}

// states counts the processes by their states.
func (s Snapshot) states() map[State]int {
	n := map[State]int{Alive: 0, Silent: 0, Lost: 0, Left: 0}
	for i := range s.Processes {
		n[s.Processes[i].State]++
	}
	return n
}

// scaling is the JSON of an exporter.
type scaling struct {
	Pipeline  string                 `json:"pipeline"`
	At        time.Time              `json:"at"`
	Processes map[State]int          `json:"processes"`
	Inlets    map[string]scalingData `json:"inlets"`
	Error     string                 `json:"error,omitempty"`
}

// scalingData is an inlet in the JSON of an exporter.
type scalingData struct {
	Stage           string  `json:"stage"`
	Published       uint64  `json:"published"`
	Done            uint64  `json:"done"`
	DeadLettered    uint64  `json:"dead_lettered"`
	Pending         uint64  `json:"pending"`
	InFlight        uint64  `json:"in_flight"`
	OldestAge       float64 `json:"oldest_age_seconds"`
	Rate            float64 `json:"rate"`
	Bottleneck      string  `json:"bottleneck"`
	Workers         int     `json:"workers"`
	WantedWorkers   int     `json:"wanted_workers"`
	Processes       int     `json:"processes"`
	WantedProcesses int     `json:"wanted_processes"`
}

// ServeHTTP is for [http.Handler].
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	s, done, err := e.latest(r.Context())
	if err != nil && len(s.Inlets) == 0 {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body := scaling{Pipeline: s.Pipeline, At: s.At, Processes: s.states(), Inlets: map[string]scalingData{}}
	if err != nil {
		body.Error = err.Error()
	}
	for _, i := range s.Inlets {
		body.Inlets[i.Name] = scalingData{
			Stage: i.Stage, Published: i.Published, Done: done[i.Name], DeadLettered: i.Buried, Pending: i.Pending, InFlight: i.InFlight,
			OldestAge: i.Age.Seconds(), Rate: i.Rate, Bottleneck: i.Bottleneck, Workers: i.Workers, WantedWorkers: i.WantedWorkers,
			Processes: i.Processes, WantedProcesses: i.WantedProcesses,
		}
	}
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // the client has gone
}
