package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/supervisor"
)

type none = struct{}

func nodeOn(t testing.TB, tr transport.Transport) *rpc.Node {
	t.Helper()
	n, err := rpc.NewNode(rpc.Config{Transport: tr, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func lockOn(t testing.TB, n *rpc.Node) monitor.Lock {
	t.Helper()
	l, err := monitor.New(context.Background(), n, "lock")
	require.NoError(t, err)
	return l
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func blocking(t testing.TB) coroutine.Context { return coroutine.Blocking(t.Context()) }

// TestS002_4_AFunctionThatFailsReleases has functions of a monitor end in every way; the next enters.
func TestS002_4_AFunctionThatFailsReleases(t *testing.T) {
	n := nodeOn(t, nil)
	lock := lockOn(t, n)
	broken := errors.New("broken")
	a := must(n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", monitor.DoWhenFree(lock, func(c coroutine.Context, m *monitor.Monitor, how string) (uint64, error) {
			switch how {
			case "error":
				return 0, broken
			case "panic":
				panic("boom")
			case "exit":
				runtime.Goexit()
			case "sleep":
				return 0, coroutine.Sleep(c, time.Hour)
			}
			return m.Token(), nil
		}))
		return nil
	}))
	foo := rpc.At[string, uint64](a, "foo")
	var last uint64
	next := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		token, err := foo.Call(coroutine.Blocking(ctx), "")
		require.NoError(t, err)
		require.Greater(t, token, last)
		last = token
	}
	next()
	_, err := foo.Call(blocking(t), "error")
	require.ErrorIs(t, err, broken)
	next()
	_, err = foo.Call(blocking(t), "panic")
	var panicked *coroutine.PanicError
	require.ErrorAs(t, err, &panicked)
	next()
	_, err = foo.Call(blocking(t), "exit")
	require.ErrorIs(t, err, coroutine.ErrGoexit)
	next()
	ctx, cancel := context.WithCancel(t.Context())
	inside := foo.Future(ctx, "sleep")
	gone, leave := context.WithCancel(t.Context())
	waiting := foo.Future(gone, "") // and this one is waiting to enter
	runtime.Gosched()
	leave()
	_, err = waiting.Wait(blocking(t))
	require.ErrorIs(t, err, context.Canceled)
	cancel()
	_, err = inside.Wait(blocking(t))
	require.ErrorIs(t, err, context.Canceled)
	next()
	inside = foo.Future(t.Context(), "sleep")
	require.NoError(t, n.Stop("A"))
	_, err = inside.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	must(monitor.DoWhenFree(lock, func(coroutine.Context, *monitor.Monitor, none) (none, error) { return none{}, nil })(blocking(t), none{}))
}

// TestS002_4_NeverTwoAreInside has functions of two processes, and main, enter at random.
func TestS002_4_NeverTwoAreInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodeOn(t, nil)
		lock := lockOn(t, n)
		inside, entries, last := 0, 0, uint64(0) // written inside the monitor only: the race detector checks that, too
		body := func(c coroutine.Context, m *monitor.Monitor, _ none) (none, error) {
			inside++
			assert.Equal(t, 1, inside)
			assert.Greater(t, m.Token(), last)
			last = m.Token()
			entries++
			err := coroutine.Sleep(c, time.Millisecond)
			inside--
			return none{}, err
		}
		var wg sync.WaitGroup
		for _, name := range []string{"P", "Q"} {
			a := must(n.Spawn(t.Context(), name, func(p *rpc.Process) error {
				rpc.Func(p, "foo", monitor.DoWhenFree(lock, body))
				return nil
			}))
			for range 50 {
				wg.Go(func() { must(rpc.At[none, none](a, "foo").Call(blocking(t), none{})) })
			}
		}
		for range 10 {
			wg.Go(func() { must(monitor.DoWhenFree(lock, body)(blocking(t), none{})) })
		}
		begin := time.Now()
		wg.Wait()
		assert.Equal(t, 110, entries)
		assert.Equal(t, 110*time.Millisecond, time.Since(begin), "the lock is never free while one waits")
		require.NoError(t, n.Close())
	})
}

