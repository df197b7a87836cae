package coro_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/coro"
)

func TestATaskRunsUntilItSuspendsAndContinuesFromThere(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var log []string
		var wake func()
		task := d.start(t, func(c *coro.Task) {
			local := "42"
			log = append(log, "before")
			require.NoError(t, c.Suspend(func(w func()) { wake = w }))
			log = append(log, "after "+local)
		})
		log = append(log, "away")
		assert.False(t, task.Ended())
		d.drain()
		wake()
		wake()
		d.drain()
		assert.Equal(t, []string{"before", "away", "after 42"}, log)
		assert.True(t, task.Ended())
		require.NoError(t, task.Fault())
		assert.Equal(t, []*coro.Task{task}, d.ended)
	})
}

func TestATaskSuspendsAtAnyCallDepth(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var down func(c *coro.Task, n int) int
		down = func(c *coro.Task, n int) int {
			if n == 0 {
				assert.NoError(t, c.Yield())
				return 0
			}
			return 1 + down(c, n-1)
		}
		got := 0
		d.start(t, func(c *coro.Task) { got = down(c, 10_000) })
		assert.Zero(t, got)
		d.drain()
		assert.Equal(t, 10_000, got)
	})
}

func TestAWakeUpBeforeTheTaskIsParkedIsNotLost(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		n := 0
		d.start(t, func(c *coro.Task) {
			for range 3 {
				assert.NoError(t, c.Suspend(func(wake func()) { wake(); wake() }))
				n++
			}
		})
		assert.Zero(t, n, "a suspension takes place even if it was woken at once")
		d.drain()
		assert.Equal(t, 3, n)
	})
}

func TestALateWakeUpDoesNotEndTheNextSuspension(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var first, second func()
		task := d.start(t, func(c *coro.Task) {
			_ = c.Suspend(func(w func()) { first = w })
			_ = c.Suspend(func(w func()) { second = w })
		})
		first()
		d.drain()
		first()
		d.drain()
		assert.False(t, task.Ended())
		second()
		d.drain()
		assert.True(t, task.Ended())
		second() // the task has ended
		d.drain()
	})
}

func TestCoroutinesAreReused(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		cfg.Idle = 2
		d := newServer(cfg)
		defer d.Close()
		for range 5 {
			d.start(t, func(*coro.Task) {})
		}
		assert.Equal(t, coro.Stats{Created: 1, Idle: 1}, d.Stats())
		for range 3 {
			d.start(t, func(c *coro.Task) { _ = c.Yield() })
		}
		assert.Equal(t, coro.Stats{Created: 3, Live: 3}, d.Stats())
		d.drain()
		assert.Equal(t, coro.Stats{Created: 3, Idle: 2}, d.Stats())
	})
}

func TestWithoutAPoolNoCoroutineIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		cfg.Idle = -1
		d := newServer(cfg)
		for range 3 {
			d.start(t, func(*coro.Task) {})
		}
		assert.Equal(t, coro.Stats{Created: 3}, d.Stats())
	})
}

// X8 of the conformance tests, as far as it is about the engine.
func TestTwoCrashesDoNotAffectAHundredSuspendedTasks(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var wakes []func()
		answers := 0
		for range 100 {
			d.start(t, func(c *coro.Task) {
				assert.NoError(t, c.Suspend(func(w func()) { wakes = append(wakes, w) }))
				answers++
			})
		}
		panicked := d.start(t, panics)
		exited := d.start(t, func(*coro.Task) { runtime.Goexit() })
		again := d.start(t, func(*coro.Task) { answers++ })
		for _, w := range wakes {
			w()
		}
		d.drain()
		assert.Equal(t, 101, answers)
		require.NoError(t, again.Fault())
		require.ErrorIs(t, exited.Fault(), coro.ErrGoexit)
		var p *coro.PanicError
		require.ErrorAs(t, panicked.Fault(), &p)
		assert.Equal(t, "boom", p.Value)
		assert.Contains(t, string(p.Stack), "coro_test.panics")
	})
}

func panics(*coro.Task) { panic("boom") }

func TestACrashAfterASuspensionIsAFaultToo(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		deferred := 0
		crash := func(how func()) *coro.Task {
			return d.start(t, func(c *coro.Task) {
				defer func() { deferred++ }()
				_ = c.Yield()
				how()
			})
		}
		panicked, exited := crash(func() { panic(context.Canceled) }), crash(runtime.Goexit)
		d.drain()
		require.ErrorIs(t, panicked.Fault(), context.Canceled, "the error given to panic is wrapped")
		assert.Equal(t, coro.ErrGoexit, exited.Fault())
		assert.Equal(t, 2, deferred)
	})
}

