package rpc_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
)

type pair struct{ A, B int }

// TestS002_1_AsyncCallback is figure 4.
func TestS002_1_AsyncCallback(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			bar := spawn(t, m, "Bar", func(p *rpc.Process) {
				rpc.Func(p, "foo", func(_ coroutine.Context, in pair) (pair, error) { return pair{in.A + 1, in.B + 1}, nil })
			})
			const rounds = 20
			var log []string // only functions of A write it: the race detector checks that the callback is one of them
			done := make(chan none, rounds)
			a := spawn(t, n, "A", func(p *rpc.Process) {
				rpc.Func(p, "run", func(coroutine.Context, none) (none, error) {
					log = append(log, "before")
					rpc.At[pair, pair](n.Remote(bar.Node(), "Bar"), "foo").Async(p, pair{1, 2}, func(_ coroutine.Context, out pair, err error) {
						log = append(log, fmt.Sprint(out.A+out.B, err))
						done <- none{}
					})
					log = append(log, "after")
					return none{}, nil
				})
				rpc.Func(p, "log", func(coroutine.Context, none) ([]string, error) {
					defer func() { log = nil }()
					return log, nil
				})
			})
			for range rounds {
				_, err := rpc.At[none, none](a, "run").Call(blocking(t), none{})
				require.NoError(t, err)
				<-done
				got, err := rpc.At[none, []string](a, "log").Call(blocking(t), none{})
				require.NoError(t, err)
				assert.Equal(t, []string{"before", "after", "5 <nil>"}, got)
			}
			assert.Empty(t, done)
		})
	}
}

// TestS002_2_SyncSuspendsOnlyTheCaller is figure 5.
func TestS002_2_SyncSuspendsOnlyTheCaller(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			answer := make(chan pair)
			bar := spawn(t, m, "Bar", func(p *rpc.Process) {
				rpc.Func(p, "foo", func(c coroutine.Context, in pair) (pair, error) {
					out, err := coroutine.Await(c, receive(answer))
					return pair{in.A + out.A, in.B + out.B}, err
				})
			})
			foo := rpc.At[pair, pair](n.Remote(bar.Node(), "Bar"), "foo")
			a := spawn(t, n, "A", func(p *rpc.Process) {
				rpc.Func(p, "run", func(c coroutine.Context, _ none) (pair, error) { return foo.Call(c, pair{1, 2}) })
				rpc.Func(p, "ping", func(coroutine.Context, none) (string, error) { return "pong", nil })
			})
			running := rpc.At[none, pair](a, "run").Future(t.Context(), none{})
			for range 3 { // the second ping is served after the start of run
				pong, err := rpc.At[none, string](a, "ping").Call(blocking(t), none{})
				require.NoError(t, err)
				require.Equal(t, "pong", pong)
			}
			assert.False(t, running.Done())
			answer <- pair{10, 20}
			got, err := running.Wait(blocking(t))
			require.NoError(t, err)
			assert.Equal(t, pair{11, 22}, got)

			go func() { answer <- pair{30, 40} }()
			got, err = foo.Call(blocking(t), pair{1, 2}) // from code that is not a handler
			require.NoError(t, err)
			assert.Equal(t, pair{31, 42}, got)
		})
	}
}

// withFunction is a request that has a function in it.
type withFunction struct {
	Text string
	Func rpc.Ref[int, int]
}

