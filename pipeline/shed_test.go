package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// bundle is a command of some importance.
type bundle struct{ number, weight int }

func (p bundle) Priority() int { return p.weight }

// A shop can pack 100 bundles a second. For a minute 200 come, a quarter of them important; then 50. After the first
// seconds all important ones are packed, and as many others as there is time for; no bundle is packed twice, and each
// that was not packed was refused with an error that says why.
func TestShedPacksAllImportantBundlesUnderOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		packed := map[int]int{}
		took := map[int]time.Duration{}
		came := map[int]time.Time{}
		pack := stage.Sink("pack", func(_ context.Context, p bundle) error {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			packed[p.number]++
			took[p.number] = time.Since(came[p.number])
			return nil
		}, stage.Workers(2, 2), stage.Capacity(512))
		check := stage.Map("check", func(_ context.Context, p bundle) (bundle, error) { return p, nil }, stage.Capacity(64), stage.Overflow(overflow.Reject))
		p := startAlone(t, check.To(pack), pipeline.Control(policy.Backlog{}, policy.Shed{}))

		number := 0
		refused := map[int]error{}
		offer := func(every time.Duration, n int) (from, to int) {
			from = number
			for range n {
				mu.Lock()
				came[number] = time.Now()
				mu.Unlock()
				important := 1
				if number%4 == 0 {
					important = 5
				}
				if err := check.Submit(t.Context(), bundle{number, important}); err != nil {
					refused[number] = err
				}
				number++
				time.Sleep(every)
			}
			return from, number
		}
		offer(5*time.Millisecond, 25*200) // the queue is full, the shedding begins after ten seconds, and after ten more the queue is short
		from, to := offer(5*time.Millisecond, 35*200)
		offer(20*time.Millisecond, 2*50)
		calm, end := offer(20*time.Millisecond, 10*50)
		require.NoError(t, p.Drain(t.Context()))

		inTime := 0
		for n := from; n < to; n++ {
			if n%4 == 0 {
				require.NoError(t, refused[n], n)
			}
			if packed[n] > 0 && took[n] < 2*time.Second {
				inTime++
			}
		}
		require.GreaterOrEqual(t, inTime, 35*95, "%v", p.Journal())
		for n := calm; n < end; n++ {
			require.NoError(t, refused[n], "the overload is over")
		}
		for n := range end {
			if err := refused[n]; err != nil {
				require.Zero(t, packed[n], n)
				if n >= from {
					require.ErrorIs(t, err, stage.ErrPolicy)
				}
			} else {
				require.Equal(t, 1, packed[n], n)
			}
		}
		require.NoError(t, p.Stop(t.Context()))
	})
}
