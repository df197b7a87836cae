package rpc_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/supervisor"
)

// oneOf lets one of the processes be used at a time.
func oneOf(all ...rpc.Address) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		var events []synchronizer.Event
		for _, a := range all {
			events = append(events, synchronizer.Event{Of: a, Method: "use"})
		}
		s.AtMost(1, events...)
	}
}

// spawnUsed starts a process that is used until the channel has a value.
func spawnUsed(t *testing.T, n *rpc.Node, name string) (a rpc.Address, end chan none) {
	t.Helper()
	end = make(chan none)
	return spawn(t, n, name, func(p *rpc.Process) {
		rpc.Func(p, "use", func(c coroutine.Context, _ none) (none, error) {
			return coroutine.Await(c, receive(end))
		})
		rpc.Func(p, "counters", func(coroutine.Context, none) (guard.Counters, error) { return p.Count("use"), nil })
	}), end
}

func TestRulesAreAddedAndTakenBackWhileASynchronizerRuns(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, endA := spawnUsed(t, m, "A")
			b, endB := spawnUsed(t, m, "B")
			use := func(a rpc.Address) *rpc.Future[none] { return rpc.At[none, none](a, "use").Future(t.Context(), none{}) }
			at := func(a rpc.Address) rpc.Address { return n.Remote(a.Node(), a.Process()) }
			must(n.Synchronize(t.Context(), "S", oneOf(at(a))))
			first := use(a)
			currentOf := func(a rpc.Address) func() int32 { return func() int32 { return int32(counted(t, a).Current) } }
			becomes(t, 1, currentOf(a))

			require.NoError(t, n.Resynchronize(t.Context(), "S", oneOf(at(a), at(b))))
			held := use(b) // since A was used before the rule was there
			becomes(t, 1, func() int32 { return int32(counted(t, b).Pending) })
			time.Sleep(10 * time.Millisecond)
			require.False(t, held.Done())
			require.Zero(t, counted(t, b).Current, "it is held back")

			require.NoError(t, n.Resynchronize(t.Context(), "S", oneOf(at(a))))
			becomes(t, 1, currentOf(b)) // though A is still used
			require.Equal(t, 1, counted(t, a).Current)
			endB <- none{}
			must(held.Wait(blocking(t)))

			second := use(a) // this rule has stayed
			becomes(t, 1, func() int32 { return int32(counted(t, a).Pending) })
			endA <- none{}
			must(first.Wait(blocking(t)))
			endA <- none{}
			must(second.Wait(blocking(t)))
		})
	}
}

func TestRulesThatAreWrongLeaveThoseBefore(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "use")
	s := must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "use", never) }))
	for says, init := range map[string]func(s *synchronizer.Synchronizer){
		"init is nil":                            nil,
		"it has no rules":                        func(*synchronizer.Synchronizer) {},
		"boom":                                   func(*synchronizer.Synchronizer) { panic("boom") },
		"the function is nil":                    func(s *synchronizer.Synchronizer) { s.Constrain(a, "use", nil) },
		"is a synchronizer: it has no functions": func(r *synchronizer.Synchronizer) { r.Constrain(s, "use", always) },
	} {
		require.ErrorContains(t, n.Resynchronize(t.Context(), "S", init), says)
	}
	err := n.Resynchronize(t.Context(), "S", func(*synchronizer.Synchronizer) { runtime.Goexit() })
	require.ErrorIs(t, err, coroutine.ErrGoexit)
	call := rpc.At[none, none](a, "use").Future(t.Context(), none{})
	becomes(t, 1, func() int32 { return int32(counted(t, a).Pending) })
	require.NoError(t, n.Resynchronize(t.Context(), "S", oneOf(a)))
	must(call.Wait(blocking(t)))
}

func TestOnlyASynchronizerThatRunsHasItsRulesChanged(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "use")
	require.ErrorIs(t, n.Resynchronize(t.Context(), "S", oneOf(a)), supervisor.ErrNotFound)
	require.ErrorIs(t, n.Resynchronize(t.Context(), "A", oneOf(a)), supervisor.ErrNotFound)
	must(n.Synchronize(t.Context(), "S", oneOf(a)))
	require.NoError(t, n.Stop("S"))
	require.ErrorIs(t, n.Resynchronize(t.Context(), "S", oneOf(a)), supervisor.ErrNotFound)
}

func TestASynchronizerThatRestartsHasTheRulesThatItWasGivenLast(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "use")
	must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "use", never) }))
	var runs, crashes atomic.Int32
	require.NoError(t, n.Resynchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		runs.Add(1)
		s.Constrain(a, "use", func(guard.Request) bool {
			if crashes.Add(1) <= 2 {
				panic("boom")
			}
			return true
		})
	}))
	must(rpc.At[none, none](a, "use").Call(blocking(t), none{}))
	assert.Equal(t, int32(3), runs.Load())
}

func TestAChangeOfRulesEndsWithItsContextOrTheSynchronizer(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "use")
	must(n.Synchronize(t.Context(), "S", oneOf(a)))
	inside, goOn := make(chan none), make(chan none)
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		first <- n.Resynchronize(ctx, "S", func(s *synchronizer.Synchronizer) {
			inside <- none{}
			<-goOn
			oneOf(a)(s)
		})
	}()
	<-inside
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	err := n.Resynchronize(short, "S", oneOf(a))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "another change is under way")
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(goOn)
	require.NoError(t, n.Resynchronize(t.Context(), "S", oneOf(a)))
	must(rpc.At[none, none](a, "use").Call(blocking(t), none{}))

	inside, goOn = make(chan none), make(chan none)
	go func() {
		first <- n.Resynchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
			inside <- none{}
			<-goOn
			oneOf(a)(s)
		})
	}()
	<-inside
	time.AfterFunc(10*time.Millisecond, func() { close(goOn) })
	require.NoError(t, n.Stop("S"))
	if err := <-first; err != nil { // it may have been installed just before
		assert.True(t, errors.Is(err, supervisor.ErrStopped) || errors.Is(err, supervisor.ErrNotFound), "%v", err)
	}
	must(rpc.At[none, none](a, "use").Call(blocking(t), none{}))
}

func TestRulesThatANodeRefusesAreTheErrorOfTheChange(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "use")
	other := must(n.Synchronize(t.Context(), "T", oneOf(a)))
	must(n.Synchronize(t.Context(), "S", oneOf(a)))
	require.ErrorContains(t, n.Resynchronize(t.Context(), "S", oneOf(a, other)), "is a synchronizer")
	require.NoError(t, n.Resynchronize(t.Context(), "S", oneOf(a)))
	must(rpc.At[none, none](a, "use").Call(blocking(t), none{}))
}
