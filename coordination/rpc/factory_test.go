package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/stage"
)

// addTo is the init of a process that adds to a number.
func addTo(p *rpc.Process, n int) error {
	rpc.Func(p, "add", func(_ coroutine.Context, by int) (int, error) {
		n += by
		return n, nil
	})
	return nil
}

func TestAProcessIsStartedAtAnotherNodeAndItsEndIsReported(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			require.NoError(t, rpc.Factory(t.Context(), m, "counter", 2, addTo))
			c := blocking(t)
			one := must(rpc.SpawnAt(c, n, m.Name(), "counter", "", 40))
			two := must(rpc.SpawnAt(c, n, m.Name(), "counter", "mine", 50))
			assert.Equal(t, "counter/1", one.Process())
			assert.Equal(t, "counter/mine", two.Process())
			assert.Equal(t, 42, must(rpc.At[int, int](one, "add").Call(c, 2)))
			assert.Equal(t, 51, must(rpc.At[int, int](two, "add").Call(c, 1)))

			_, err := rpc.SpawnAt(c, n, m.Name(), "counter", "", 0)
			require.ErrorIs(t, err, stage.ErrFull)
			require.ErrorContains(t, err, "it has 2 processes, and may have no more")
			ended := make(chan error, 1)
			one.Watch(func(reason error) { ended <- reason })
			require.NoError(t, rpc.StopAt(c, one))
			require.ErrorIs(t, <-ended, rpc.ErrUnreachable)
			require.ErrorIs(t, rpc.StopAt(c, one), rpc.ErrUnreachable, "it is stopped")
			third := stageHasPlace(t, n, m.Name())
			assert.Equal(t, 7, must(rpc.At[int, int](third, "add").Call(c, 7)))
		})
	}
}

// stageHasPlace starts a process as soon as the end of another has been noticed.
func stageHasPlace(t *testing.T, n *rpc.Node, node string) (a rpc.Address) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		a, err = rpc.SpawnAt(blocking(t), n, node, "counter", "", 0)
		return err == nil
	}, time.Minute, time.Millisecond)
	return a
}

func TestAProcessThatCannotBeStartedAtAnotherNodeHasAnErrorThatSaysWhy(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			require.NoError(t, rpc.Factory(t.Context(), m, "bad", 2, func(*rpc.Process, none) error { return errors.New("no disk") }))
			require.NoError(t, rpc.Factory(t.Context(), m, "counter", 2, addTo))
			c := blocking(t)
			_, err := rpc.SpawnAt(c, n, m.Name(), "unknown", "", none{})
			require.ErrorIs(t, err, rpc.ErrNoFunction)
			require.ErrorContains(t, err, `has no factory "unknown"`)
			for range 3 { // a start that has failed gives its place back
				_, err = rpc.SpawnAt(c, n, m.Name(), "bad", "", none{})
				require.ErrorContains(t, err, "no disk")
				require.NotErrorIs(t, err, rpc.ErrNoFunction)
			}
			must(rpc.SpawnAt(c, n, m.Name(), "counter", "same", 0))
			_, err = rpc.SpawnAt(c, n, m.Name(), "counter", "same", 0)
			require.ErrorContains(t, err, `the name "counter/same" is taken`)
			_, err = rpc.SpawnAt(c, n, m.Name(), "counter", "a#b", 0)
			require.ErrorContains(t, err, "contains #")
			_, err = rpc.SpawnAt(c, n, m.Name(), "counter", "", "no number")
			require.ErrorIs(t, err, rpc.ErrType)
			_, err = rpc.SpawnAt(c, n, "tcp:127.0.0.1:1", "counter", "", 0)
			require.ErrorIs(t, err, rpc.ErrUnreachable)
			require.NotErrorIs(t, err, rpc.ErrNoFunction)
			require.ErrorContains(t, rpc.StopAt(c, m.Address("alone")), "was not started by a factory")
		})
	}
	n := aNode(t)
	for says, err := range map[string]error{
		"the name":             rpc.Factory(t.Context(), n, "a/b", 1, addTo),
		"must not be empty":    rpc.Factory(t.Context(), n, "", 1, addTo),
		"at least one process": rpc.Factory(t.Context(), n, "a", 0, addTo),
		"init is nil":          rpc.Factory[int](t.Context(), n, "a", 1, nil),
	} {
		assert.ErrorContains(t, err, says)
	}
}

func TestAProcessWhoseCallerGivesUpIsNotLeftBehind(t *testing.T) {
	n := aNode(t)
	inside, goOn := make(chan none, 10), make(chan none)
	require.NoError(t, rpc.Factory(t.Context(), n, "slow", 1, func(p *rpc.Process, by int) error {
		inside <- none{}
		<-goOn
		return addTo(p, by)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := rpc.SpawnAt(coroutine.Blocking(ctx), n, "", "slow", "", 0)
		failed <- err
	}()
	<-inside
	cancel()
	require.Error(t, <-failed)
	close(goOn)
	require.Eventually(t, func() bool { // its place is free
		_, err := rpc.SpawnAt(blocking(t), n, "", "slow", "next", 0)
		return err == nil
	}, time.Minute, time.Millisecond)
	_, err := rpc.At[int, int](n.Address("slow/1"), "add").Call(blocking(t), 1)
	require.ErrorIs(t, err, rpc.ErrUnreachable)
}
