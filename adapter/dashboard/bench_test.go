package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkTick is one second of a pipeline of 200 stages, all of which have worked, with open pages. Its cpu-ms are the
// CPU time of the process, clients included: 10 ms are 1 % of a core. With no page there is nothing to measure.
//
//	go test -run '^$' -bench Tick -benchtime 30x ./adapter/dashboard
func BenchmarkTick(b *testing.B) {
	for _, viewers := range []int{1, 100} {
		b.Run(fmt.Sprintf("viewers=%d", viewers), func(b *testing.B) { benchmarkTick(b, viewers) })
	}
}

func benchmarkTick(b *testing.B, viewers int) {
	b.Helper()
	in, p := long(b, 200)
	d, err := New(p, Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	server := httptest.NewServer(d)
	ctx, cancel := context.WithCancel(b.Context())
	var bytes atomic.Int64
	var clients sync.WaitGroup
	for range viewers {
		clients.Go(func() { watch(ctx, server.URL, &bytes) })
	}
	s := d.sampler
	for joined := 0; joined < viewers; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		joined = len(s.viewers)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.stopLocked() // the benchmark is the clock
	s.stop = make(chan struct{})
	s.mu.Unlock()
	used, ticks := time.Duration(0), 0
	for b.Loop() {
		for n := range 50 {
			require.NoError(b, in.Submit(b.Context(), n))
		}
		time.Sleep(100 * time.Millisecond) // for the stages, whose time is not counted
		before, _ := cputime.Used()
		next := s.next()
		s.mu.Lock()
		s.tickLocked(next)
		s.mu.Unlock()
		time.Sleep(100 * time.Millisecond) // for the clients
		after, _ := cputime.Used()
		used += after - before
		ticks++
	}
	cancel()
	clients.Wait()
	b.ReportMetric(used.Seconds()*1000/float64(ticks), "cpu-ms/tick")
	b.ReportMetric(float64(bytes.Load())/float64(ticks*viewers)/1000, "kB/tick/viewer")
	b.ReportMetric(0, "ns/op")
	server.CloseClientConnections()
	d.Close()
	server.Close()
	require.NoError(b, p.Stop(context.Background())) //nolint:usetesting // the benchmark's has ended
}

// long is a line of stages.
func long(tb testing.TB, stages int) (*stage.Flow[int, int], *pipeline.Pipeline) {
	tb.Helper()
	step := func(_ context.Context, n int) (int, error) { return n + 1, nil }
	first := stage.Map("stage-0", step)
	parts := []pipeline.Part{pipeline.Logger(slog.New(slog.DiscardHandler))}
	for i, last := 1, first; i < stages; i++ {
		next := stage.Map(fmt.Sprintf("stage-%d", i), step)
		parts = append(parts, last.To(next))
		last = next
	}
	p, err := pipeline.New("long", parts...)
	require.NoError(tb, err)
	require.NoError(tb, p.Start(context.Background()))
	return first, p
}

// watch reads events until the context ends.
func watch(ctx context.Context, url string, bytes *atomic.Int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/golda/v1/events", nil)
	if err != nil {
		return
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer w.Body.Close()
	for chunk := make([]byte, 1<<16); ; {
		n, err := w.Body.Read(chunk)
		bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// BenchmarkHop is a command through three stages, without a dashboard, with one that has no viewer, and with one viewer. Compare the medians
// of several runs:
//
//	go test -run '^$' -bench Hop -count 10 ./adapter/dashboard
func BenchmarkHop(b *testing.B) {
	for _, c := range []struct {
		name      string
		dashboard bool
		viewers   int
	}{{"none", false, 0}, {"viewers=0", true, 0}, {"viewers=1", true, 1}} {
		b.Run(c.name, func(b *testing.B) {
			in, p := long(b, 3)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var bytes atomic.Int64
			var clients sync.WaitGroup
			if c.dashboard {
				d, err := New(p, Options{Log: slog.New(slog.DiscardHandler)})
				require.NoError(b, err)
				server := httptest.NewServer(d)
				defer server.Close()
				defer d.Close()
				for range c.viewers {
					clients.Go(func() { watch(ctx, server.URL, &bytes) })
				}
			}
			for n := 0; b.Loop(); n++ {
				if err := in.Submit(ctx, n); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, p.Drain(ctx))
			cancel()
			clients.Wait()
			require.NoError(b, p.Stop(context.Background())) //nolint:usetesting // the benchmark's has ended
		})
	}
}
