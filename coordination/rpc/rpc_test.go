package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/scheduler"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

var errFull = errors.New("full")

type limitError struct{ Most int }

func (e *limitError) Error() string { return fmt.Sprintf("most is %d", e.Most) }

func init() { //nolint:gochecknoinits // as programs do
	transport.RegisterError("rpc_test.errFull", errFull)
	transport.RegisterErrorType[*limitError]("rpc_test.limitError")
}

func TestAnErrorKeepsItsType(t *testing.T) {
	secret := errors.New("not registered")
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "fail", func(_ coroutine.Context, how string) (int, error) {
					switch how {
					case "sentinel":
						return 1, fmt.Errorf("put: %w", errFull)
					case "type":
						return 1, fmt.Errorf("put: %w", &limitError{7})
					case "both":
						return 1, errors.Join(errFull, &limitError{8})
					case "deadline":
						return 1, fmt.Errorf("query: %w", context.DeadlineExceeded)
					case "panic":
						panic("boom")
					case "panic with an error":
						panic(&limitError{9})
					case "exit":
						runtime.Goexit()
					case "unknown":
						return 1, secret
					}
					return 1, nil
				})
			})
			fail := func(how string) error {
				v, err := rpc.At[string, int](n.Remote(b.Node(), "B"), "fail").Call(blocking(t), how)
				assert.Zero(t, v, "a failed call has no result")
				return err
			}
			assert.ErrorIs(t, fail("sentinel"), errFull)
			assert.EqualError(t, fail("sentinel"), "put: full")
			assert.NotErrorIs(t, fail("type"), errFull)
			limit, ok := errors.AsType[*limitError](fail("type"))
			require.True(t, ok)
			assert.Equal(t, 7, limit.Most)
			err := fail("both")
			assert.ErrorIs(t, err, errFull)
			limit, ok = errors.AsType[*limitError](err)
			require.True(t, ok)
			assert.Equal(t, 8, limit.Most)
			assert.ErrorIs(t, fail("deadline"), context.DeadlineExceeded)
			assert.ErrorIs(t, fail("exit"), coroutine.ErrGoexit)
			panicked, ok := errors.AsType[*coroutine.PanicError](fail("panic"))
			require.True(t, ok)
			assert.Equal(t, "boom", panicked.Value)
			assert.Contains(t, string(panicked.Stack), "TestAnErrorKeepsItsType")
			limit, ok = errors.AsType[*limitError](fail("panic with an error"))
			require.True(t, ok)
			assert.Equal(t, 9, limit.Most)
			assert.EqualError(t, fail("unknown"), "not registered")
			if n == m {
				assert.Same(t, secret, fail("unknown"), "on the same node it is the very same value")
			}
			assert.NoError(t, func() error {
				_, err := rpc.At[string, int](n.Remote(b.Node(), "B"), "fail").Call(blocking(t), "")
				return err
			}(), "the process lives on")
		})
	}
}

func TestACallThatCannotReachAFunctionFails(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "f", func(_ coroutine.Context, v int) (int, error) { return v, nil })
			})
			there := n.Remote(b.Node(), "B")
			call := func(r rpc.Ref[int, int]) error {
				_, err := r.Call(blocking(t), 1)
				return err
			}
			assert.NoError(t, call(rpc.At[int, int](there, "f")))
			assert.ErrorIs(t, call(rpc.At[int, int](there, "g")), rpc.ErrNoFunction)
			assert.ErrorIs(t, call(rpc.At[int, int](n.Remote(b.Node(), "C"), "f")), rpc.ErrUnreachable)
			assert.ErrorIs(t, call(rpc.At[int, int](n.Remote("no such node", "B"), "f")), rpc.ErrUnreachable)
			assert.ErrorIs(t, call(rpc.Ref[int, int]{}), rpc.ErrUnreachable)
			_, err := rpc.At[string, int](there, "f").Call(blocking(t), "text")
			assert.ErrorIs(t, err, rpc.ErrType)
			_, err = rpc.At[int, string](there, "f").Call(blocking(t), 1)
			assert.ErrorIs(t, err, rpc.ErrType)
			require.NoError(t, m.Stop("B"))
			assert.ErrorIs(t, call(rpc.At[int, int](there, "f")), rpc.ErrUnreachable)
			assert.ErrorIs(t, rpc.At[int, int](n.Address("B"), "f").Send(1), rpc.ErrUnreachable)
			require.NoError(t, m.Close())
			assert.ErrorIs(t, call(rpc.At[int, int](there, "f")), rpc.ErrUnreachable)
		})
	}
}

