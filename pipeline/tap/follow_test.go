package tap_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

// doubles handles batches.
type doubles struct{ next behaviour.Target[int] }

func (doubles) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a Batcher") }

func (d doubles) HandleBatch(_ context.Context, cmds []int) (all []behaviour.Outcome) {
	for _, n := range cmds {
		all = append(all, behaviour.Forward(d.next, 2*n))
	}
	return all
}

func TestOneCommandIsFollowedWithAllThatResultsFromIt(t *testing.T) {
	for name, c := range map[string]struct {
		options tap.Options
		want    []string
	}{
		"the first one": {tap.Options{}, []string{
			"a 0: to b", "b 0: to c", "c 0: ok", "c 1000: ok",
		}},
		"the first one that is chosen, with its tries": {
			tap.Options{Stages: []string{"a"}, Where: func(_ context.Context, _ string, cmd any) bool { return cmd == 7 }},
			[]string{"a 7: error: not yet", "a 7 (try 2): to b", "b 7: to c", "c 14: ok", "c 1007: ok"},
		},
		"not a command of a batch": {tap.Options{Stages: []string{"b"}}, nil},
		"from a later stage on":    {tap.Options{Stages: []string{"c"}}, []string{"c 1000: ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				last := stage.Sink("c", func(context.Context, int) error { return nil }, stage.Workers(1, 1))
				b := stage.New("b", doubles{last}, stage.Linger(time.Second), stage.Workers(1, 1))
				a := stage.Func("a", func(ctx context.Context, n int) behaviour.Outcome {
					if n == 7 && behaviour.Attempt(ctx) == 1 {
						return behaviour.Error(errors.New("not yet"))
					}
					if err := behaviour.Emit(ctx, last, 1000+n); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.Forward(b, n)
				}, stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond}), stage.Workers(1, 1))
				tp, p := start(t, a, b, last)
				c.options.Show, c.options.Follow = asText, true
				w := watch(t, tp, p, c.options)
				for n := range 20 {
					require.NoError(t, a.Submit(t.Context(), n))
				}
				require.NoError(t, p.Drain(t.Context()))
				var seen []string
				for _, line := range lines(w) {
					line, _, _ = strings.Cut(line, " of ") // the size of a batch
					seen = append(seen, line)
				}
				assert.ElementsMatch(t, c.want, seen)
				require.NoError(t, w.Err())
				assert.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestAPredicateSeesTheValuesOfEachCommandOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.New("s", batches{}, stage.Linger(time.Second), stage.Workers(1, 1))
		tp, p := start(t, s)
		w := watch(t, tp, p, tap.Options{Show: asText, Where: func(ctx context.Context, _ string, _ any) bool {
			return ctx.Value(request{}) == 4
		}})
		for n := range 10 {
			require.NoError(t, s.Submit(context.WithValue(t.Context(), request{}, n), n))
		}
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, []string{"s 4: ok of 10"}, lines(w))
		assert.NoError(t, p.Stop(t.Context()))
	})
}
