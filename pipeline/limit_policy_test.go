package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// database answers four calls at once, each in ten milliseconds. Others wait for it.
type database struct {
	slots  chan struct{}
	mu     sync.Mutex
	longer time.Duration // sum of the times of the calls
	calls  int
}

func (d *database) call(_ context.Context, n int) (int, error) {
	began := time.Now()
	d.slots <- struct{}{}
	time.Sleep(10 * time.Millisecond)
	<-d.slots
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	d.longer += time.Since(began)
	return 2 * n, nil
}

// A stage calls a database that does half of what is asked for. With the policy the calls wait for little besides their own
// work, the database is never idle, and each command that was accepted has its answer, once.
func TestALimitKeepsADatabaseAtItsCapacityAndItsCallsShort(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		db := &database{slots: make(chan struct{}, 4)}
		var answers []int
		save := stage.Sink("save", func(_ context.Context, n int) error { answers = append(answers, n); return nil }, stage.Workers(1, 1))
		call := stage.Map("call", db.call, stage.Blocking(), stage.Workers(64, 64), stage.Overflow(overflow.Reject))
		p := bubble(t, call.To(save), pipeline.Control(policy.Fixed{}, policy.Limit{}))
		var want []int
		for n := range 60 * 800 { // 800 a second
			if err := call.Submit(t.Context(), n); err == nil {
				want = append(want, 2*n)
			} else {
				require.ErrorIs(t, err, stage.ErrFull)
			}
			time.Sleep(time.Second / 800)
		}
		require.NoError(t, p.Drain(t.Context()))
		slices.Sort(answers)
		require.Equal(t, want, answers)
		require.Greater(t, len(want), 9*60*400/10, "the database does 400 a second")
		require.Less(t, db.longer/time.Duration(db.calls), 100*time.Millisecond, "without a limit it is 160 ms: each call waits for 60 others")
		require.Positive(t, noted(t, p, "limit").After)
		end(t, p)
	})
}

// What a policy sees of the times of commands is what it asks for, at its ticks.
func TestAPolicySeesTheTimesOfTheCommandsSinceItsLastTick(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var waits, works atomic.Uint64
		slow := stage.New("slow", fn(func(context.Context, int) behaviour.Outcome {
			time.Sleep(10 * time.Millisecond)
			return behaviour.OK(nil)
		}), stage.Workers(1, 1))
		p := bubble(t, slow, pipeline.Control(asking{"times", func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
			st := &s.Stages[0]
			if ev.Kind != controller.EventTick {
				d.Every(100 * time.Millisecond)
				d.WatchTimes(true)
				require.Zero(t, st.Work)
				return
			}
			waits.Add(st.Wait.Count)
			works.Add(st.Work.Count)
			if st.Work.Count > 0 {
				for _, d := range []time.Duration{st.Work.Least, st.Work.Mean, st.Work.P90} {
					require.InEpsilon(t, 10*time.Millisecond, d, 0.125)
				}
			}
		}}))
		for range 50 {
			require.NoError(t, slow.Submit(t.Context(), 1))
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 50, works.Load())
		require.Greater(t, waits.Load(), uint64(20), "they are sampled")
		end(t, p)
	})
}