func TestCloseUnwindsAllSuspendedTasks(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		var order []string
		for i := range 3 {
			d.start(t, func(c *coro.Task) {
				defer func() {
					order = append(order, fmt.Sprint(i, " ", c.Sleep(time.Hour), " ", c.Err()))
				}()
				require.ErrorIs(t, c.Sleep(time.Hour), coro.ErrStopped)
				assert.ErrorIs(t, c.Yield(), coro.ErrStopped)
			})
		}
		d.start(t, func(c *coro.Task) { _ = c.Yield() }) // this one is ready, not suspended
		d.Close()
		d.Close()
		d.drain() // the ready task has been unwound
		assert.Len(t, order, 3)
		assert.Equal(t, "2 coroutine: stopped context canceled", order[0], "the youngest first")
		assert.Len(t, d.ended, 4)
		assert.Equal(t, coro.Stats{Created: 4}, d.Stats())
		_, err := d.Start(context.Background(), nil, func(*coro.Task) { t.Error("ran") })
		assert.ErrorIs(t, err, coro.ErrClosed)
	})
}

func TestATaskThatPanicsOrExitsWhileItIsUnwoundHasAFault(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		a := d.start(t, func(c *coro.Task) { defer runtime.Goexit(); _ = c.Sleep(time.Hour) })
		b := d.start(t, func(c *coro.Task) { defer panic("late"); _ = c.Sleep(time.Hour) })
		d.Close()
		require.ErrorIs(t, a.Fault(), coro.ErrGoexit)
		assert.ErrorContains(t, b.Fault(), "late")
	})
}

func TestAHostMayBeClosedWhileTasksExit(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		for range 100 {
			h := coro.New(cfg)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 20 {
						if _, err := h.Start(t.Context(), nil, func(*coro.Task) { runtime.Goexit() }); err != nil {
							return
						}
					}
				})
			}
			all.Go(h.Close)
			all.Wait()
			assert.Zero(t, h.Stats().Live)
		}
	})
}

func TestATaskMayCloseItsHost(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		unwound := false
		d.start(t, func(c *coro.Task) { unwound = c.Sleep(time.Hour) != nil })
		var err error
		d.start(t, func(c *coro.Task) {
			d.Close()
			err = c.Yield()
		})
		assert.True(t, unwound)
		require.ErrorIs(t, err, coro.ErrStopped)
		assert.Zero(t, d.Stats().Live)
	})
}

func TestStopEndsOneSuspensionWithItsCause(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var err error
		task := d.start(t, func(c *coro.Task) { err = c.Sleep(time.Hour) })
		task.Stop(context.DeadlineExceeded)
		task.Stop(nil)
		d.drain()
		require.ErrorIs(t, err, coro.ErrStopped)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		task.Stop(nil) // it has ended
		d.drain()
		assert.True(t, task.Ended())
	})
}

func TestAStoppedTaskDoesNotSuspend(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var err error
		d.start(t, func(c *coro.Task) {
			c.Stop(nil)
			err = c.Suspend(func(func()) { t.Error("started") })
		})
		require.ErrorIs(t, err, coro.ErrStopped)
		assert.Zero(t, d.Stats().Live)
	})
}

func TestATaskIsAContext(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		type key struct{}
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
		d := newServer(cfg)
		var derived <-chan struct{}
		task, err := d.Start(parent, "tag", func(c *coro.Task) {
			assert.Equal(t, "v", c.Value(key{}))
			ctx, done := context.WithCancel(c)
			defer done()
			derived = ctx.Done()
			assert.Equal(t, "v", ctx.Value(key{}))
			_, ok := c.Deadline()
			assert.False(t, ok)
			_ = c.Sleep(time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, "tag", task.Tag)
		select {
		case <-derived:
			t.Error("done before its parent")
		default:
		}
		cancel(context.DeadlineExceeded)
		<-task.Done()
		assert.Equal(t, context.DeadlineExceeded, context.Cause(task))
		assert.False(t, task.Ended(), "the end of the context does not end the task; its owner decides")
		task.Stop(nil)
		d.drain()
		<-derived
		d.Close()
	})
}

