package window_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

type item struct{ key, by, n int }

// Many goroutines submit, and some leave, while windows are closed by count, time, number and the final stop, with the policy
// that changes nothing and one that shares workers. Each command is in exactly one window, or its caller has left.
func TestEachOfManyCommandsIsInOneWindow(t *testing.T) {
	const crowd, keys = 8, 50
	each := 2000
	if testing.Short() {
		each = 500
	}
	for name, use := range map[string]pipeline.Part{
		"fixed": pipeline.Control(policy.Fixed{}), "shared": pipeline.Control(policy.DBR{Workers: 4}),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[item]int{}
			last := map[[2]int]int{} // the number of the last command, by submitter and key
			ordered := true
			of := window.By("items", func(i item) int { return i.key },
				window.Bounds[item]{Count: 7, Time: time.Millisecond, Held: 40})
			sink := stage.Sink("sink", func(_ context.Context, w window.Window[int, []item]) error {
				mu.Lock()
				defer mu.Unlock()
				for _, i := range w.Value {
					seen[i]++
					at := [2]int{i.by, i.key}
					ordered = ordered && i.key == w.Key && i.n >= last[at]
					last[at] = i.n
				}
				return nil
			}, stage.Workers(1, 1))
			p, err := pipeline.New("crowd", of.To(sink), use, pipeline.Logger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			var wg sync.WaitGroup
			var left sync.Map
			for by := range crowd {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(by), 1))
					for n := range each {
						i := item{rnd.IntN(keys), by, n}
						if rnd.IntN(20) > 0 {
							assert.NoError(t, of.Submit(t.Context(), i))
							continue
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(20_000))*time.Microsecond)
						ticket, err := of.Ask(ctx, i)
						if err != nil {
							left.Store(i, true)
							cancel()
							continue
						}
						wg.Go(func() {
							defer cancel()
							if _, err := ticket.Wait(context.Background()); err != nil {
								left.Store(i, true)
							}
						})
					}
				})
			}
			time.Sleep(5 * time.Millisecond)
			wg.Wait()
			require.NoError(t, p.Stop(t.Context()))
			gone := 0
			left.Range(func(i, _ any) bool {
				gone++
				assert.Zero(t, seen[i.(item)], "%v has left", i)
				return true
			})
			for i, n := range seen {
				assert.Equal(t, 1, n, "%v", i)
			}
			assert.Equal(t, crowd*each, len(seen)+gone)
			assert.True(t, ordered, "the commands of a goroutine with the same key")
			assert.Zero(t, p.Snapshot().InFlight)
			t.Logf("%d of %d commands were given up", gone, crowd*each)
		})
	}
}
