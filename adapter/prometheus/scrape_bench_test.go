package prometheus_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkScrape measures one scrape and its parts: taking the snapshot, making samples of the numbers, gathering and
// checking them in the registry, and writing them, plain or, as Prometheus asks for it, compressed. Direct is the
// handler of the collector itself.
//
//	go test -run '^$' -bench Scrape -benchmem ./adapter/prometheus
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{5, 1000} {
		p := line(b, n)
		collector := goldaprom.NewCollector(p)
		registry := prometheus.NewRegistry()
		require.NoError(b, registry.Register(collector))
		metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
		parts := []struct {
			name string
			do   func()
		}{
			{"snapshot", func() { p.Snapshot() }},
			{"collect", func() { collected(collector) }},
			{"gather", func() { _, _ = registry.Gather() }},
			{"plain", func() { scraped(metrics, "") }},
			{"direct", func() { collector.ServeHTTP(discarded{}, nil) }},
			{"zipped", func() { scraped(metrics, "gzip") }},
		}
		for _, part := range parts {
			b.Run(fmt.Sprintf("stages=%d/part=%s", n, part.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					part.do()
				}
			})
		}
	}
}

// collected collects all samples and drops them.
func collected(c prometheus.Collector) (n int) {
	samples := make(chan prometheus.Metric, 1000) // the capacity that a registry uses
	go func() {
		c.Collect(samples)
		close(samples)
	}()
	for range samples {
		n++
	}
	return n
}

func scraped(metrics http.Handler, encoding string) *bytes.Buffer {
	ask := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	ask.Header.Set("Accept-Encoding", encoding)
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, ask)
	return answer.Body
}

// line starts n stages in a row, which have handled commands.
func line(tb testing.TB, n int) *pipeline.Pipeline {
	tb.Helper()
	var parts []pipeline.Part
	var in *behaviour.Port[int]
	var entry *stage.Stage[int]
	for i := range n {
		out := behaviour.NewPort[int]("out")
		outs := []behaviour.Outlet{out}
		do := func(_ context.Context, c int) behaviour.Outcome { return behaviour.Forward(out, c) }
		if i == n-1 {
			outs = nil
			do = func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
		}
		s := stage.Func("s"+strconv.Itoa(i+1), do, stage.Out(outs...), stage.Workers(1, 1))
		parts = append(parts, s)
		if in == nil {
			entry = s
		} else {
			parts = append(parts, pipeline.Wire(in, s))
		}
		in = out
	}
	p, err := pipeline.New("line", parts...)
	require.NoError(tb, err)
	require.NoError(tb, p.Start(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, p.Stop(context.Background())) })
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			_, err := stage.Call[any](tb.Context(), entry, 0)
			assert.NoError(tb, err)
		})
	}
	all.Wait()
	return p
}

// discarded is an answer that is not kept.
type discarded struct{}

func (discarded) Header() http.Header            { return http.Header{} }
func (discarded) Write(text []byte) (int, error) { return len(text), nil }
func (discarded) WriteHeader(int)                {}
