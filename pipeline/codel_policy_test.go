package pipeline_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// A stage gets twice what it can do for ten seconds, and then half of it. Each order is either answered soon or has a letter; none is
// lost, and none is both.
func TestCoDelAnswersSoonWhatItAnswersAndKeepsALetterOfTheRest(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		type order struct {
			n  int
			at time.Time
		}
		var answered []int
		var late int
		var known time.Time // from then on the policy knows the queue
		s := stage.Sink("orders", func(_ context.Context, o order) error {
			time.Sleep(10 * time.Millisecond)
			answered = append(answered, o.n)
			if time.Since(o.at) > 100*time.Millisecond && time.Now().After(known) {
				late++
			}
			return nil
		}, stage.Workers(1, 1), stage.Capacity(1024))
		p := bubble(t, s, pipeline.Control(policy.Fixed{}, policy.CoDel{}), pipeline.KeepLetters(letters.Options{Most: 10_000}))
		known = time.Now().Add(time.Second)
		all := 0
		send := func(n, rate int) {
			for range n {
				require.NoError(t, s.Submit(t.Context(), order{all, time.Now()}))
				all++
				time.Sleep(time.Second / time.Duration(rate))
			}
		}
		send(2000, 200)
		busy := s.Snapshot().Counts.OK
		require.Greater(t, busy, uint64(950), "the stage does 100 a second, and did all the time")
		send(250, 50)
		snapshot := p.Snapshot()
		require.NoError(t, p.Drain(t.Context()))
		require.Less(t, late, 10)
		require.Equal(t, "fifo", noted(t, p, "discipline").After)
		require.Equal(t, time.Duration(0), noted(t, p, "sojourn").After)

		dropped := p.DeadLetters().List(letters.Filter{Reason: reason.Expired})
		require.Len(t, dropped, int(snapshot.Stages[0].Reasons.Shed[reason.Expired]))
		numbers := slices.Clone(answered)
		for _, l := range dropped {
			require.ErrorIs(t, l.Err, stage.ErrExpired)
			numbers = append(numbers, l.Command.(order).n)
		}
		slices.Sort(numbers)
		require.Len(t, numbers, all)
		require.Equal(t, []int{0, all - 1}, []int{numbers[0], numbers[all-1]})
		require.Len(t, slices.Compact(numbers), all, "each has one end")
		end(t, p)
	})
}