// TestS002_3_FunctionArgument is figure 6, and then a function that is passed on.
func TestS002_3_FunctionArgument(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			printed, ran := make(chan string, 10), make(chan string, 10)
			spawn(t, m, "C", func(p *rpc.Process) {
				var kept rpc.Ref[int, int]
				rpc.Func(p, "keep", func(_ coroutine.Context, f rpc.Ref[int, int]) (none, error) {
					kept = f
					return none{}, nil
				})
				rpc.Func(p, "use", func(c coroutine.Context, v int) (int, error) { return kept.Call(c, v) }) //nolint:gocritic // kept is set later
			})
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "bar", func(c coroutine.Context, in withFunction) (int, error) {
					printed <- in.Text
					return in.Func.Call(c, 123)
				})
				rpc.Func(p, "pass", func(c coroutine.Context, in map[string][]*withFunction) (none, error) {
					return rpc.At[rpc.Ref[int, int], none](m.Address("C"), "keep").Call(c, in["f"][0].Func)
				})
			})
			var soma rpc.Ref[int, int]
			spawn(t, n, "A", func(p *rpc.Process) {
				soma = rpc.Func(p, "", func(_ coroutine.Context, v int) (int, error) {
					ran <- p.Address().Process()
					return v + 1, nil
				})
			})
			there := n.Remote(b.Node(), "B")
			got, err := rpc.At[withFunction, int](there, "bar").Call(blocking(t), withFunction{"Hello World", soma})
			require.NoError(t, err)
			assert.Equal(t, 124, got)
			assert.Equal(t, "Hello World", <-printed)
			assert.Equal(t, "A", <-ran)

			_, err = rpc.At[map[string][]*withFunction, none](there, "pass").Call(blocking(t), map[string][]*withFunction{"f": {{Func: soma}}})
			require.NoError(t, err)
			require.NoError(t, m.Stop("B"))
			got, err = rpc.At[int, int](n.Remote(b.Node(), "C"), "use").Call(blocking(t), 1)
			require.NoError(t, err)
			assert.Equal(t, 2, got)
			assert.Equal(t, "A", <-ran)
			assert.Empty(t, printed)
			_, err = rpc.At[withFunction, int](there, "bar").Call(blocking(t), withFunction{})
			assert.ErrorIs(t, err, rpc.ErrUnreachable)
		})
	}
}

// TestX6_NoReentrancyDeadlock calls a process whose function waits for the one that calls it.
func TestX6_NoReentrancyDeadlock(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			b := spawn(t, m, "B", func(p *rpc.Process) {
				rpc.Func(p, "m2", func(c coroutine.Context, a rpc.Address) (string, error) {
					got, err := rpc.At[none, string](a, "m3").Call(c, none{})
					return "m2 " + got, err
				})
			})
			a := spawn(t, n, "A", func(p *rpc.Process) {
				rpc.Func(p, "m1", func(c coroutine.Context, _ none) (string, error) {
					got, err := rpc.At[rpc.Address, string](n.Remote(b.Node(), "B"), "m2").Call(c, p.Address())
					return "m1 " + got, err
				})
				rpc.Func(p, "m3", func(coroutine.Context, none) (string, error) { return "m3", nil })
			})
			got, err := rpc.At[none, string](a, "m1").Call(blocking(t), none{})
			require.NoError(t, err)
			assert.Equal(t, "m1 m2 m3", got)
		})
	}
}

// TestS002_6_OneSlotBuffer is figures 17 and 18, with a process.
func TestS002_6_OneSlotBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		buffer := spawn(t, n, "buffer", func(p *rpc.Process) {
			value, full := 0, false
			rpc.Func(p, "put", func(_ coroutine.Context, v int) (none, error) {
				value, full = v, true
				return none{}, nil
			})
			rpc.Func(p, "get", func(coroutine.Context, none) (int, error) {
				full = false
				return value, nil
			})
			rpc.Func(p, "count", func(_ coroutine.Context, method string) (guard.Counters, error) { return p.Count(method), nil })
			p.Guard("put", func(func(string) guard.Counters) bool { return !full })
			p.Guard("get", func(func(string) guard.Counters) bool { return full })
		})
		put, get := rpc.At[int, none](buffer, "put"), rpc.At[none, int](buffer, "get")
		first, second := put.Future(t.Context(), 1), put.Future(t.Context(), 2)
		synctest.Wait()
		assert.True(t, first.Done())
		assert.False(t, second.Done())
		counters, err := rpc.At[string, guard.Counters](buffer, "count").Call(blocking(t), "put")
		require.NoError(t, err)
		assert.Equal(t, 1, counters.Pending)
		assert.Equal(t, 1, must(get.Call(blocking(t), none{})))
		synctest.Wait()
		assert.True(t, second.Done(), "the second put is accepted with no further message")
		assert.Equal(t, 2, must(get.Call(blocking(t), none{})))
		waiting := get.Future(t.Context(), none{})
		synctest.Wait()
		assert.False(t, waiting.Done())
		must(put.Call(blocking(t), 3))
		assert.Equal(t, 3, must(waiting.Wait(blocking(t))))

		var producer sync.WaitGroup
		producer.Go(func() {
			for i := range 1000 {
				must(put.Call(blocking(t), i))
			}
		})
		for i := range 1000 {
			require.Equal(t, i, must(get.Call(blocking(t), none{})))
		}
		producer.Wait()
		require.NoError(t, n.Close())
	})
}
