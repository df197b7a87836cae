package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats/fleet"
)

func get(h http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/scaling", nil))
	return answer
}

func TestAnExporterAsksOnceASecondHoweverOftenItIsAsked(t *testing.T) {
	url := serve(t).ClientURL()
	f, _ := start(t, connect(t, url), "shop", named("one"))
	raw, err := natsgo.Connect(url)
	require.NoError(t, err)
	defer raw.Close()
	var asked atomic.Int64
	_, err = raw.Subscribe("golda.fleet.shop.ask", func(*natsgo.Msg) { asked.Add(1) })
	require.NoError(t, err)
	require.NoError(t, raw.Flush())
	e := fleet.NewExporter(f)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				assert.Equal(t, http.StatusOK, get(e).Code)
				_, err := registry.Gather()
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	most := int64(time.Since(begin)/time.Second) + 2
	require.NoError(t, raw.Flush())
	require.LessOrEqual(t, asked.Load(), most)
	require.Positive(t, asked.Load())
}

func TestAnExporterSaysThatTheServerIsAway(t *testing.T) {
	s := serve(t)
	conn := connect(t, s.ClientURL())
	f, _ := start(t, conn, "shop", named("one"))
	halt(s)
	require.Eventually(t, func() bool { return !conn.JetStream().Conn().IsConnected() }, time.Minute, time.Millisecond)
	e := fleet.NewExporter(f)
	answer := get(e)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Contains(t, answer.Body.String(), "the server does not answer: "+s.ClientURL())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e)
	require.Equal(t, 1, testutil.CollectAndCount(e), "what is not known is absent")
	require.Zero(t, testutil.ToFloat64(e))
}

func TestARequestThatIsGivenUpDoesNotWait(t *testing.T) {
	f, _ := start(t, connect(t, serve(t).ClientURL()), "shop", named("one"))
	e := fleet.NewExporter(f)
	first := make(chan struct{})
	go func() {
		defer close(first)
		get(e) // takes a second
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	answer := httptest.NewRecorder()
	e.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/scaling", nil))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.NoError(t, f.Leave(t.Context())) // and the first one ends, too
	<-first
}

// many starts many processes in this one, each with a connection of its own.
func many(t testing.TB, url string, n int) (one *fleet.Fleet) {
	t.Helper()
	for i := range n {
		f, _ := start(t, connect(t, url), "shop", fleet.Options{Name: fmt.Sprintf("p%02d", i), Every: time.Second, Wait: time.Minute})
		one = f
	}
	return one
}

func TestFiftyProcessesAreInOneSnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts fifty processes; others start a few")
	}
	const n = 50
	f := many(t, serve(t).ClientURL(), n)
	var s fleet.Snapshot
	require.Eventually(t, func() bool {
		var err error
		s, err = f.Snapshot(t.Context())
		return err == nil && len(s.Processes) == n && s.Inlets[0].Processes == n
	}, 2*time.Minute, time.Millisecond)
	for _, p := range s.Processes {
		require.NoError(t, p.Err)
		require.Equal(t, fleet.Alive, p.State)
		require.Len(t, p.Snapshot.Stages, 2)
	}
	require.Equal(t, 50*4, s.Inlets[0].Workers)
}

// What a snapshot of 1, 10 and 50 processes costs. All of them and the server run here; each has two stages, and all have one inlet. The
// processes beat every second meanwhile.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("processes=%d", n), func(b *testing.B) {
			f := many(b, serve(b).ClientURL(), n)
			for {
				s, err := f.Snapshot(b.Context())
				require.NoError(b, err)
				if len(s.Processes) == n && s.Inlets[0].Processes == n {
					break
				}
			}
			time.Sleep(time.Second) // from now on all are known
			b.ReportAllocs()
			var s fleet.Snapshot
			for b.Loop() {
				var err error
				s, err = f.Snapshot(b.Context())
				require.NoError(b, err)
			}
			b.StopTimer()
			require.Len(b, s.Processes, n)
			for i := range s.Processes {
				require.Equal(b, fleet.Alive, s.Processes[i].State)
			}
		})
	}
}