func TestARequestAndAResultOfAnyTypeComeAsValues(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "echo", func(_ coroutine.Context, v any) (any, error) {
					assert.Equal(t, "text", v)
					return v, nil
				})
			})
			v, err := rpc.At[any, any](n.Remote(b.Node(), "B"), "echo").Call(blocking(t), "text")
			require.NoError(t, err)
			assert.Equal(t, "text", v)
		})
	}
}

func TestWhatTheCallerHasEncodedComesAsItWasSent(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "double", func(_ coroutine.Context, v transport.Encoded) (transport.Encoded, error) { return append(v, v...), nil })
			})
			double := rpc.At[transport.Encoded, transport.Encoded](n.Remote(b.Node(), "B"), "double")
			for sent, want := range map[string]string{"\x00{": "\x00{\x00{", "": ""} {
				v, err := double.Call(blocking(t), transport.Encoded(sent))
				require.NoError(t, err)
				assert.Equal(t, want, string(v))
			}
		})
	}
}

func TestACallThatIsUnderWayFailsWhenItsProcessOrNodeEnds(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, node ends: %v", name, whole), func(t *testing.T) {
				n, m := nodes(t)
				cleaned := make(chan error, 1)
				b := spawn(t, m, "B", func(p *rpc.Process) {
					rpc.Func(p, "wait", func(c coroutine.Context, _ none) (none, error) {
						err := coroutine.Sleep(c, time.Hour)
						cleaned <- err
						return none{}, err
					})
					rpc.Func(p, "queued", func(coroutine.Context, none) (none, error) { return none{}, nil })
					p.Guard("queued", func(func(string) guard.Counters) bool { return false })
				})
				there := n.Remote(b.Node(), "B")
				running := rpc.At[none, none](there, "wait").Future(context.Background(), none{})
				queued := rpc.At[none, none](there, "queued").Future(context.Background(), none{})
				ended := make(chan error, 1)
				there.Watch(func(reason error) { ended <- reason })
				require.Eventually(t, func() bool { // it runs
					_, err := rpc.At[none, none](there, "none").Call(blocking(t), none{})
					return errors.Is(err, rpc.ErrNoFunction)
				}, 10*time.Second, time.Millisecond)
				if whole {
					require.NoError(t, m.Close())
				} else {
					require.NoError(t, m.Stop("B"))
				}
				_, err := running.Wait(blocking(t))
				assert.ErrorIs(t, err, rpc.ErrUnreachable)
				assert.NotErrorIs(t, err, coroutine.ErrStopped, "it is not the caller that was stopped")
				_, err = queued.Wait(blocking(t))
				assert.ErrorIs(t, err, rpc.ErrUnreachable)
				assert.ErrorIs(t, <-cleaned, coroutine.ErrStopped)
				assert.ErrorIs(t, <-ended, rpc.ErrUnreachable)
			})
		}
	}
}