func TestTheContextOfATaskThatHasEndedIsDone(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		asked := d.start(t, func(c *coro.Task) { assert.NoError(t, c.Err()) })
		unasked := d.start(t, func(*coro.Task) {})
		require.ErrorIs(t, asked.Err(), context.Canceled)
		require.ErrorIs(t, unasked.Err(), context.Canceled)
		assert.Equal(t, context.Canceled, context.Cause(unasked))
	})
}

func TestDerivingFromATaskStartsNoGoroutine(t *testing.T) {
	d := newServer(coro.Config{})
	defer d.Close()
	before := runtime.NumGoroutine()
	d.start(t, func(c *coro.Task) {
		ctx, cancel := context.WithCancel(c)
		defer cancel()
		require.NoError(t, ctx.Err())
		_ = c.Yield()
	})
	assert.LessOrEqual(t, runtime.NumGoroutine(), before+1, "one for the coroutine")
	d.drain()
}

func TestOnlyTheRunningTaskCanBeSuspended(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var wake func()
		task := d.start(t, func(c *coro.Task) { _ = c.Suspend(func(w func()) { wake = w }) })
		require.ErrorIs(t, task.Yield(), coro.ErrNotRunning, "it is suspended")
		require.ErrorIs(t, task.Sleep(0), coro.ErrNotRunning)
		wake()
		require.ErrorIs(t, task.Yield(), coro.ErrNotRunning, "it is ready")
		d.drain()
		require.ErrorIs(t, task.Yield(), coro.ErrNotRunning, "it has ended")
		d.start(t, func(*coro.Task) {
			assert.ErrorIs(t, task.Yield(), coro.ErrNotRunning, "its coroutine runs another")
		})
	})
}

func TestACheckedHostDetectsAForeignGoroutine(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		cfg.Check = true
		d := newServer(cfg)
		defer d.Close()
		for range 2 { // the second time on a used coroutine
			task := d.start(t, func(c *coro.Task) {
				foreign := make(chan error)
				go func() { foreign <- c.Yield() }()
				require.ErrorIs(t, <-foreign, coro.ErrNotRunning)
				assert.NoError(t, c.Yield())
			})
			d.drain()
			assert.True(t, task.Ended())
		}
	})
}

func TestAPanicInStartWithdrawsTheSuspension(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		n := 0
		task := d.start(t, func(c *coro.Task) {
			func() {
				defer func() { _ = recover() }()
				_ = c.Suspend(func(wake func()) { wake(); panic("in start") })
			}()
			assert.NoError(t, c.Yield())
			n++
		})
		d.drain()
		assert.True(t, task.Ended())
		assert.Equal(t, 1, n)
	})
}

func TestSleepIsNeverShort(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		synctest.Test(t, func(t *testing.T) {
			d := newServer(cfg)
			begin := time.Now()
			var took []time.Duration
			for _, s := range []time.Duration{2 * time.Second, time.Second, 0, -time.Second} {
				d.start(t, func(c *coro.Task) {
					require.NoError(t, c.Sleep(s))
					took = append(took, time.Since(begin))
				})
			}
			d.finish()
			d.Close()
			assert.Equal(t, []time.Duration{0, 0, time.Second, 2 * time.Second}, took)
		})
	})
}

func TestAStoppedSleeperCancelsItsTimer(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		cancelled := 0
		cfg.After = func(d time.Duration, w coro.Waker) func() {
			if d == 0 {
				w.Wake()
			}
			return func() { cancelled++ }
		}
		d := newServer(cfg)
		d.start(t, func(c *coro.Task) {
			require.NoError(t, c.Sleep(0))
			_ = c.Sleep(time.Hour)
		})
		d.drain()
		assert.Zero(t, cancelled)
		d.Close()
		assert.Equal(t, 1, cancelled)
	})
}

func TestBlockedReportsATaskThatOtherTasksWake(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		d := newServer(cfg)
		defer d.Close()
		var w coro.Waker
		task := d.start(t, func(c *coro.Task) {
			var err error
			w, err = c.Prepare()
			assert.NoError(t, err)
			assert.NoError(t, c.Block())
			_ = c.Yield()
		})
		assert.True(t, task.Blocked())
		assert.Same(t, task, w.Task())
		assert.True(t, w.Claim())
		assert.False(t, w.Claim())
		assert.Nil(t, d.take(), "a claimed task is not passed to Ready")
		assert.True(t, d.Resume(task))
		assert.False(t, task.Blocked())
		d.drain()
	})
}

