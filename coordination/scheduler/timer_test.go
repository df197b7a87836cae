package scheduler_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// flood registers a source that always has a further event; each takes 100 µs.
func (b *bubble) flood() (handled *int) {
	b.t.Helper()
	handled = new(int)
	b.Register(scheduler.SourceFunc(func(ctx context.Context, notify func(any)) error {
		for ctx.Err() == nil {
			notify(nil)
		}
		return nil
	}), func(coroutine.Context, any) {
		*handled++
		time.Sleep(100 * time.Microsecond)
	})
	synctest.Wait()
	return handled
}

func TestTimersKeepTimeDespiteASourceThatFloods(t *testing.T) {
	for name, cfg := range map[string]scheduler.Config{
		"first come, first served": {},
		"random order":             {Rand: rand.New(rand.NewPCG(1, 2))},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cfg, func(b *bubble) {
				handled := b.flood()
				ticks, latest := 0, time.Duration(0)
				b.Register(scheduler.Every(time.Millisecond), func(_ coroutine.Context, ev any) {
					ticks++
					latest = max(latest, time.Since(ev.(time.Time)))
				})
				b.Register(scheduler.After(time.Second), func(coroutine.Context, any) { b.Stop() })
				b.loop()
				if cfg.Rand == nil {
					assert.GreaterOrEqual(t, ticks, 999, "of 1000")
					assert.LessOrEqual(t, b.now(), time.Second+100*time.Microsecond)
					assert.LessOrEqual(t, latest, 100*time.Microsecond)
				} else {
					assert.Greater(t, ticks, 500)
				}
				assert.Greater(t, *handled, 9900, "of 10000")
			})
		})
	}
}

func TestASleepingTaskIsWokenInTimeDespiteASourceThatFloods(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.flood()
		turns := 0
		b.Go(func(c coroutine.Context) {
			for ; turns < 1000; turns++ {
				b.ok(coroutine.Sleep(c, time.Millisecond))
			}
			b.Stop()
		})
		b.loop()
		assert.Equal(t, 1000, turns)
		assert.LessOrEqual(t, b.now(), 1250*time.Millisecond)
	})
}

func TestTimersThatAreAlwaysDueHaveEverySecondTurn(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		handled, ticks := b.flood(), 0
		b.Register(scheduler.Every(time.Microsecond), func(coroutine.Context, any) {
			ticks++
			time.Sleep(100 * time.Microsecond)
		})
		b.Register(scheduler.After(time.Second), func(coroutine.Context, any) { b.Stop() })
		b.loop()
		assert.Greater(t, ticks, 4000)
		assert.InDelta(t, ticks, *handled, 2)
	})
}

func TestTimersThatAreDueAtOnceKeepTheirOrder(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		handled := b.flood()
		var order []int
		for i := range 10 {
			b.Register(scheduler.After(time.Duration(i/3)*10*time.Microsecond), func(coroutine.Context, any) {
				if order = append(order, i); len(order) == 10 {
					b.Stop()
				}
			})
		}
		b.loop()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		assert.LessOrEqual(t, *handled, 20)
	})
}
