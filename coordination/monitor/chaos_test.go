package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/supervisor"
)

// device is what a monitor protects. It refuses those that come with an old token.
type device struct {
	mu     sync.Mutex
	newest uint64
	user   uint64 // the token of the entry that uses it; 0 if none does
}

// use begins a use, and reports whether the token allows it. Done reports whether the use was not interrupted by a newer entry.
func (d *device) use(token uint64) (done func() bool, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if token <= d.newest {
		return nil, false
	}
	d.newest, d.user = token, token
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.user == token
	}, true
}

// visiting is what a visit of the monitor does, and whether a newer entry used the device before it was over.
type visiting struct {
	crashes   bool
	overtaken *bool
}

// TestHoldersThatCrashLeaveNothingStuck has processes under a synchronizer crash inside a monitor, and the supervisor kill them there and the
// lock, at random. At the end each process can enter again.
func TestHoldersThatCrashLeaveNothingStuck(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	n := nodeOn(t, nil)
	lock := monitor.Lock{Address: n.Address("lock")}
	var d device
	var running, entries, crashes atomic.Int32
	visit := monitor.DoWhenFree(lock, func(c coroutine.Context, m *monitor.Monitor, how visiting) (none, error) {
		done, ok := d.use(m.Token())
		if !ok {
			return none{}, monitor.ErrLost
		}
		if how.crashes {
			crashes.Add(1)
			panic("planned")
		}
		if err := coroutine.Yield(c); err != nil {
			return none{}, err
		}
		if !done() {
			*how.overtaken = true
		}
		entries.Add(1)
		return none{}, nil
	})
	children := []supervisor.Child{monitor.Child(n, "lock")}
	var holders []rpc.Address
	for i := range 4 {
		name := fmt.Sprint("P", i)
		children = append(children, n.Child(name, func(p *rpc.Process) error {
			rpc.Func(p, "use", func(c coroutine.Context, how string) (none, error) {
				assert.LessOrEqual(t, running.Add(1), int32(2), "the synchronizer allows two")
				defer running.Add(-1)
				overtaken := false
				_, err := visit(c, visiting{how == "crash", &overtaken})
				if overtaken {
					assert.ErrorIs(t, err, monitor.ErrLost, "another has entered meanwhile")
				}
				return none{}, err
			})
			return nil
		}))
		holders = append(holders, n.Address(name))
	}
	tree, err := supervisor.Start(context.Background(), nil, supervisor.Spec{
		Name: "test", Strategy: supervisor.OneForOne, Intensity: supervisor.Intensity{Restarts: 1 << 30, Within: time.Second},
		Children: children, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer tree.Stop()
	must(n.Synchronize(t.Context(), "two", func(s *synchronizer.Synchronizer) {
		var events []synchronizer.Event
		for _, h := range holders {
			events = append(events, synchronizer.Event{Of: h, Method: "use"})
		}
		s.AtMost(2, events...)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	over := make(chan none)
	var clients sync.WaitGroup
	for i, h := range holders {
		how := rand.New(rand.NewPCG(seed, uint64(i+1)))
		clients.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				what := "use"
				if how.IntN(5) == 0 {
					what = "crash"
				}
				_, _ = rpc.At[string, none](h, "use").Call(coroutine.Blocking(ctx), what)
			}
		})
	}
	for range 60 {
		child := children[rnd.IntN(len(children))].Name
		require.NoError(t, tree.Terminate(child))
		require.NoError(t, tree.Restart(t.Context(), child))
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
	}
	close(over)
	clients.Wait()
	before := entries.Load()
	for _, h := range holders {
		for {
			_, err := rpc.At[string, none](h, "use").Call(coroutine.Blocking(ctx), "use")
			if err == nil {
				break
			}
			require.NoError(t, ctx.Err(), "%v is stuck: %v", h, err)
			require.True(t, errors.Is(err, rpc.ErrUnreachable) || errors.Is(err, monitor.ErrLost), "%v: %v", h, err)
		}
	}
	require.Equal(t, before+int32(len(holders)), entries.Load())
	t.Logf("%d entries, %d crashes", entries.Load(), crashes.Load())
}