func TestTheFunctionEndsWithItsCaller(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var ran atomic.Int64
			started, ended := make(chan time.Time, 1), make(chan error, 1)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "suspended", func(c coroutine.Context, _ none) (none, error) {
					deadline, _ := c.Deadline()
					started <- deadline
					err := coroutine.Sleep(c, time.Hour)
					ended <- err
					return none{}, err
				})
				rpc.Func(p, "blocked", func(c coroutine.Context, _ none) (none, error) {
					started <- time.Time{}
					<-c.Done() // as a library does that gets c as its context
					ended <- c.Err()
					return none{}, c.Err()
				})
				rpc.Func(p, "held", func(coroutine.Context, none) (none, error) {
					ran.Add(1)
					return none{}, nil
				})
				open := false
				rpc.Func(p, "open", func(coroutine.Context, none) (guard.Counters, error) {
					open = true
					return p.Count("held"), nil
				})
				p.Guard("held", func(func(string) guard.Counters) bool { return open })
			})
			at := func(method string) rpc.Ref[none, none] { return rpc.At[none, none](n.Remote(b.Node(), "B"), method) }

			for _, method := range []string{"suspended", "blocked"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				call := at(method).Future(ctx, none{})
				if deadline := <-started; method == "suspended" {
					assert.WithinDuration(t, time.Now().Add(time.Hour), deadline, time.Minute)
				}
				assert.False(t, call.Done())
				cancel()
				_, err := call.Wait(blocking(t))
				require.ErrorIs(t, err, context.Canceled)
				require.Error(t, <-ended)
			}

			// A caller that blocks, a coroutine that is bound, and a coroutine that is stopped.
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			_, err := at("suspended").Call(coroutine.Blocking(ctx), none{})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, <-ended, coroutine.ErrStopped)
			s := scheduler.New(scheduler.Config{})
			var bound, stopped error
			s.Go(func(c coroutine.Context) {
				ctx, cancel := context.WithTimeout(c, 10*time.Millisecond)
				defer cancel()
				_, bound = at("suspended").Call(coroutine.WithContext(ctx, c), none{})
				s.Stop()
				_, stopped = at("suspended").Call(c, none{})
			})
			require.NoError(t, s.Loop())
			s.Close()
			require.ErrorIs(t, bound, context.DeadlineExceeded)
			require.ErrorIs(t, stopped, coroutine.ErrStopped)
			<-started
			require.ErrorIs(t, <-ended, coroutine.ErrStopped)

			// What has not started does not start.
			ctx, cancel = context.WithCancel(t.Context())
			held := at("held").Future(ctx, none{})
			cancel()
			_, err = held.Wait(blocking(t))
			require.ErrorIs(t, err, context.Canceled)
			counters, err := rpc.At[none, guard.Counters](n.Remote(b.Node(), "B"), "open").Call(blocking(t), none{})
			require.NoError(t, err)
			assert.Zero(t, counters, "a request whose caller has gone leaves no trace")
			assert.Zero(t, ran.Load())
			_, err = at("held").Call(blocking(t), none{})
			require.NoError(t, err)
			assert.Equal(t, int64(1), ran.Load())
		})
	}
}

