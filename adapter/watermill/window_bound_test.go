package watermill_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

func TestAWindowThatATopicNeverFillsIsRefused(t *testing.T) {
	s := newSource(t, newBroker(1, "a"), watermill.Options[string]{MaxInFlight: 8})
	of := func(count int, most time.Duration) *stage.Flow[string, window.Window[struct{}, []string]] {
		return led(window.All("collect", window.Bounds[string]{Count: count, Time: most}))
	}
	_, err := pipeline.New("test", pipeline.Feed("orders", of(9, 0), s.Feed))
	require.ErrorContains(t, err,
		`Feed "orders": source "orders" has at most 8 messages in the pipeline at once, and only 9 commands close a window of stage "collect"`)
	_, err = pipeline.New("test", pipeline.Feed("orders", of(8, 0), s.Feed))
	require.NoError(t, err)
	_, err = pipeline.New("test", pipeline.Feed("orders", of(9, time.Minute), s.Feed))
	require.NoError(t, err)
}

// led has the results of a flow answer the callers, by a last stage.
func led[In, Out any](of *stage.Flow[In, Out]) *stage.Flow[In, Out] {
	return stage.Chain(of, stage.Map("end", func(_ context.Context, out Out) (Out, error) { return out, nil }))
}

// pairs collects payloads in windows of two with the same number modulo keys, and adds them to a tally.
func pairs(keys int, to *tally) (of *stage.Flow[string, window.Window[int, []string]], part pipeline.Part) {
	of = window.By("collect", func(cmd string) int { return number(cmd) % keys }, window.Bounds[string]{Count: 2})
	return of, of.To(stage.Sink("sink", func(_ context.Context, w window.Window[int, []string]) error {
		for _, cmd := range w.Value {
			to.add(cmd)
		}
		return nil
	}, stage.Workers(1, 4)))
}

// number returns the number that a payload is.
func number(payload string) int {
	n, err := strconv.Atoi(payload)
	if err != nil {
		panic(err)
	}
	return n
}

// Only a further command of its key closes a window, and no further message arrives until some windows are closed, or none at all.
func TestWindowsThatOnlyTheirCountClosesDoNotHoldUpATopicForEver(t *testing.T) {
	for name, c := range map[string]struct {
		window, messages, keys int
		o                      watermill.Options[string]
	}{
		"more keys than messages may be in flight":         {50, 60, 30, watermill.Options[string]{MaxInFlight: 20}},
		"more keys than several subscriptions may have":    {4, 60, 30, watermill.Options[string]{MaxInFlight: 20, Subscriptions: 5}},
		"a subscriber that hands on one after the other":   {1, 6, 3, watermill.Options[string]{}},
		"one of which the source knows that it does so":    {1, 60, 30, watermill.Options[string]{MaxInFlight: 2, Subscriptions: 2}},
		"the topic has no message that closes the windows": {50, 35, 10, watermill.Options[string]{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(c.window, numbers(c.messages)...)
				b.idle = time.Second
				s := newSource(t, b, c.o)
				got := newTally()
				of, part := pairs(c.keys, got)
				start(t, of.Stage, s.Feed, part)
				time.Sleep(10 * time.Minute)
				require.Equal(t, c.messages, b.total(b.acked))
				require.ElementsMatch(t, numbers(c.messages), got.list())
			})
		})
	}
}

func TestSeveralTopicsCloseTheWindowsThatHoldUpAllOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const topics, each = 3, 40
		got := newTally()
		of, part := pairs(topics*each, got)
		parts, brokers := []pipeline.Part{part}, []*broker{}
		var first *watermill.Source[string]
		for i := range topics {
			b := newBroker(20, numbers((i + 1) * each)[i*each:]...)
			b.idle = time.Second
			s := newSource(t, b, watermill.Options[string]{MaxInFlight: 5 * (i + 1)})
			brokers = append(brokers, b)
			if i == 0 {
				first = s
				continue
			}
			parts = append(parts, pipeline.Feed("feed "+strconv.Itoa(i), of, s.Feed))
		}
		p := start(t, of.Stage, first.Feed, parts...)
		for _, name := range slices.Concat(policy.Names(), policy.Names()) {
			if name == "codel" || name == "rt90" {
				continue // they drop or refuse commands in an overload
			}
			next, err := policy.ByName(name)
			require.NoError(t, err)
			require.NoError(t, p.SetPolicy(next), name)
			time.Sleep(time.Second)
		}
		for _, b := range brokers {
			require.Equal(t, each, b.total(b.acked))
		}
		require.ElementsMatch(t, numbers(topics*each), got.list())
	})
}
