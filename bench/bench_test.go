package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test binary serves as a measuring process, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		os.Exit(child(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// forEachMeasurement calls f for each work and each implementation that takes part.
func forEachMeasurement(t *testing.T, f func(t *testing.T, w work, i implementation)) {
	t.Helper()
	for _, w := range works() {
		for _, i := range implementations() {
			if _, ok := w.takes(i); ok {
				t.Run("work="+w.name+"/by="+i.name, func(t *testing.T) { f(t, w, i) })
			}
		}
	}
}

func TestEveryCommandOfEveryWorkIsAnsweredByEveryImplementation(t *testing.T) {
	forEachMeasurement(t, func(t *testing.T, w work, i implementation) {
		o := order{Work: w.name, Impl: i.name, Spin: 100, Moment: true}
		if w.name == "W6" {
			t.Skip("has a test of its own")
		}
		s, err := measure(o)
		require.NoError(t, err)
		assert.Positive(t, s.Commands)
		assert.Equal(t, s.Commands, s.Answered)
		assert.Positive(t, s.NsPerHop)
	})
}

func TestAProfileIsWrittenToItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w1.pprof")
	_, err := sendOnce(t.Context(), order{Work: "W1", Impl: golda.name, Moment: true, Profile: file})
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Positive(t, info.Size())
	_, err = sendOnce(t.Context(), order{Work: "W1", Impl: golda.name, Moment: true, Profile: filepath.Join(file, "nowhere")})
	require.ErrorContains(t, err, "nowhere")
}

// The result of a crash is what the table promises.
func TestACrashHasThePromisedResult(t *testing.T) {
	w, _ := workNamed("W6")
	for _, i := range implementations() {
		if _, ok := w.takes(i); !ok {
			continue
		}
		t.Run("by="+i.name, func(t *testing.T) {
			s, err := sendOnce(t.Context(), order{Work: "W6", Impl: i.name, Moment: true})
			require.NoError(t, err)
			assert.Equal(t, 200, s.Commands)
			switch {
			case i.name == golda.name:
				assert.Equal(t, s.Commands, s.Answered)
			case i.promise.crash == processDies:
				assert.Contains(t, s.Died, "panic: a crash on purpose")
				assert.Zero(t, s.Answered)
			default:
				assert.Equal(t, s.Commands-s.Commands/crashEvery, s.Answered, "%s", i.promise.crash)
				assert.Empty(t, s.Died)
			}
		})
	}
}

func TestOrderIsKeptAsPromised(t *testing.T) {
	for _, i := range implementations() {
		if !strings.HasPrefix(i.promise.order, "kept") || i.only != nil {
			continue
		}
		t.Run("by="+i.name, func(t *testing.T) {
			var mu sync.Mutex
			var came []int
			all := parcels(5_000)
			var ended tally
			l, err := i.pointers(shape[*parcel]{steps: nothings[*parcel](3, 1), capacity: 64, codec: parcelCodec(all), end: func(p *parcel) {
				mu.Lock()
				defer mu.Unlock()
				came = append(came, p.id)
				ended.add()
			}})
			require.NoError(t, err)
			require.NoError(t, l.send(all))
			require.Equal(t, len(all), ended.await(len(all), patience))
			l.stop()
			require.Len(t, came, len(all))
			assert.True(t, slices.IsSorted(came))
		})
	}
}

// A stuck stage holds its submitter back, or it does not, as the table promises.
func TestABoundedImplementationHoldsTheSubmitterBack(t *testing.T) {
	for _, i := range implementations() {
		if i.promise.bound == nothingWaits || i.only != nil {
			continue
		}
		t.Run("by="+i.name, func(t *testing.T) {
			const capacity, many = 128, 2_000
			gate := make(chan struct{})
			all := parcels(many)
			var ended, handed tally
			s := shape[*parcel]{capacity: capacity, codec: parcelCodec(all), end: func(*parcel) { ended.add() }}
			s.steps = []step[*parcel]{{name: "stuck", workers: 1, do: func(*parcel) { <-gate }}}
			l, err := i.pointers(s)
			require.NoError(t, err)
			go func() {
				for _, p := range all {
					_ = l.submit(p)
					handed.add()
				}
				if l.flush != nil {
					l.flush()
				}
			}()
			bounded := !strings.HasPrefix(i.promise.bound, "unbounded")
			wait := 10 * time.Second
			if bounded {
				wait = 200 * time.Millisecond
			}
			got := handed.await(many, wait)
			assert.Equal(t, bounded, got < many, "%d were taken", got)
			if bounded {
				assert.LessOrEqual(t, got, capacity+2*batchSize)
			}
			close(gate)
			assert.Equal(t, many, ended.await(many, patience))
			l.stop()
		})
	}
}

func TestAllImplementationsMakeTheSamePhotos(t *testing.T) {
	var want []uint32
	for _, i := range append([]implementation{direct}, implementations()...) {
		w, _ := workNamed("W10")
		if _, ok := w.takes(i); !ok {
			continue
		}
		all, err := undeveloped(10)
		require.NoError(t, err)
		s := shape[*parcel]{steps: photoSteps(), capacity: photoCapacity, deal: byID, codec: parcelCodec(all)}
		_, err = flow(i.pointers, s, all, 0)
		require.NoError(t, err)
		var sums []uint32
		for _, p := range all {
			require.NoError(t, p.photo.fault())
			sums = append(sums, p.photo.sum)
		}
		if want == nil {
			want = sums
		}
		assert.Equal(t, want, sums, i.name)
	}
}

func TestAScrapeIsAnsweredAndCompressed(t *testing.T) {
	l, p, err := goldaPipeline(shape[*parcel]{steps: nothings[*parcel](5, 1), capacity: capacity, end: func(*parcel) {}})
	require.NoError(t, err)
	defer l.stop()
	metrics, err := metricsOf(p)
	require.NoError(t, err)
	answer := scrape(metrics)
	assert.Equal(t, http.StatusOK, answer.status)
	assert.Equal(t, "gzip", answer.header.Get("Content-Encoding"))
	assert.Greater(t, answer.bytes, 1000)
}

// Golda alone, for the race detector. The detector makes the other libraries slow and finds their races, which this
// project cannot fix: go test -race -run GoldaRaces.
func TestGoldaRaces(t *testing.T) {
	for _, w := range works() {
		for _, i := range []implementation{golda, goldaBatch, goldaFlows, goldaRegistered, goldaMetrics, goldaMetricsOften} {
			if _, ok := w.takes(i); ok {
				t.Run("work="+w.name+"/by="+i.name, func(t *testing.T) {
					s, err := measure(order{Work: w.name, Impl: i.name, Spin: 10, Moment: true})
					require.NoError(t, err)
					assert.Equal(t, s.Commands, s.Answered)
				})
			}
		}
	}
}

func TestALineThatLosesACommandFails(t *testing.T) {
	lossy := func(s shape[*parcel]) (line[*parcel], error) {
		return line[*parcel]{
			submit: func(p *parcel) error {
				if p.id%50 != 49 {
					s.end(p)
				}
				return nil
			},
			stop: func() {},
		}, nil
	}
	_, err := flowFor(lossy, parcels(100), 10*time.Millisecond)
	require.EqualError(t, err, "2 of 100 commands never ended")
	_, err = flowFor(lossy, parcels(1000), 10*time.Millisecond)
	require.EqualError(t, err, "2 of the first 100 commands never ended")
}

func flowFor(build func(shape[*parcel]) (line[*parcel], error), all []*parcel, patience time.Duration) (sample, error) {
	return flowPatiently(build, shape[*parcel]{steps: nothings[*parcel](2, 1), capacity: capacity}, all, 0, patience)
}

func TestATallyCountsAllGoroutines(t *testing.T) {
	var counted tally
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 1000 {
				counted.add()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 50_000, counted.sum())
	assert.Equal(t, 50_000, counted.await(50_000, 0))
	assert.Equal(t, 50_000, counted.await(50_001, time.Millisecond), "it does not wait for ever")
}
