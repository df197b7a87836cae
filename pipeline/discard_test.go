package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// The text of the dissertation: a stage discards new events while 100 wait, and takes them again as soon as fewer do. What another stage
// forwards is discarded by the stage's own rule.
func TestStagesUnderSEDACruzDiscardBeyond100(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newLock("s", stage.Workers(2, 2), stage.Batch(1), stage.Capacity(1000))
		p := bubble(t, s, pipeline.Control(policy.SEDA{Preset: policy.Cruz}))
		synctest.Wait()
		for i := range 2 + 100 {
			require.NoError(t, s.Submit(t.Context(), i), i)
			synctest.Wait() // two are in hand, the others wait
		}
		err := s.Submit(t.Context(), 1000)
		require.ErrorIs(t, err, stage.ErrPolicy)
		require.ErrorContains(t, err, "discarded")
		o, ok := stage.Overloaded(err)
		require.True(t, ok)
		require.Equal(t, reason.Policy, o.Reason)
		s.key <- struct{}{}
		synctest.Wait()
		require.NoError(t, s.Submit(t.Context(), 1001), "99 wait")
		require.ErrorIs(t, s.Submit(t.Context(), 1002), stage.ErrPolicy)
		require.Equal(t, map[reason.Reason]uint64{reason.Policy: 2}, p.Snapshot().Stages[0].Reasons.Rejected)
		require.NoError(t, p.SetPolicy(policy.SEDA{}))
		require.NoError(t, s.Submit(t.Context(), 1003), "another policy takes the gate away")
		s.open()
		end(t, p)
	})
	bubbled(t, func(t *testing.T) {
		s := newLock("s", stage.Workers(2, 2), stage.Batch(1), stage.Capacity(100), stage.Overflow(overflow.DropNewest))
		first := stage.New("first", fn(func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(s, cmd) }), stage.Workers(1, 1))
		p := bubble(t, first, s, pipeline.Control(policy.SEDA{Preset: policy.Cruz}))
		synctest.Wait()
		for i := range 2 + 100 + 7 {
			require.NoError(t, first.Submit(t.Context(), i), i)
			synctest.Wait()
		}
		require.EqualValues(t, 7, p.Snapshot().Shed)
		s.open()
		end(t, p)
	})
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome { time.Sleep(time.Millisecond); return behaviour.OK(nil) }),
			stage.Workers(2, 10), stage.Capacity(1000))
		p, err := pipeline.New("fed", unscaled([]pipeline.Part{
			s, pipeline.Feed("numbers", s, source.Slice(make([]int, 2000))), pipeline.Control(policy.SEDA{Preset: policy.Cruz}),
		})...)
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context()))
		require.EqualValues(t, 2000, p.Snapshot().Replied, "a feed submits again")
		require.Positive(t, p.Snapshot().Stages[0].Reasons.Rejected[reason.Policy])
	})
}
