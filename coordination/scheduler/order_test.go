package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// interleaving is the order in which three tasks and two sources run under a seed.
func interleaving(t *testing.T, seed uint64) (order string) {
	inBubble(t, scheduler.Config{Rand: rand.New(rand.NewPCG(seed, 0))}, func(b *bubble) {
		for _, name := range []string{"a", "b", "c"} {
			b.Go(func(c coroutine.Context) {
				for i := range 3 {
					b.say(fmt.Sprint(name, i))
					b.ok(coroutine.Yield(c))
				}
			})
		}
		for _, name := range []string{"x", "y"} {
			notify, _ := b.source(func(_ coroutine.Context, ev any) { b.say(fmt.Sprint(name, ev)) })
			notify(0, 1, 2)
		}
		b.untilFalse()
		order = b.said()
	})
	return order
}

func TestASeedGivesTheSameRunAgain(t *testing.T) {
	all := map[string]bool{}
	for seed := range uint64(200) {
		order := interleaving(t, seed)
		assert.Equal(t, order, interleaving(t, seed))
		assert.Len(t, strings.Fields(order), 15)
		all[order] = true
	}
	assert.Greater(t, len(all), 190, "different runs of 200")
}

func TestTheEventsOfOneSourceStayInOrder(t *testing.T) {
	for seed := range uint64(100) {
		order := interleaving(t, seed)
		for _, source := range "abcxy" {
			var own []string
			for word := range strings.FieldsSeq(order) {
				if strings.HasPrefix(word, string(source)) {
					own = append(own, word[1:])
				}
			}
			assert.Equal(t, []string{"0", "1", "2"}, own, "%c under seed %d", source, seed)
		}
	}
}

// A task can be overtaken only if another one runs several times in a row: first come, first served never shows this, a
// random order does.
func TestARandomOrderFindsWhatTheUsualOrderHides(t *testing.T) {
	overtaken := func(cfg scheduler.Config) (bad bool) {
		inBubble(t, cfg, func(b *bubble) {
			written := false
			b.Go(func(c coroutine.Context) { b.ok(coroutine.Yield(c)); written = true })
			b.Go(func(c coroutine.Context) {
				b.ok(coroutine.Yield(c))
				b.ok(coroutine.Yield(c))
				bad = !written
			})
			b.loop()
		})
		return bad
	}
	assert.False(t, overtaken(scheduler.Config{}))
	found := 0
	for seed := range uint64(100) {
		if overtaken(scheduler.Config{Rand: rand.New(rand.NewPCG(seed, 0))}) {
			found++
		}
	}
	assert.Greater(t, found, 10)
}

// Whatever tasks do with semaphores: never more units are out than exist, they are given in the order of the requests,
// and Loop reports correctly whether all tasks ended.
func TestSemaphoresKeepTheirPromisesInAnyProgram(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		units := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 3).Draw(r, "units")
		programs := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 3*len(units)), 0, 8), 1, 6).Draw(r, "programs")
		seed := rapid.Uint64().Draw(r, "seed")
		synctest.Test(t, func(*testing.T) {
			s := scheduler.New(scheduler.Config{Rand: rand.New(rand.NewPCG(seed, 0))})
			sems := make([]*scheduler.Semaphore, len(units))
			free, asked, given := make([]int, len(units)), make([][]int, len(units)), make([][]int, len(units))
			for i, n := range units {
				sems[i], free[i] = scheduler.NewSemaphore(n), n
			}
			ended, waiting := 0, 0
			for id, program := range programs {
				s.Go(func(c coroutine.Context) {
					for _, op := range program {
						which := op % len(sems)
						switch op / len(sems) {
						case 0:
							asked[which] = append(asked[which], id)
							waiting++
							if sems[which].Acquire(c) != nil {
								return // the test is over
							}
							waiting--
							given[which] = append(given[which], id)
							free[which]--
						case 1:
							free[which]++
							sems[which].Release()
						case 2:
							_ = coroutine.Yield(c)
						default:
							_ = coroutine.Sleep(c, time.Second)
						}
						for i, n := range free {
							if n < 0 {
								r.Errorf("semaphore %d gave %d units too many", i, -n)
							}
						}
					}
					ended++
				})
			}
			err := s.Loop()
			if ended == len(programs) {
				require.NoError(r, err)
			} else {
				require.ErrorIs(r, err, scheduler.ErrDeadlock)
				assert.Equal(r, len(programs)-ended, waiting)
			}
			for i := range sems {
				if waiting > 0 && len(asked[i]) > len(given[i]) {
					assert.Zero(r, free[i], "a task waits for a unit that is free")
				}
				// A task may be resumed late after it got its unit, but no waiting task was passed over.
				assert.ElementsMatch(r, asked[i][:len(given[i])], given[i])
			}
			s.Close()
		})
	})
}

// Whatever sources notify and handlers do: each event is handled once, in the order of its source, by a new run or by
// one that asked for it; and no more events of a source are being handled than its backlog.
func TestEachEventIsHandledOnceInAnyProgram(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		backlog := rapid.IntRange(1, 3).Draw(r, "backlog")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 3).Draw(r, "events")
		doings := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 20).Draw(r, "doings")
		var chance *rand.Rand
		if seed := rapid.Uint64().Draw(r, "seed"); seed > 0 {
			chance = rand.New(rand.NewPCG(seed, 0))
		}
		synctest.Test(t, func(*testing.T) {
			s := scheduler.New(scheduler.Config{Backlog: backlog, Rand: chance})
			dealt := make([][]int, len(lengths))
			step := 0
			for i, n := range lengths {
				at := 0
				var reg *scheduler.Registration
				reg = s.Register(scheduler.SourceFunc(func(_ context.Context, notify func(any)) error {
					for ev := range n {
						if ev%3 == 2 {
							time.Sleep(time.Millisecond)
						}
						notify(ev)
					}
					return nil
				}), func(c coroutine.Context, ev any) {
					for again := true; again; {
						at++
						if at > backlog {
							r.Errorf("%d are at events of source %d", at, i)
						}
						dealt[i] = append(dealt[i], ev.(int))
						step++
						again = false
						switch doings[step%len(doings)] {
						case 0:
							_ = coroutine.Yield(c)
						case 1:
							_ = coroutine.Sleep(c, time.Millisecond)
						case 2:
							_, _ = coroutine.Await(c, func(context.Context) (int, error) { return 0, nil })
						case 3:
							at--
							var err error
							ev, err = reg.Next(c)
							if again = err == nil; again {
								continue
							}
							at++
						}
						at--
					}
				})
			}
			require.NoError(r, s.Loop())
			for i, n := range lengths {
				assert.Len(r, dealt[i], n)
				assert.IsIncreasing(r, append([]int{-2, -1}, dealt[i]...))
			}
			s.Close()
		})
	})
}
