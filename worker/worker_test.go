package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

// gated returns a stage with one worker. Its first command, "gate", holds the worker until the gate is opened; meanwhile
// commands queue up for the batches behind it.
func gated(f func(context.Context, string) behaviour.Outcome, opts ...stage.Option) (s *stage.Stage[string], open func()) {
	gate := make(chan struct{})
	s = stage.Each("s", each(func(ctx context.Context, cmd string) behaviour.Outcome {
		if cmd == "gate" {
			<-gate
			return behaviour.OK(nil)
		}
		return f(ctx, cmd)
	}), one(opts...)...)
	return s, func() { close(gate) }
}

func crashes(cmd string) {
	switch cmd {
	case "panic":
		panic(errBoom)
	case "exit":
		exit()
	}
}

func TestACrashReturnsTheRestOfTheBatchInOrderAndChargesOneCommand(t *testing.T) {
	for _, how := range []string{"panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log seen
				s, open := gated(func(_ context.Context, cmd string) behaviour.Outcome {
					log.note(cmd)
					crashes(cmd)
					return behaviour.OK(cmd)
				})
				p := run(t, s)
				require.NoError(t, s.Submit(t.Context(), "gate"))
				cmds := []string{"1", "2", "3", how, "4", "5", "6", how, "7"}
				var tickets []*stage.Ticket
				for _, cmd := range cmds {
					tickets = append(tickets, ask(t, s, cmd))
				}
				open()
				synctest.Wait()
				require.Equal(t, cmds, log.all())
				for i, ticket := range tickets {
					ended(t, ticket, cmds[i])
					if cmds[i] != how {
						require.Equal(t, cmds[i], ticket.Result())
						continue
					}
					var crash *worker.CrashError
					require.ErrorAs(t, ticket.Err(), &crash)
					require.Equal(t, 1, crash.Attempts)
					require.NotEmpty(t, crash.Stack)
					if how == "exit" {
						require.Equal(t, worker.ErrGoexit, crash.Value)
					} else {
						require.ErrorIs(t, crash, errBoom)
					}
				}
				snap := s.Snapshot()
				require.EqualValues(t, 2, snap.Counts.Crashes)
				require.EqualValues(t, 2, snap.Counts.Restarts)
				require.EqualValues(t, 8, snap.Counts.OK)
				require.Equal(t, 1, snap.Workers.Live)
				stop(t, p)
			})
		})
	}
}

func TestWhatWasForwardedBeforeACrashInTheSameBatchArrives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log seen
		next := stage.New("next", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			log.note(cmd)
			return behaviour.OK(nil)
		}), one()...)
		s, open := gated(func(_ context.Context, cmd string) behaviour.Outcome {
			crashes(cmd)
			return behaviour.Forward(next, cmd)
		})
		p := run(t, s, next)
		for _, cmd := range []string{"gate", "1", "2", "3", "4", "panic", "5"} {
			require.NoError(t, s.Submit(t.Context(), cmd))
		}
		open()
		synctest.Wait()
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, log.all())
		stop(t, p)
	})
}

func TestATryThatDoesNotSucceedEmitsNothing(t *testing.T) {
	for name, end := range map[string]func() behaviour.Outcome{
		"error": func() behaviour.Outcome { return behaviour.Error(errBoom) },
		"panic": func() behaviour.Outcome { panic(errBoom) },
		"exit":  func() behaviour.Outcome { exit(); return behaviour.OK(nil) },
		"none":  func() behaviour.Outcome { return behaviour.Outcome{} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log seen
				next := stage.New("next", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
					log.note(cmd)
					return behaviour.OK(nil)
				}), one()...)
				s := stage.New("s", behaviour.Func[string](func(ctx context.Context, cmd string) behaviour.Outcome {
					n := behaviour.Attempt(ctx)
					for i := range 3 {
						require.NoError(t, behaviour.Emit(ctx, next, fmt.Sprintf("%s%d%d", cmd, n, i)))
					}
					if n == 1 {
						return end()
					}
					return behaviour.OK("done")
				}), one(stage.Retry(stage.RetryPolicy{Attempts: 2}))...)
				p := run(t, s, next)
				got, err := stage.Call[string](t.Context(), s, "x")
				require.NoError(t, err)
				require.Equal(t, "done", got)
				require.Equal(t, []string{"x20", "x21", "x22"}, log.all())
				stop(t, p)
				require.EqualValues(t, 4, p.Snapshot().Accepted)
			})
		})
	}
}

