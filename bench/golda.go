package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Golda with its defaults: stages, ports and wires. Only the number of workers
// is set, which a work fixes, and the capacity, which is the default in all
// works except W10. So the policy runs, accounts are kept, crashes are caught,
// and dead letters are kept.
//
// It guarantees: a limited number of commands waits before a stage, then
// submitters wait; a stage with one worker is first in, first out; every
// accepted command ends exactly once. A crash costs the command that was being
// handled, which is answered with the reason, and no other.
var golda = implementation{
	name:     "golda",
	what:     "stages, wires and all defaults",
	promise:  goldaPromise,
	pointers: goldaLine[*parcel],
	blocks:   goldaLine[block],
	boxes:    goldaLine[*block],
	logs:     goldaLogs,
	service:  goldaService,
}

// goldaBatch is golda with a submitter that submits 64 commands at once, as the
// submitter of chanbatch does.
var goldaBatch = implementation{
	name:     "goldabatch",
	what:     "the same, submitted 64 at a time with SubmitAll",
	promise:  goldaPromise,
	pointers: goldaBatches[*parcel],
	only:     []string{"W1", "W2"},
}

func goldaBatches[C any](s shape[C]) (line[C], error) {
	stages, parts := goldaStages(s)
	p, err := goldaStarted(parts)
	if err != nil {
		return line[C]{}, err
	}
	ctx, batch := context.Background(), make([]C, 0, batchSize)
	flush := func() error {
		_, err := stages[0][0].SubmitAll(ctx, batch...)
		clear(batch)
		batch = batch[:0]
		return err
	}
	return line[C]{
		submit: func(c C) error {
			if batch = append(batch, c); len(batch) < cap(batch) {
				return nil
			}
			return flush()
		},
		flush: func() { _ = flush() },
		stop:  func() { _ = p.Stop(ctx) },
	}, nil
}

// goldaFlows is the same written as flows of plain functions. Their results
// travel in boxes, so a hop of a value does not allocate; behaviour.Forward has
// an outcome that the handler may keep, and copies the value to the heap.
var goldaFlows = implementation{
	name:     "golda+flows",
	what:     "the same, written with stage.Map and stage.Sink",
	promise:  goldaPromise,
	pointers: goldaFlowLine[*parcel],
	blocks:   goldaFlowLine[block],
	only:     []string{"W1", "W9v"},
}

func goldaFlowLine[C any](s shape[C]) (line[C], error) {
	last := len(s.steps) - 1
	do, end := s.steps[last].do, s.end
	sink := stage.Sink(s.steps[last].name, func(_ context.Context, c C) error {
		do(c)
		end(c)
		return nil
	}, goldaOptions(s, s.steps[last], nil)...)
	entry, parts := sink.Stage, []pipeline.Part{sink}
	next := behaviour.Target[C](sink)
	for _, st := range slices.Backward(s.steps[:last]) {
		flow := stage.Map(st.name, func(_ context.Context, c C) (C, error) {
			st.do(c)
			return c, nil
		}, goldaOptions(s, st, nil)...)
		parts = append(parts, flow.To(next))
		entry, next = flow.Stage, flow
	}
	p, err := goldaStarted(parts)
	if err != nil {
		return line[C]{}, err
	}
	ctx := context.Background()
	return line[C]{
		submit: func(c C) error { return entry.Submit(ctx, c) },
		stop:   func() { _ = p.Stop(ctx) },
	}, nil
}

// goldaMetrics is the same with the adapter for Prometheus registered, and
// scraped once a second.
var goldaMetrics = implementation{
	name:     "golda+metrics",
	what:     "the same, scraped by Prometheus once a second",
	promise:  goldaPromise,
	pointers: goldaScraped(time.Second),
	only:     []string{"W1", "W2", "W5"},
}

// goldaMetricsOften is scraped fifty times a second. The cost of one scrape a
// second is less than the difference of two measurements of the same thing;
// fifty times that is measurable.
var goldaMetricsOften = implementation{
	name:     "golda+metrics50",
	what:     "the same, scraped fifty times a second, to measure the cost of one",
	promise:  goldaPromise,
	pointers: goldaScraped(time.Second / often),
	only:     []string{"W1"},
}

const often = 50

// goldaRegistered has the adapter registered, but it is never scraped.
var goldaRegistered = implementation{
	name:     "golda+registered",
	what:     "the same, registered with Prometheus and never scraped",
	promise:  goldaPromise,
	pointers: goldaScraped(never),
	only:     []string{"W1"},
}

const never time.Duration = 0

var goldaPromise = promise{
	bound: "bounded: submitters wait",
	order: oneWorker,
	crash: "the command is answered with the reason; the worker is replaced",
}

func goldaLine[C any](s shape[C]) (line[C], error) {
	l, _, err := goldaPipeline(s)
	return l, err
}

