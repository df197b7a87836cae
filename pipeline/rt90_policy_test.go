package pipeline_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// visitor is a request of a class: of a customer, or of anyone.
type visitor struct {
	n        int
	customer bool
	at       time.Time
}

func (v visitor) Priority() int {
	if v.customer {
		return 1
	}
	return 0
}

// A server gets twice what it can do for two minutes, an eighth of it from customers. Requests that are admitted are answered once, within the
// target or little more, and those of customers are hardly ever refused.
func TestRT90AnswersCustomersFirstAndAllInTime(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var answered, late []int
		var known time.Time // from then on the policy knows the server
		server := stage.Func("server", func(_ context.Context, v visitor) behaviour.Outcome {
			time.Sleep(10 * time.Millisecond)
			answered = append(answered, v.n)
			if time.Since(v.at) > 400*time.Millisecond && time.Now().After(known) {
				late = append(late, v.n)
			}
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		p := bubble(t, server, pipeline.Control(policy.Fixed{}, policy.RT90{Target: 200 * time.Millisecond, Classes: 2}))
		known = time.Now().Add(30 * time.Second)
		var in []int
		var came, refused [2]int
		for n := range 120 * 200 {
			v := visitor{n, n%8 == 0, time.Now()}
			if time.Now().After(known) {
				came[v.Priority()]++
			}
			if err := server.Submit(t.Context(), v); err == nil {
				in = append(in, n)
			} else if overload, is := stage.Overloaded(err); time.Now().After(known) {
				require.True(t, is, err)
				require.Contains(t, []string{"rate", "policy"}, string(overload.Reason))
				refused[v.Priority()]++
			}
			time.Sleep(5 * time.Millisecond)
		}
		require.NoError(t, p.Drain(t.Context()))
		slices.Sort(answered)
		require.Equal(t, in, answered)
		require.Greater(t, len(in), 120*75, "the server does 100 a second")
		require.Less(t, len(late), len(in)/10)
		require.Less(t, float64(refused[1]), 0.05*float64(came[1]), "customers")
		require.Greater(t, float64(refused[0]), 0.4*float64(came[0]), "others")
		require.Contains(t, noted(t, p, "rate").Why, "target 200ms")
		end(t, p)
	})
}

// A handler that can do with less gives worse answers, and refuses nothing.
func TestRT90AsksAServerForLessBeforeItRefusesVisitors(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		server := stage.Func("server", func(ctx context.Context, _ visitor) behaviour.Outcome {
			time.Sleep(time.Duration(10 * behaviour.Quality(ctx) * float64(time.Millisecond)))
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		p := bubble(t, server, pipeline.Control(policy.Fixed{}, policy.RT90{Target: 200 * time.Millisecond, Quality: 0.5}))
		for n := range 120 * 130 { // it does 100 a second at full quality, and 200 at half
			require.NoError(t, server.Submit(t.Context(), visitor{n: n}))
			time.Sleep(time.Second / 130)
		}
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, 120*130, p.Snapshot().Replied)
		require.Less(t, noted(t, p, "quality").After, 1.0)
		end(t, p)
	})
}