func TestAFullTargetDelaysABurstAndAllOfItArrives(t *testing.T) {
	for _, burst := range []int{255, 256, 257, 258, 1000} {
		t.Run(strconv.Itoa(burst), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				open := make(chan struct{})
				var n atomic.Int64
				next := stage.New("next", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
					<-open
					n.Add(1)
					return behaviour.OK(nil)
				}), one(stage.Capacity(2))...)
				s := stage.New("s", behaviour.Func[string](func(ctx context.Context, _ string) behaviour.Outcome {
					for i := range burst {
						if err := behaviour.Emit(ctx, next, strconv.Itoa(i)); err != nil {
							return behaviour.Error(err)
						}
					}
					return behaviour.OK("sent")
				}), one()...)
				p := run(t, s, next)
				ticket := ask(t, s, "go")
				synctest.Wait()
				require.LessOrEqual(t, next.Snapshot().Queue.Queued, 2)
				require.True(t, p.Snapshot().Balanced())
				close(open)
				got, err := ticket.Wait(t.Context())
				require.NoError(t, err)
				require.Equal(t, "sent", got)
				require.EqualValues(t, burst, n.Load(), "the ticket waits for all")
				stop(t, p)
			})
		})
	}
}

func TestABurstThatIsCutShortByItsContextKeepsTheAccounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open := make(chan struct{})
		next := stage.New("next", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
			<-open
			return behaviour.OK(nil)
		}), one(stage.Capacity(2))...)
		s := stage.New("s", behaviour.Func[string](func(ctx context.Context, cmd string) behaviour.Outcome {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			for range 500 {
				if err := behaviour.Emit(short, next, "e"); err != nil {
					if cmd == "panic" {
						panic(err)
					}
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(nil)
		}), one()...)
		p := run(t, s, next)
		first, second := ask(t, s, "error"), ask(t, s, "panic")
		time.Sleep(time.Minute)
		close(open)
		_, err := first.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = second.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		stop(t, p)
	})
}

// many is a batch handler.
type many struct {
	handler
	batch func(context.Context, []string) []behaviour.Outcome
}

func (m *many) HandleBatch(ctx context.Context, cmds []string) []behaviour.Outcome {
	return m.batch(ctx, cmds)
}

func TestABatchThatCrashesIsNarrowedDownToTheCulpritWhichAloneIsCharged(t *testing.T) {
	for _, how := range []string{"panic", "exit", "short"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				var log seen
				s := stage.Each("s", func() behaviour.Behaviour[string] {
					return &many{batch: func(_ context.Context, cmds []string) []behaviour.Outcome {
						log.note(fmt.Sprint(cmds))
						var all []behaviour.Outcome
						for _, cmd := range cmds {
							if cmd == "gate" {
								<-gate
							}
							crashes(cmd)
							if cmd != "short" {
								all = append(all, behaviour.OK(cmd))
							}
						}
						return all
					}}
				}, one()...)
				p := run(t, s)
				var tickets []*stage.Ticket
				cmds := []string{"gate", "1", "2", "3", "4", how, "5", "6", "7"}
				for _, cmd := range cmds {
					tickets = append(tickets, ask(t, s, cmd))
				}
				close(gate)
				synctest.Wait()
				for i, ticket := range tickets {
					ended(t, ticket, cmds[i])
					if cmds[i] == how {
						var crash *worker.CrashError
						require.ErrorAs(t, ticket.Err(), &crash)
						require.Equal(t, 1, crash.Attempts)
					} else {
						require.NoError(t, ticket.Err())
						require.Equal(t, cmds[i], ticket.Result())
					}
				}
				require.Equal(t, []string{
					"[gate]", "[1 2]", "[3 4 " + how + " 5]", "[3 4]", "[" + how + " 5]", "[" + how + "]", "[5]", "[6 7]",
				}, log.all())
				require.EqualValues(t, 3, s.Snapshot().Counts.Crashes)
				stop(t, p)
			})
		})
	}
}

func TestABatchHandlerCannotEmit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		next := stage.New("next", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
			return behaviour.OK(nil)
		}), one()...)
		s := stage.Each("s", func() behaviour.Behaviour[string] {
			return &many{batch: func(ctx context.Context, cmds []string) []behaviour.Outcome {
				return []behaviour.Outcome{behaviour.Error(behaviour.Emit(ctx, next, cmds[0]))}
			}}
		}, one()...)
		p := run(t, s, next)
		_, err := stage.Call[any](t.Context(), s, "x")
		require.ErrorContains(t, err, "a batch handler cannot emit")
		stop(t, p)
	})
}

func TestATimeLimitEndsTheHandlersContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.New("s", behaviour.Func[string](func(ctx context.Context, cmd string) behaviour.Outcome {
			switch cmd {
			case "slow":
				<-ctx.Done()
				return behaviour.Error(ctx.Err())
			case "cause":
				<-ctx.Done()
				return behaviour.Error(context.Cause(ctx))
			case "late":
				<-ctx.Done()
				return behaviour.OK("late")
			case "crash":
				<-ctx.Done()
				panic(context.Cause(ctx))
			}
			return behaviour.OK(cmd)
		}), one(stage.Timeout(time.Second))...)
		p := run(t, s)
		for _, cmd := range []string{"slow", "cause", "crash"} {
			begun := time.Now()
			_, err := stage.Call[any](t.Context(), s, cmd)
			require.ErrorIs(t, err, stage.ErrTimeout, cmd)
			require.Equal(t, time.Second, time.Since(begun))
		}
		got, err := stage.Call[string](t.Context(), s, "late")
		require.NoError(t, err)
		require.Equal(t, "late", got)
		got, err = stage.Call[string](t.Context(), s, "quick")
		require.NoError(t, err)
		require.Equal(t, "quick", got)
		stop(t, p)
	})
}