// As in a stage with several workers, any of them resumes any task.
func TestAnyGoroutineMayResumeATask(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		const workers, tasks, turns = 4, 50, 40
		queue := make(chan *coro.Task, tasks)
		var left sync.WaitGroup
		left.Add(tasks)
		cfg.Ready = func(c *coro.Task) { queue <- c }
		cfg.Ended = func(*coro.Task) { left.Done() }
		h := coro.New(cfg)
		var sum atomic.Int64
		for range tasks {
			_, err := h.Start(context.Background(), nil, func(c *coro.Task) {
				mine := 0 // the race detector checks that the variable is handed over
				for i := range turns {
					if i%2 == 0 {
						_ = c.Yield()
					} else {
						_ = c.Suspend(func(wake func()) { go wake() })
					}
					mine++
				}
				sum.Add(int64(mine))
			})
			require.NoError(t, err)
		}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for c := range queue {
					h.Resume(c)
				}
			})
		}
		left.Wait()
		close(queue)
		group.Wait()
		h.Close()
		assert.EqualValues(t, tasks*turns, sum.Load())
	})
}

// Close finds tasks in every state while other goroutines run and wake them: each task ends once.
func TestCloseAmidstWorkersEndsEachTaskOnce(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		for range 20 {
			queue := make(chan *coro.Task, 1000)
			var ends atomic.Int64
			cfg.Ready = func(c *coro.Task) { queue <- c }
			cfg.Ended = func(*coro.Task) { ends.Add(1) }
			h := coro.New(cfg)
			var group sync.WaitGroup
			quit := make(chan struct{})
			for range 2 {
				group.Go(func() {
					for {
						select {
						case c := <-queue:
							h.Resume(c)
						case <-quit:
							return
						}
					}
				})
			}
			started := int64(0)
			for i := range 50 {
				if i == 25 {
					group.Go(h.Close)
				}
				_, err := h.Start(context.Background(), nil, func(c *coro.Task) {
					for c.Suspend(func(wake func()) { go wake() }) == nil { //nolint:revive // until stopped
					}
				})
				if err == nil {
					started++
				}
			}
			h.Close()
			for ends.Load() < started {
				runtime.Gosched()
			}
			close(quit)
			group.Wait()
			assert.Equal(t, started, ends.Load())
			assert.Zero(t, h.Stats().Idle)
		}
	})
}

// After any calls, a host agrees with a model that knows only which tasks there are.
func TestAHostAgreesWithItsModel(t *testing.T) {
	onEach(t, func(t *testing.T, cfg coro.Config) {
		rapid.Check(t, func(r *rapid.T) {
			cfg.Idle = rapid.IntRange(-1, 3).Draw(r, "idle")
			most := map[int]int{-1: 0, 0: 64, 1: 1, 2: 2, 3: 3}[cfg.Idle]
			d := newServer(cfg)
			type one struct {
				task *coro.Task
				wake func()
				runs int
			}
			var all []*one
			live := map[*one]bool{}
			r.Repeat(map[string]func(*rapid.T){
				"start": func(r *rapid.T) {
					o, runs := &one{}, rapid.IntRange(0, 3).Draw(r, "suspensions")
					task, err := d.Start(context.Background(), nil, func(c *coro.Task) {
						for range runs {
							if c.Suspend(func(w func()) { o.wake = w }) != nil {
								return
							}
							o.runs++
						}
					})
					require.NoError(r, err)
					o.task = task
					all = append(all, o)
					live[o] = runs > 0
				},
				"wake": func(r *rapid.T) {
					if len(all) == 0 {
						r.Skip()
					}
					o := rapid.SampledFrom(all).Draw(r, "who")
					before := o.runs
					if o.wake != nil {
						o.wake()
					}
					d.drain()
					if live[o] {
						require.Equal(r, before+1, o.runs)
					} else {
						require.Equal(r, before, o.runs)
					}
					live[o] = live[o] && !o.task.Ended()
				},
				"": func(r *rapid.T) {
					n := 0
					for _, o := range all {
						require.Equal(r, live[o], !o.task.Ended())
						if live[o] {
							n++
						}
					}
					s := d.Stats()
					require.Equal(r, n, s.Live)
					require.LessOrEqual(r, s.Idle, most)
				},
			})
			d.Close()
			for _, o := range all {
				require.True(r, o.task.Ended())
			}
		})
	})
}