func TestANestedEntryIsRefused(t *testing.T) {
	n := nodeOn(t, nil)
	lock, other := lockOn(t, n), must(monitor.New(t.Context(), n, "other"))
	inner := func(l monitor.Lock) func(c coroutine.Context, req none) (none, error) {
		return monitor.DoWhenFree(l, func(coroutine.Context, *monitor.Monitor, none) (none, error) { return none{}, nil })
	}
	outer := monitor.DoWhenFree(lock, func(c coroutine.Context, _ *monitor.Monitor, same bool) (none, error) {
		if !same {
			return inner(other)(c, none{})
		}
		ctx, cancel := context.WithCancel(c)
		defer cancel()
		_, err := inner(lock)(coroutine.WithContext(ctx, c), none{})
		assert.ErrorIs(t, err, monitor.ErrNested)
		return inner(lock)(c, none{})
	})
	a := must(n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", outer)
		return nil
	}))
	for name, call := range map[string]func(same bool) (none, error){
		"function of a process": func(same bool) (none, error) { return rpc.At[bool, none](a, "foo").Call(blocking(t), same) },
		"main":                  func(same bool) (none, error) { return outer(blocking(t), same) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(true)
			require.ErrorIs(t, err, monitor.ErrNested)
			_, err = call(false)
			require.NoError(t, err, "of another monitor it is none")
			_, err = call(true)
			require.ErrorIs(t, err, monitor.ErrNested, "it was released")
		})
	}
}

// TestX1_ConditionsBetweenProcesses is a buffer with producers and consumers in several processes.
func TestX1_ConditionsBetweenProcesses(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			const producers, consumers, each = 4, 4, 50
			first, second := network(t)
			lock := lockOn(t, first)
			var buffer []int
			put := func(l monitor.Lock) func(coroutine.Context, int) (none, error) {
				return monitor.DoWhenFree(l, func(c coroutine.Context, m *monitor.Monitor, v int) (none, error) {
					for len(buffer) == 3 {
						if err := m.Wait(c, "full"); err != nil {
							return none{}, err
						}
					}
					buffer = append(buffer, v)
					m.Signal("empty")
					return none{}, nil
				})
			}
			get := func(l monitor.Lock) func(coroutine.Context, none) (int, error) {
				return monitor.DoWhenFree(l, func(c coroutine.Context, m *monitor.Monitor, _ none) (int, error) {
					for len(buffer) == 0 {
						if err := m.Wait(c, "empty"); err != nil {
							return 0, err
						}
					}
					v := buffer[0]
					buffer = buffer[1:]
					m.SignalAll("full")
					return v, nil
				})
			}
			spawn := func(n *rpc.Node, name string) rpc.Address {
				return must(n.Spawn(t.Context(), name, func(p *rpc.Process) error {
					rpc.Func(p, "use", func(_ coroutine.Context, l monitor.Lock) (none, error) { // a lock is a value that can be sent
						rpc.Func(p, "put", put(l))
						rpc.Func(p, "get", get(l))
						return none{}, nil
					})
					return nil
				}))
			}
			near, far := spawn(first, "near"), spawn(second, "far")
			far = first.Remote(far.Node(), "far")
			var wg sync.WaitGroup
			var got sync.Map
			for _, a := range []rpc.Address{near, far} {
				must(rpc.At[monitor.Lock, none](a, "use").Call(blocking(t), lock))
			}
			for i := range producers {
				wg.Go(func() {
					for k := range each {
						must(rpc.At[int, none]([]rpc.Address{near, far}[i%2], "put").Call(blocking(t), i*each+k))
					}
				})
			}
			for i := range consumers {
				wg.Go(func() {
					for range producers * each / consumers {
						_, twice := got.LoadOrStore(must(rpc.At[none, int]([]rpc.Address{near, far}[i%2], "get").Call(blocking(t), none{})), true)
						assert.False(t, twice)
					}
				})
			}
			wg.Wait()
			for i := range producers * each {
				_, ok := got.Load(i)
				assert.True(t, ok, i)
			}
			assert.Empty(t, buffer)
		})
	}
}

// networks are two nodes that reach each other, in every way that there is.
var networks = map[string]func(t *testing.T) (n, m *rpc.Node){
	"one node": func(t *testing.T) (_, _ *rpc.Node) {
		t.Helper()
		n := nodeOn(t, nil)
		return n, n
	},
	"two nodes of one program": func(t *testing.T) (_, _ *rpc.Node) {
		t.Helper()
		var hub transport.Hub
		return nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
	},
	"two nodes with sockets": func(t *testing.T) (_, _ *rpc.Node) {
		t.Helper()
		return nodeOn(t, listen(t)), nodeOn(t, listen(t))
	},
}

