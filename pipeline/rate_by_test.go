package pipeline_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// page is a command with a key.
type page struct {
	host string
	n    int
}

func (p page) Host() string { return p.host }

// visits records when pages were handled, since it was made.
type visits struct {
	mu    sync.Mutex
	began time.Time
	at    map[string][]time.Duration
	order map[string][]int
}

func newVisits() *visits {
	return &visits{began: time.Now(), at: map[string][]time.Duration{}, order: map[string][]int{}}
}

func (v *visits) handle(_ context.Context, p page) behaviour.Outcome {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at[p.host] = append(v.at[p.host], time.Since(v.began))
	v.order[p.host] = append(v.order[p.host], p.n)
	return behaviour.OK(nil)
}

func submitPages(t *testing.T, s *stage.Stage[page], host string, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, s.Submit(t.Context(), page{host, i}))
	}
}

func TestEachKeyIsHandledAtItsRateAndDelaysNoOther(t *testing.T) {
	for name, opts := range map[string][]stage.Option{
		"one worker":                      {stage.Workers(1, 1)},
		"many workers":                    {stage.Workers(8, 8)},
		"and a rate for all, not reached": {stage.Workers(1, 1), stage.Rate(1000, time.Second, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				v := newVisits()
				s := stage.Func("s", v.handle, append(opts, stage.RateBy(page.Host, 1, time.Second, 2))...)
				p := bubble(t, s)
				submitPages(t, s, "hot", 5)
				submitPages(t, s, "cold", 2)
				synctest.Wait()
				snap := s.Snapshot()
				require.Equal(t, 1, snap.Queue.RateKeys)
				require.Equal(t, 3, snap.Queue.Queued)
				require.Zero(t, snap.Workers.Busy, "commands that wait hold no worker")
				time.Sleep(10 * time.Second)
				require.NoError(t, p.Stop(t.Context()))
				require.Equal(t, []time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second}, v.at["hot"])
				require.Equal(t, []time.Duration{0, 0}, v.at["cold"])
				if len(opts) == 1 && name == "one worker" {
					require.Equal(t, []int{0, 1, 2, 3, 4}, v.order["hot"])
				}
				end := s.Snapshot()
				require.Zero(t, end.Queue.RateKeys)
				require.Equal(t, 3*time.Second, end.Counts.RateWait)
				require.True(t, end.Balanced())
			})
		})
	}
}

func TestAKeyHasAllItsPermitsAgainAfterATimeWithoutCommands(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		v := newVisits()
		s := stage.Func("s", v.handle, stage.RateBy(page.Host, 1, time.Second, 2))
		p := bubble(t, s)
		submitPages(t, s, "a", 2)
		time.Sleep(time.Second)
		submitPages(t, s, "a", 2) // one permit has come
		time.Sleep(10 * time.Second)
		submitPages(t, s, "a", 3)
		time.Sleep(10 * time.Second)
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []time.Duration{
			0, 0, time.Second, 2 * time.Second, 11 * time.Second, 11 * time.Second, 12 * time.Second,
		}, v.at["a"])
	})
}

func TestTheRateOfAKeyAndThatOfTheStageBothApply(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		v := newVisits()
		s := stage.Func("s", v.handle, stage.RateBy(page.Host, 1, 4*time.Second, 1), stage.Rate(1, time.Second, 1))
		p := bubble(t, s)
		submitPages(t, s, "a", 2)
		submitPages(t, s, "b", 2)
		time.Sleep(time.Minute)
		require.NoError(t, p.Stop(t.Context()))
		all := slices.Sorted(maps.Keys(map[time.Duration]bool{
			v.at["a"][0]: true, v.at["a"][1]: true, v.at["b"][0]: true, v.at["b"][1]: true,
		}))
		require.Equal(t, []time.Duration{0, time.Second, 4 * time.Second, 5 * time.Second}, all)
		require.Equal(t, 4*time.Second, v.at["a"][1]-v.at["a"][0])
	})
}

func TestAKeyedStageHasARateForItsKeys(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		v := newVisits()
		slow := func(ctx context.Context, p page) behaviour.Outcome {
			o := v.handle(ctx, p)
			time.Sleep(1500 * time.Millisecond)
			return o
		}
		s := stage.Keyed("s", page.Host, func(string) behaviour.Func[page] { return slow },
			stage.RateBy(page.Host, 1, time.Second, 2), stage.Workers(4, 4))
		p := bubble(t, s)
		submitPages(t, s, "a", 4)
		submitPages(t, s, "b", 1)
		time.Sleep(time.Minute)
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second, 4500 * time.Millisecond}, v.at["a"], "one at a time")
		require.Equal(t, []time.Duration{0}, v.at["b"])
		require.Equal(t, []int{0, 1, 2, 3}, v.order["a"])
	})
}