func TestASupervisorRestartsAProcess(t *testing.T) {
	n := aNode(t)
	var incarnation atomic.Int64
	var old atomic.Pointer[rpc.Ref[none, int64]]
	tree, err := supervisor.Start(t.Context(), nil, supervisor.Spec{Children: []supervisor.Child{n.Child("counter", func(p *rpc.Process) error {
		mine, calls := incarnation.Add(1), 0
		broken := false
		rpc.Func(p, "count", func(coroutine.Context, none) (pair, error) {
			calls++
			return pair{int(mine), calls}, nil
		})
		rpc.Func(p, "break", func(coroutine.Context, none) (none, error) {
			broken = true
			return none{}, nil
		})
		rpc.Func(p, "wait", func(c coroutine.Context, _ none) (none, error) { return none{}, coroutine.Sleep(c, time.Hour) })
		ref := rpc.Func(p, "", func(coroutine.Context, none) (int64, error) { return mine, nil })
		old.CompareAndSwap(nil, &ref)
		p.Guard("count", func(func(string) guard.Counters) bool {
			if broken {
				panic("the guard is broken")
			}
			return true
		})
		return nil
	})}, Intensity: supervisor.Intensity{Restarts: 3, Within: time.Minute}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer tree.Stop()
	counter := n.Address("counter")
	count := rpc.At[none, pair](counter, "count")
	assert.Equal(t, pair{1, 1}, must(count.Call(blocking(t), none{})))
	assert.Equal(t, pair{1, 2}, must(count.Call(blocking(t), none{})))
	assert.Equal(t, int64(1), must(old.Load().Call(blocking(t), none{})))
	waiting := rpc.At[none, none](counter, "wait").Future(t.Context(), none{})
	ended := make(chan none)
	counter.Watch(func(error) { close(ended) })
	must(rpc.At[none, none](counter, "break").Call(blocking(t), none{}))
	_, err = count.Call(blocking(t), none{})
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	_, err = waiting.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	<-ended
	require.Eventually(t, func() bool {
		got, err := count.Call(blocking(t), none{})
		return err == nil && got == pair{2, 1}
	}, 10*time.Second, time.Millisecond)
	_, err = old.Load().Call(blocking(t), none{})
	require.ErrorIs(t, err, rpc.ErrNoFunction, "an anonymous function ends with its incarnation")
}

func TestAProcessThatCannotStartIsNotThere(t *testing.T) {
	n := aNode(t)
	for name, init := range map[string]func(p *rpc.Process) error{
		"error":           func(*rpc.Process) error { return errFull },
		"panic":           func(*rpc.Process) error { panic("boom") },
		"exit":            func(*rpc.Process) error { runtime.Goexit(); return nil },
		"a method twice":  func(p *rpc.Process) error { f(p, "f"); f(p, "f"); return nil },
		"a name with ~":   func(p *rpc.Process) error { f(p, "~f"); return nil },
		"a nil function":  func(p *rpc.Process) error { rpc.Func[int, int](p, "f", nil); return nil },
		"no init":         nil,
		"a nil guard":     func(p *rpc.Process) error { p.Guard("f", nil); return nil },
		"a nil guard 2":   func(p *rpc.Process) error { p.RequestGuard("f", nil); return nil },
		"a guard of none": func(p *rpc.Process) error { f(p, "put"); p.Guard("putt", holds); return nil },
		"of no function": func(p *rpc.Process) error {
			p.RequestGuard("f", func(guard.Request, func(string) guard.Counters) bool { return true })
			return nil
		},
		"a nil watch":      func(p *rpc.Process) error { p.Watch(p.Address(), nil); return nil },
		"a nil function 2": func(p *rpc.Process) error { p.Go(nil); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.Spawn(t.Context(), "P", init)
			require.Error(t, err)
			_, err = rpc.At[int, int](n.Address("P"), "f").Call(blocking(t), 1)
			require.ErrorIs(t, err, rpc.ErrUnreachable)
		})
	}
	_, err := n.Spawn(t.Context(), "", func(*rpc.Process) error { return nil })
	require.Error(t, err)
	spawn(t, n, "P", func(*rpc.Process) {})
	_, err = n.Spawn(t.Context(), "P", func(*rpc.Process) error { return nil })
	require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
	_, err = supervisor.Start(t.Context(), nil, supervisor.Spec{Children: []supervisor.Child{n.Child("P", func(*rpc.Process) error { return nil })}})
	require.ErrorIs(t, err, supervisor.ErrAlreadyStarted, "of another supervisor, too")
	require.NoError(t, n.Stop("P"))
	spawn(t, n, "P", func(*rpc.Process) {})
	require.Error(t, n.Stop("Q"))
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	_, err = n.Spawn(t.Context(), "R", func(*rpc.Process) error { return nil })
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	require.Error(t, aNode(t).Stop("R"))
}

func holds(func(string) guard.Counters) bool { return true }

func TestAGuardOfAnUnknownMethodIsAnErrorThatNamesIt(t *testing.T) {
	n := aNode(t)
	_, err := n.Spawn(t.Context(), "buffer", func(p *rpc.Process) error {
		p.Guard("put", holds) // before the function
		p.Guard("gett", holds)
		p.Guard("putt", holds)
		f(p, "put")
		f(p, "get")
		return nil
	})
	require.ErrorContains(t, err, `rpc: process "buffer": the guard is of "gett", which is no function of the process`)
	require.ErrorContains(t, err, `the guard is of "putt"`)
	require.NotContains(t, err.Error(), `"put"`)

	var late rpc.Ref[string, none]
	spawn(t, n, "buffer", func(p *rpc.Process) {
		late = rpc.Func(p, "guard", func(_ coroutine.Context, method string) (none, error) { p.Guard(method, holds); return none{}, nil })
	})
	_, err = late.Call(blocking(t), "guard")
	require.NoError(t, err)
	_, err = late.Call(blocking(t), "gard")
	require.ErrorContains(t, err, `rpc: process "buffer": the guard is of "gard", which is no function of the process`)
}

func TestAProcessOfALongNameIsRefusedWithAShortError(t *testing.T) {
	_, err := aNode(t).Spawn(t.Context(), strings.Repeat("p", 1<<20), func(*rpc.Process) error { return nil })
	require.ErrorContains(t, err, "the name has 1048576 bytes, the most is 1024")
	require.Less(t, len(err.Error()), 2000)
}

func f(p *rpc.Process, method string) rpc.Ref[int, int] {
	return rpc.Func(p, method, func(_ coroutine.Context, v int) (int, error) { return v, nil })
}

func TestAStageIsCalledLikeAFunction(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			double := stage.Func("double", func(_ context.Context, v int) behaviour.Outcome {
				if v < 0 {
					return behaviour.Error(errFull)
				}
				return behaviour.OK(2 * v)
			})
			var answers sync.Map
			var ask rpc.Ref[int, int]
			front := stage.Coroutine("front", func(c coroutine.Context, v int) behaviour.Outcome { // a handler that calls a process, which calls a stage
				got, err := ask.Call(c, v)
				answers.Store(v, got)
				if err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(got)
			}, stage.Workers(1, 1), stage.Instances(100))
			p, err := pipeline.New("p", double, front)
			require.NoError(t, err)
			var ref rpc.Ref[int, int]
			spawn(t, m, "pipeline", func(p *rpc.Process) { ref = rpc.Stage[int](p, "double", double) })
			ask = rpc.At[int, int](n.Remote(m.Name(), "pipeline"), ref.Method)
			require.NoError(t, p.Start(t.Context()))
			assert.Equal(t, 42, must(ask.Call(blocking(t), 21)))
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() { assert.Equal(t, 2*i, must(stage.Call[int](t.Context(), front, i))) })
			}
			wg.Wait()
			_, err = stage.Call[int](t.Context(), front, -1)
			require.ErrorIs(t, err, errFull)
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

