package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
)

func TestAfterAFalseNoticeARoundIsWhereItWas(t *testing.T) {
	var hub transport.Hub
	n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
	ran := map[string]chan none{"A": make(chan none, 1000), "B": make(chan none, 1000)}
	member := func(at *rpc.Node, name string) rpc.Ref[none, none] {
		return rpc.At[none, none](spawn(t, at, name, func(p *rpc.Process) {
			rpc.Func(p, "m", func(coroutine.Context, none) (none, error) {
				ran[name] <- none{}
				return none{}, nil
			})
		}), "m")
	}
	a, b := member(n, "A"), member(m, "B")
	_, err := n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		s.OncePerRound(synchronizer.Event{Of: n.Address("A"), Method: "m"}, synchronizer.Event{Of: n.Remote("m", "B"), Method: "m"})
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func(r rpc.Ref[none, none]) {
		_, err := r.Call(coroutine.Blocking(ctx), none{})
		require.NoError(t, err)
	}
	for range 20 {
		call(a)
		call(b)
	}
	call(a)
	for range 10 {
		_ = a.Future(ctx, none{}) // waits for its turn
	}
	hub.Cut("n", "m")
	for range 3 {
		call(b)
	}
	assert.Len(t, ran["B"], 23)
	// A call of A is accepted before its function runs.
	assert.Eventually(t, func() bool { return len(ran["A"]) >= 22 }, time.Minute, time.Millisecond)
	assert.LessOrEqual(t, len(ran["A"]), 24)
}