// Otherwise its timer, and what refers to it, would stay until the time limit.
func TestTheContextOfACallWithATimeLimitEndsWithTheCall(t *testing.T) {
	for name, end := range map[string]func(){"returns": func() {}, "panics": func() { panic("now") }, "exits": exit} {
		for _, batches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/batches=%v", name, batches), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var kept context.Context
					handle := func(ctx context.Context) {
						kept = ctx //nolint:fatcontext // the test inspects it
						end()
					}
					each := func(ctx context.Context, _ string) behaviour.Outcome {
						handle(ctx)
						return behaviour.OK(nil)
					}
					b := behaviour.Behaviour[string](behaviour.Func[string](each))
					if batches {
						b = &many{batch: func(ctx context.Context, _ []string) []behaviour.Outcome {
							handle(ctx)
							return []behaviour.Outcome{behaviour.OK(nil)}
						}}
					}
					s := stage.New("s", b, one(stage.Timeout(time.Hour))...)
					p := run(t, s)
					require.NoError(t, s.Submit(t.Context(), "x"))
					synctest.Wait()
					require.ErrorIs(t, context.Cause(kept), context.Canceled)
					stop(t, p)
				})
			})
		}
	}
}

func TestARetryConditionThatPanicsMeansNoRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var tries atomic.Int32
		s := stage.New("s", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			tries.Add(1)
			crashes(cmd)
			return behaviour.Error(errBoom)
		}), one(stage.Retry(stage.RetryPolicy{Attempts: 3, If: func(error) bool { panic("condition") }}))...)
		p := run(t, s)
		for _, cmd := range []string{"error", "panic"} {
			tries.Store(0)
			_, err := stage.Call[any](t.Context(), s, cmd)
			require.ErrorIs(t, err, errBoom)
			require.EqualValues(t, 1, tries.Load())
		}
		stop(t, p)
	})
}

func TestAFactoryThatReturnsNothingOrCrashesFailsTheStart(t *testing.T) {
	for name, factory := range map[string]behaviour.Factory[string]{
		"nil":       func() behaviour.Behaviour[string] { return nil },
		"typed nil": func() behaviour.Behaviour[string] { return (*handler)(nil) },
		"panic":     func() behaviour.Behaviour[string] { panic(errBoom) },
		"exit":      func() behaviour.Behaviour[string] { exit(); return nil },
		"start": func() behaviour.Behaviour[string] {
			return &handler{start: func(context.Context) error { return errBoom }}
		},
		"start panic": func() behaviour.Behaviour[string] {
			return &handler{start: func(context.Context) error { panic(errBoom) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := stage.Each("s", factory, stage.Workers(2, 2))
				p, err := pipeline.New("house", s, pipeline.System(system))
				require.NoError(t, err)
				require.ErrorContains(t, p.Start(t.Context()), `stage "s"`)
			})
		})
	}
}

func TestAFreshInstanceThatCannotStartIsTriedAgainWithAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var born atomic.Int32
		s := stage.Each("s", func() behaviour.Behaviour[string] {
			n := born.Add(1)
			return &handler{
				start: func(context.Context) error {
					if n > 1 && n < 5 {
						return errBoom
					}
					return nil
				},
				handle: func(_ context.Context, cmd string) behaviour.Outcome { crashes(cmd); return behaviour.OK(cmd) },
			}
		}, one()...)
		p := run(t, s)
		require.NoError(t, s.Submit(t.Context(), "panic"))
		got, err := stage.Call[string](t.Context(), s, "hello")
		require.NoError(t, err)
		require.Equal(t, "hello", got)
		require.EqualValues(t, 5, born.Load())
		require.EqualValues(t, 4, s.Snapshot().Counts.Crashes)
		stop(t, p)
	})
}

func TestAPanicInStopIsContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Each("s", func() behaviour.Behaviour[string] {
			return &handler{
				handle: func(_ context.Context, cmd string) behaviour.Outcome { crashes(cmd); return behaviour.OK(cmd) },
				stop:   func() { panic(errors.New("stop")) },
			}
		}, stage.Workers(3, 3))
		p := run(t, s)
		for range 5 {
			_, err := stage.Call[string](t.Context(), s, "panic")
			require.ErrorIs(t, err, errBoom)
		}
		time.Sleep(time.Second) // after crashes in a row the supervisor pauses
		require.Equal(t, 3, s.Snapshot().Workers.Live)
		stop(t, p)
	})
}

func TestAPanicWithNilIsACrashToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.New("s", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
			panic(nil)
		}), one()...)
		p := run(t, s)
		_, err := stage.Call[string](t.Context(), s, "x")
		var crash *worker.CrashError
		require.ErrorAs(t, err, &crash)
		stop(t, p)
	})
}
