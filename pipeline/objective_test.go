package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// A shop checks orders and packs them, 400 a second. A sale brings ten times as many, for two seconds and then for ten. Each order is
// refused at once or packed, once, and 99 of 100 that are packed are packed in time; the shop packs all the time what it can.
func TestAnObjectiveIsHeldThroughASale(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		type order struct {
			n  int
			at time.Time
		}
		const within = 400 * time.Millisecond
		var mu sync.Mutex
		var packed []int
		late := 0
		pack := stage.Sink("pack", func(_ context.Context, o order) error {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			packed = append(packed, o.n)
			if time.Since(o.at) > within {
				late++
			}
			return nil
		}, stage.Workers(8, 8))
		check := stage.Func("check", func(_ context.Context, o order) behaviour.Outcome {
			time.Sleep(20 * time.Millisecond)
			return behaviour.Forward(pack, o)
		}, stage.Workers(8, 8), stage.Out(pack))
		p := bubble(t, check, pack, pipeline.Control(policy.Objective{Within: within}))
		n := 0
		var admitted []int
		send := func(rate int, length time.Duration) (done int) {
			mu.Lock()
			before := len(packed)
			mu.Unlock()
			for range rate * int(length/time.Millisecond) / 1000 {
				if err := check.Submit(t.Context(), order{n, time.Now()}); err == nil {
					admitted = append(admitted, n)
				} else {
					overload, is := stage.Overloaded(err)
					require.True(t, is, err)
					require.Less(t, overload.RetryAfter, within)
				}
				n++
				time.Sleep(time.Second / time.Duration(rate))
			}
			mu.Lock()
			defer mu.Unlock()
			return len(packed) - before
		}
		send(200, 5*time.Second)
		send(4000, 2*time.Second)
		send(200, 2*time.Second)
		require.Greater(t, send(4000, 10*time.Second), 95*400*10/100)
		require.GreaterOrEqual(t, send(200, 2*time.Second), 380, "the sale is over")
		require.NoError(t, p.Drain(t.Context()))
		slices.Sort(packed)
		require.Equal(t, admitted, packed)
		require.Less(t, late, len(packed)/100)
		require.Contains(t, noted(t, p, "rate").Why, "99% within 400ms: ")
		end(t, p)
	})
}

func TestAnObjectiveForAStageThatIsMissingIsRefused(t *testing.T) {
	s := stage.Sink("pack", func(context.Context, int) error { return nil })
	_, err := pipeline.New("shop", s, pipeline.Control(policy.Objective{Stage: "park"}))
	require.EqualError(t, err, `pipeline "shop": Control: policy "objective" is about stage "park", which is not part of the pipeline`)
	p := run(t, s, pipeline.Control(policy.Objective{Stage: "pack"}))
	require.ErrorContains(t, p.SetPolicy(policy.Objective{Stage: "park"}), `is about stage "park"`)
}

// A service becomes five times as slow for five seconds. What it answers comes in time all the same, once the slow answers have been measured;
// what is dropped leaves a letter; and afterwards all are answered again.
func TestAnObjectiveIsHeldWhileAServiceIsSlow(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		type query struct{ at time.Time }
		const within = 500 * time.Millisecond
		var mu sync.Mutex
		slow, known, late, answered := false, false, 0, 0
		ask := stage.Sink("ask", func(_ context.Context, q query) error {
			mu.Lock()
			takes := 20 * time.Millisecond
			if slow {
				takes *= 5
			}
			mu.Unlock()
			time.Sleep(takes)
			mu.Lock()
			defer mu.Unlock()
			answered++
			if known && time.Since(q.at) > within {
				late++
			}
			return nil
		}, stage.Workers(8, 8), stage.Blocking())
		p := bubble(t, ask, pipeline.Control(policy.Objective{Within: within}), pipeline.KeepLetters(letters.Options{Most: 1000}))
		send := func(length time.Duration) (admitted, done int) {
			mu.Lock()
			before := answered
			mu.Unlock()
			for range 320 * int(length/time.Millisecond) / 1000 {
				if ask.Submit(t.Context(), query{time.Now()}) == nil {
					admitted++
				}
				time.Sleep(time.Second / 320)
			}
			mu.Lock()
			defer mu.Unlock()
			return admitted, answered - before
		}
		set := func(b *bool, to bool) {
			mu.Lock()
			defer mu.Unlock()
			*b = to
		}
		send(5 * time.Second)
		set(&slow, true)
		send(time.Second)
		set(&known, true)
		_, done := send(5 * time.Second)
		require.Greater(t, done, 5*80*9/10, "it does 80 a second")
		set(&slow, false)
		send(time.Second)
		admitted, done := send(2 * time.Second)
		require.Greater(t, admitted, 640*98/100)
		require.InDelta(t, admitted, done, 10)
		require.NoError(t, p.Drain(t.Context()))
		require.Less(t, late, 5)
		snapshot := p.Snapshot().Stages[0]
		require.Len(t, p.DeadLetters().List(letters.Filter{Reason: reason.Expired}), int(snapshot.Reasons.Shed[reason.Expired]))
		require.Less(t, snapshot.Reasons.Shed[reason.Expired], uint64(2*320), "what came in the first two seconds")
		require.Zero(t, noted(t, p, "sojourn").After, "nothing is dropped any more")
		end(t, p)
	})
}

// What was admitted is not dropped, if the user says so.
func TestAnObjectiveThatKeepsWhatItAdmittedDropsNothing(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		work := stage.Sink("work", func(context.Context, int) error { time.Sleep(20 * time.Millisecond); return nil }, stage.Workers(2, 2))
		p := bubble(t, work, pipeline.Control(policy.Objective{Within: 200 * time.Millisecond, Keep: true}))
		admitted := 0
		for n := range 3000 {
			if work.Submit(t.Context(), n) == nil {
				admitted++
			}
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, admitted, p.Snapshot().Replied)
		require.Less(t, admitted, 2000, "the stage can do 300 of them, and has 1,024 slots")
		end(t, p)
	})
}