func goldaPipeline[C any](s shape[C]) (line[C], *pipeline.Pipeline, error) {
	stages, parts := goldaStages(s)
	p, err := goldaStarted(parts)
	if err != nil {
		return line[C]{}, nil, err
	}
	ctx, entry := context.Background(), stages[0][0]
	return line[C]{
		submit: func(c C) error { return entry.Submit(ctx, c) },
		call: func(ctx context.Context, c C) error {
			_, err := stage.Call[C](ctx, entry, c)
			return err
		},
		stop: func() { _ = p.Stop(ctx) },
	}, p, nil
}

func goldaStarted(parts []pipeline.Part) (*pipeline.Pipeline, error) {
	p, err := pipeline.New("bench", append(parts,
		pipeline.Logger(slog.New(slog.DiscardHandler)))...) // W6 crashes on purpose
	if err != nil {
		return nil, err
	}
	return p, p.Start(context.Background())
}

// goldaStages makes the stages of all steps and the wires between them.
func goldaStages[C any](s shape[C]) (stages [][]*stage.Stage[C], parts []pipeline.Part) {
	stages = make([][]*stage.Stage[C], len(s.steps))
	var outs []*behaviour.Port[C] // of the previous step
	for i, st := range s.steps {
		var next []*behaviour.Port[C]
		if !s.last(i) {
			next = goldaPorts[C](s.steps[i+1].width())
		}
		for lane := range st.width() {
			own := stage.Func(goldaName(st, lane), goldaHandler(s, i, next), goldaOptions(s, st, next)...)
			stages[i] = append(stages[i], own)
			parts = append(parts, own)
		}
		for lane, out := range outs {
			parts = append(parts, pipeline.Wire(out, stages[i][lane]))
		}
		outs = next
	}
	return stages, parts
}

func goldaName[C any](st step[C], lane int) string {
	if st.lanes <= 1 {
		return st.name
	}
	return fmt.Sprintf("%s.%d", st.name, lane+1)
}

func goldaPorts[C any](n int) []*behaviour.Port[C] {
	ports := make([]*behaviour.Port[C], n)
	for i := range ports {
		ports[i] = behaviour.NewPort[C](fmt.Sprintf("next.%d", i+1))
	}
	return ports
}

func goldaOptions[C any](s shape[C], st step[C], next []*behaviour.Port[C]) []stage.Option {
	outs := make([]behaviour.Outlet, len(next))
	for i, port := range next {
		outs[i] = port
	}
	return []stage.Option{stage.Workers(st.workers, st.workers), stage.Capacity(s.capacity), stage.Out(outs...)}
}

// goldaHandler returns the handler of a stage: the work, and where the command
// goes then.
func goldaHandler[C any](s shape[C], i int, next []*behaviour.Port[C]) func(context.Context, C) behaviour.Outcome {
	do, end := s.steps[i].do, s.end
	switch {
	case s.last(i) && s.answers:
		return func(_ context.Context, c C) behaviour.Outcome {
			do(c)
			return behaviour.OK(c)
		}
	case s.last(i):
		return func(_ context.Context, c C) behaviour.Outcome {
			do(c)
			end(c)
			return behaviour.OK(nil)
		}
	case len(next) > 1:
		return func(_ context.Context, c C) behaviour.Outcome {
			do(c)
			return behaviour.Forward(next[s.lane(i+1, c)], c)
		}
	default:
		only := next[0]
		return func(_ context.Context, c C) behaviour.Outcome {
			do(c)
			return behaviour.Forward(only, c)
		}
	}
}

// goldaScraped returns a line whose metrics are scraped.
func goldaScraped(pause time.Duration) func(shape[*parcel]) (line[*parcel], error) {
	return func(s shape[*parcel]) (line[*parcel], error) {
		l, p, err := goldaPipeline(s)
		if err != nil {
			return l, err
		}
		metrics, err := metricsOf(p)
		if pause != never {
			l.watch = func() (done func()) { return every(pause, func() { scrape(metrics) }) }
		}
		return l, err
	}
}

// metricsOf returns a handler for the metrics of a pipeline.
func metricsOf(p *pipeline.Pipeline) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	err := registry.Register(goldaprom.NewCollector(p))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

// scrape requests the metrics as Prometheus does, compressed. The cost in the
// user's process is included except the network; the cost in Prometheus is not.
func scrape(metrics http.Handler) *reply {
	ask := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
	ask.Header.Set("Accept-Encoding", "gzip")
	ask.Header.Set("Accept", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	answer := &reply{header: http.Header{}, status: http.StatusOK}
	metrics.ServeHTTP(answer, ask)
	return answer
}

// reply counts the bytes that a real server would send over the network.
type reply struct {
	header http.Header
	status int
	bytes  int
}

func (r *reply) Header() http.Header    { return r.header }
func (r *reply) WriteHeader(status int) { r.status = status }

func (r *reply) Write(b []byte) (int, error) {
	r.bytes += len(b)
	return len(b), nil
}

// every calls f repeatedly, first after half a pause, until done is called.
func every(pause time.Duration, f func()) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		wait := pause / 2
		for {
			select {
			case <-time.After(wait):
				f()
				wait = pause
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