func listen(t testing.TB) transport.Transport {
	t.Helper()
	tr, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: nodetest.Secret()})
	require.NoError(t, err)
	return tr
}

// TestS002_5_AFalseNoticeOfDeath takes the lock from a function that lives, because its node seemed to have ended.
func TestS002_5_AFalseNoticeOfDeath(t *testing.T) {
	var hub transport.Hub
	n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
	lock := lockOn(t, n)
	inside, goOn := make(chan uint64), make(chan none)
	there := monitor.Lock{Address: m.Remote("n", "lock")}
	bar := monitor.DoWhenFree(there, func(_ coroutine.Context, mon *monitor.Monitor, _ none) (none, error) {
		inside <- mon.Token()
		<-goOn
		mon.Signal("nothing") // with a token that is old
		return none{}, nil
	})
	foo := monitor.DoWhenFree(lock, func(_ coroutine.Context, mon *monitor.Monitor, _ none) (none, error) {
		inside <- mon.Token()
		<-goOn
		return none{}, nil
	})
	result := make(chan error)
	run := func(f func(coroutine.Context, none) (none, error)) {
		_, err := f(coroutine.Blocking(context.Background()), none{})
		result <- err
	}
	go run(bar)
	first := <-inside
	go run(foo)
	select {
	case <-inside:
		require.Fail(t, "two are inside")
	case <-time.After(20 * time.Millisecond):
	}
	hub.Cut("n", "m")
	second := <-inside // now there are two, and one of them does not know
	assert.Greater(t, second, first)
	goOn <- none{}
	require.ErrorIs(t, <-result, monitor.ErrLost, "the release of the one that lost it")
	go run(bar) // and it cannot disturb the entry of the other
	select {
	case <-inside:
		require.Fail(t, "two are inside")
	case <-time.After(20 * time.Millisecond):
	}
	goOn <- none{}
	require.NoError(t, <-result)
	assert.Greater(t, <-inside, second)
	goOn <- none{}
	require.NoError(t, <-result)
}

func TestTheLockSurvivesItsRestart(t *testing.T) {
	n := nodeOn(t, nil)
	tree, err := supervisor.Start(t.Context(), nil, supervisor.Spec{Children: []supervisor.Child{monitor.Child(n, "lock")}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer tree.Stop()
	lock := monitor.Lock{Address: n.Address("lock")}
	inside, goOn := make(chan uint64, 1), make(chan none)
	foo := monitor.DoWhenFree(lock, func(_ coroutine.Context, m *monitor.Monitor, _ none) (none, error) {
		inside <- m.Token()
		<-goOn
		return none{}, nil
	})
	waiter := monitor.DoWhenFree(lock, func(c coroutine.Context, m *monitor.Monitor, _ none) (none, error) {
		inside <- m.Token()
		err := m.Wait(c, "never")
		assert.ErrorIs(t, m.Wait(c, "again"), monitor.ErrLost)
		return none{}, err
	})
	result := make(chan error, 3)
	run := func(f func(coroutine.Context, none) (none, error)) {
		_, err := f(coroutine.Blocking(context.Background()), none{})
		result <- err
	}
	go run(waiter)
	<-inside
	go run(foo)
	first := <-inside
	require.NoError(t, tree.Terminate("lock"))
	require.ErrorIs(t, <-result, monitor.ErrLost, "the one that waits for a condition")
	run(foo)
	require.ErrorIs(t, <-result, rpc.ErrUnreachable)
	require.NoError(t, tree.Restart(t.Context(), "lock"))
	go run(foo)
	assert.Greater(t, <-inside, first)
	goOn <- none{}
	goOn <- none{}
	one, two := <-result, <-result
	if one == nil {
		one, two = two, one
	}
	require.ErrorIs(t, one, monitor.ErrLost, "the one that was inside")
	require.NoError(t, two)
}

func TestTheZeroLockIsOfNoMonitor(t *testing.T) {
	ran := atomic.Bool{}
	_, err := monitor.DoWhenFree(monitor.Lock{}, func(coroutine.Context, *monitor.Monitor, none) (none, error) {
		ran.Store(true)
		return none{}, nil
	})(blocking(t), none{})
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	assert.False(t, ran.Load())
	assert.Panics(t, func() { monitor.DoWhenFree[none, none](monitor.Lock{}, nil) })
	fmt.Fprint(t.Output(), err)
}