func TestOnTheSameNodeValuesAreTheVerySame(t *testing.T) {
	n := aNode(t)
	a := spawn(t, n, "A", func(p *rpc.Process) {
		rpc.Func(p, "f", func(_ coroutine.Context, v any) (any, error) { return v, nil })
	})
	echo := rpc.At[any, any](a, "f")
	value := &struct{ f func() }{}
	assert.Same(t, value, must(echo.Call(blocking(t), value)))
	assert.True(t, math.IsNaN(must(echo.Call(blocking(t), math.NaN())).(float64)), "it need not be one that can be encoded")
	assert.Nil(t, must(echo.Call(blocking(t), nil)))
}

func TestRequestsOfOneCallerArriveInOrder(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var got []int
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "add", func(_ coroutine.Context, v int) (none, error) {
					got = append(got, v)
					return none{}, nil
				})
				rpc.Func(p, "got", func(coroutine.Context, none) ([]int, error) { return got, nil })
			})
			there := n.Remote(b.Node(), "B")
			var want []int
			for i := range 300 {
				want = append(want, i)
				if i%3 == 0 {
					must(rpc.At[int, none](there, "add").Call(blocking(t), i))
				} else {
					require.NoError(t, rpc.At[int, none](there, "add").Send(i))
				}
			}
			assert.Equal(t, want, must(rpc.At[none, []int](there, "got").Call(blocking(t), none{})))
		})
	}
}

