package chaos_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/disturb"
)

// order is the n-th command of a key.
type order struct{ key, n int }

func TestAHotKeyGoesOnAfterItsWorkersAreKilled(t *testing.T) {
	const hot, submitters, each = 0, 8, 25
	for name, suspends := range map[string]bool{"handlers that block": false, "handlers that suspend": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			times, inside := map[order]int{}, map[int]bool{}
			enter := func(o order) {
				mu.Lock()
				defer mu.Unlock()
				assert.False(t, inside[o.key], "two commands of a key at once")
				times[o]++
				inside[o.key] = true
			}
			leave := func(o order) {
				mu.Lock()
				defer mu.Unlock()
				inside[o.key] = false
			}
			opts := []stage.Option{stage.Capacity(16), stage.KeyCapacity(2), stage.Workers(2, 2)}
			key := func(o order) int { return o.key }
			orders := stage.Keyed("orders", key, func(int) behaviour.Behaviour[order] {
				return behaviour.Func[order](func(_ context.Context, o order) behaviour.Outcome {
					enter(o)
					defer leave(o)
					if o.key == hot {
						time.Sleep(2 * time.Millisecond)
					}
					return behaviour.OK(o.n)
				})
			}, opts...)
			if suspends {
				orders = stage.Keyed("orders", key, func(int) behaviour.Coroutine[order] {
					return func(c behaviour.Suspender, o order) behaviour.Outcome {
						enter(o)
						defer leave(o)
						if o.key == hot {
							if err := c.Suspend(func(wake func()) { time.AfterFunc(2*time.Millisecond, wake) }); err != nil {
								return behaviour.Error(err)
							}
						}
						return behaviour.OK(o.n)
					}
				}, opts...)
			}
			trial := stagetest.Run(t, orders)
			rnd := rand.New(rand.NewPCG(1, 1))
			killed := map[disturb.Actor]int{}
			kill := func(kind disturb.Actor) {
				if disturb.Kill(trial.Name(), kind, rnd) {
					killed[kind]++
				}
			}
			var flood sync.WaitGroup
			for of := range submitters {
				flood.Go(func() {
					for i := range each {
						n, err := stage.Call[int](t.Context(), orders, order{hot, of*each + i})
						assert.NoError(t, err)
						assert.Equal(t, of*each+i, n)
					}
				})
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				flood.Wait()
			}()
			for i := 0; ; i++ {
				select {
				case <-over:
					require.Positive(t, killed[disturb.Worker])
					require.Positive(t, killed[disturb.Supervisor])
					last, err := stage.Call[int](t.Context(), orders, order{hot, -1})
					require.NoError(t, err)
					require.Equal(t, -1, last)
					for o, n := range times {
						assert.Equal(t, 1, n, "%v", o)
					}
					s := orders.Snapshot()
					require.Zero(t, s.Queue.Queued+s.Queue.InHand+s.Queue.Suspended+s.Queue.Delayed+s.Queue.Waiting, "%+v", s)
					return
				case <-time.After(3 * time.Millisecond):
				}
				if i%10 == 9 {
					kill(disturb.Supervisor)
				} else {
					kill(disturb.Worker)
				}
				_, err := stage.Call[int](t.Context(), orders, order{1 + i%5, i})
				require.NoError(t, err)
			}
		})
	}
}