func TestATryCostsAPermitOfItsKeyAndAnExpiredCommandNone(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var tries atomic.Int32
		began := time.Now()
		var at []time.Duration
		s := stage.Func("s", func(context.Context, page) behaviour.Outcome {
			at = append(at, time.Since(began))
			if tries.Add(1) < 3 {
				return behaviour.Error(context.DeadlineExceeded)
			}
			return behaviour.OK(nil)
		}, stage.RateBy(page.Host, 1, time.Second, 1), stage.Workers(1, 1), stage.TTL(2500*time.Millisecond),
			stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: time.Millisecond, Max: time.Millisecond}))
		p := bubble(t, s)
		submitPages(t, s, "a", 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, at)
		submitPages(t, s, "a", 6) // of those that wait for longer than the time to live none takes a permit
		time.Sleep(2600 * time.Millisecond)
		submitPages(t, s, "a", 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second, 13 * time.Second}, at[3:])
		require.EqualValues(t, 3, s.Snapshot().Reasons.Shed[reason.Expired])
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestACommandWhoseKeyPanicsCrashesAloneUnderARate(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		v := newVisits()
		key := func(p page) string {
			if p.host == "" {
				panic("no host")
			}
			return p.host
		}
		s := stage.Func("s", v.handle, stage.RateBy(key, 1, time.Second, 1))
		p := bubble(t, s)
		_, err := stage.Call[any](t.Context(), s, page{})
		require.True(t, stage.Crashed(err))
		require.ErrorContains(t, err, "no host")
		_, err = stage.Call[any](t.Context(), s, page{host: "a"})
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAStageWithARateForKeysStopsInEachWay(t *testing.T) {
	t.Run("a drain is no faster than the rate", func(t *testing.T) {
		bubbled(t, func(t *testing.T) {
			v := newVisits()
			s := stage.Func("s", v.handle, stage.RateBy(page.Host, 1, time.Second, 1))
			p := bubble(t, s)
			submitPages(t, s, "a", 4)
			require.NoError(t, p.Stop(t.Context()))
			require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, v.at["a"])
		})
	})
	t.Run("a hard stop does not wait", func(t *testing.T) {
		bubbled(t, func(t *testing.T) {
			v := newVisits()
			s := stage.Func("s", v.handle, stage.RateBy(page.Host, 1, time.Hour, 1))
			p := bubble(t, s)
			submitPages(t, s, "a", 4)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Error(t, p.Stop(ctx))
			require.Less(t, time.Since(v.began), time.Minute)
			snap := s.Snapshot()
			require.EqualValues(t, 3, snap.Reasons.DeadLettered[reason.Stopped])
			require.True(t, snap.Balanced())
		})
	})
}

func TestARateForKeysThatMeansNothingIsRefused(t *testing.T) {
	handle := func(context.Context, page) behaviour.Outcome { return behaviour.OK(nil) }
	var none func(page) string
	for name, test := range map[string]struct {
		opts    []stage.Option
		problem string
	}{
		"no commands":    {[]stage.Option{stage.RateBy(page.Host, 0, time.Second, 1)}, "RateBy(key, 0, 1s, 1): the number must be at least 1"},
		"no time":        {[]stage.Option{stage.RateBy(page.Host, 1, 0, 1)}, "RateBy(key, 1, 0s, 1): the period must be above 0"},
		"no burst":       {[]stage.Option{stage.RateBy(page.Host, 1, time.Second, 0)}, "the burst must be at least 1"},
		"no key":         {[]stage.Option{stage.RateBy(none, 1, time.Second, 1)}, "the function for the key is nil"},
		"another type":   {[]stage.Option{stage.RateBy(strings.ToLower, 1, time.Second, 1)}, "the key takes string, and the stage's commands are pipeline_test.page"},
		"a linger":       {[]stage.Option{stage.RateBy(page.Host, 1, time.Second, 1), stage.Linger(time.Second)}, "takes no Linger"},
		"no rate either": {[]stage.Option{stage.RateBy(page.Host, 1, time.Second, 1), stage.Rate(0, time.Second, 1)}, "Rate(0, 1s, 1): the number must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New(t.Name(), stage.Func("s", handle, test.opts...))
			require.ErrorContains(t, err, test.problem)
		})
	}
	t.Run("another key of a keyed stage", func(t *testing.T) {
		other := func(p page) string { return p.host[:1] }
		_, err := pipeline.New(t.Name(), stage.Keyed("s", page.Host, func(string) behaviour.Func[page] { return handle }, stage.RateBy(other, 1, time.Second, 1)))
		require.ErrorContains(t, err, "a keyed stage has a rate for its own key")
	})
}

// Real time, with crashes and retries: the bound of each key holds, and nothing is lost. The bound is counted from the beginning,
// because a handler may begin any time after its command was taken.
func TestTheRatesOfManyKeysAreKeptWhileManySubmit(t *testing.T) {
	const keys, each, n, burst = 20, 60, 10, 5
	per := 20 * time.Millisecond
	var mu sync.Mutex
	starts := map[string][]time.Time{}
	s := stage.Func("s", func(_ context.Context, p page) behaviour.Outcome {
		mu.Lock()
		starts[p.host] = append(starts[p.host], time.Now())
		count := len(starts[p.host])
		mu.Unlock()
		switch {
		case count%17 == 0:
			panic("crash")
		case count%13 == 0:
			return behaviour.Error(context.Canceled)
		}
		return behaviour.OK(nil)
	}, stage.RateBy(page.Host, n, per, burst), stage.Workers(4, 4), stage.Retry(stage.RetryPolicy{Attempts: 4}), stage.Capacity(64),
		stage.Restart(stage.RestartPolicy{Limit: 1000}))
	p := start(t, s)
	begin := time.Now()
	var done sync.WaitGroup
	for k := range keys {
		done.Go(func() {
			for i := range each {
				if err := s.Submit(context.Background(), page{string(rune('a' + k)), i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	require.NoError(t, p.Stop(context.Background()))
	snap := s.Snapshot()
	require.True(t, snap.Balanced())
	require.EqualValues(t, keys*each, snap.Counts.OK+snap.Counts.Errors+snap.Counts.DeadLettered)
	for host, at := range starts {
		slices.SortFunc(at, time.Time.Compare)
		for i, when := range at {
			require.LessOrEqual(t, i+1, burst+int(when.Sub(begin)*n/per), "host %s", host)
		}
	}
}