func TestAFunctionThatIsRemovedIsNotThere(t *testing.T) {
	n := aNode(t)
	a := spawn(t, n, "A", func(p *rpc.Process) {
		rpc.Func(p, "make", func(coroutine.Context, none) (rpc.Ref[int, int], error) { return f(p, ""), nil })
		rpc.Func(p, "remove", func(_ coroutine.Context, method string) (none, error) {
			p.Remove(method)
			return none{}, nil
		})
	})
	ref := must(rpc.At[none, rpc.Ref[int, int]](a, "make").Call(blocking(t), none{}))
	assert.Equal(t, 3, must(ref.Call(blocking(t), 3)))
	must(rpc.At[string, none](a, "remove").Call(blocking(t), ref.Method))
	_, err := ref.Call(blocking(t), 3)
	assert.ErrorIs(t, err, rpc.ErrNoFunction)
}

func TestCallsTakeNoVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		begin := time.Now()
		a := spawn(t, n, "A", func(p *rpc.Process) {
			rpc.Func(p, "sleep", func(c coroutine.Context, d time.Duration) (none, error) { return none{}, coroutine.Sleep(c, d) })
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { must(rpc.At[time.Duration, none](a, "sleep").Call(blocking(t), time.Second)) })
		}
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(begin))
		require.NoError(t, n.Close())
	})
}

func TestANilContextIsRefused(t *testing.T) {
	n := aNode(t)
	ref := rpc.At[int, int](n.Address("A"), "f")
	assert.Panics(t, func() { _, _ = ref.Call(nil, 1) })
	assert.Panics(t, func() { ref.Future(nil, 1) })                                                //nolint:staticcheck // as above
	assert.Panics(t, func() { _, _ = n.Spawn(nil, "A", func(*rpc.Process) error { return nil }) }) //nolint:staticcheck // as above
	assert.Panics(t, func() { n.Address("A").Watch(nil) })
}

// notices is a transport whose notices of losses the test gives.
type notices struct {
	transport.Transport

	mu   sync.Mutex
	lost []func(error)
}

func (n *notices) Watch(_ string, lost func(error)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = append(n.lost, lost)
	return func() {}
}

// give gives the notices that are waited for.
func (n *notices) give() {
	n.mu.Lock()
	lost := n.lost
	n.lost = nil
	n.mu.Unlock()
	for _, f := range lost {
		f(transport.ErrUnreachable)
	}
}

// The caller's node notices a loss first, and calls again before the other node does. That node then forgets the call.
func TestWhatIsAskedBetweenTheTwoNoticesOfALossEnds(t *testing.T) {
	var hub transport.Hub
	first, second := &notices{Transport: hub.Join("n")}, &notices{Transport: hub.Join("m")}
	n, m := nodeOn(t, first), nodeOn(t, second)
	running := make(chan none)
	spawn(t, m, "P", func(p *rpc.Process) {
		rpc.Func(p, "wait", func(c coroutine.Context, _ none) (none, error) {
			running <- none{}
			<-c.Done()
			return none{}, c.Err()
		})
		rpc.Func(p, "ping", func(coroutine.Context, none) (none, error) { return none{}, nil })
	})
	at := n.Remote("m", "P")
	must(rpc.At[none, none](at, "ping").Call(blocking(t), none{}))
	first.give()
	ended := make(chan error, 1)
	defer at.Watch(func(reason error) { ended <- reason })()
	call := rpc.At[none, none](at, "wait").Future(t.Context(), none{})
	<-running
	assert.Empty(t, ended)
	second.give()
	_, err := call.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	assert.ErrorIs(t, <-ended, rpc.ErrUnreachable)
	must(rpc.At[none, none](at, "ping").Call(blocking(t), none{}))
}
