package rpc_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
)

type none = struct{}

// aNode returns a node without a transport. The end of the test closes it.
func aNode(t testing.TB) *rpc.Node {
	t.Helper()
	return nodeOn(t, nil)
}

// nodeOn returns a node with a transport.
func nodeOn(t testing.TB, tr transport.Transport) *rpc.Node {
	t.Helper()
	n, err := rpc.NewNode(rpc.Config{Transport: tr, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// spawn starts a process whose init cannot fail.
func spawn(t testing.TB, n *rpc.Node, name string, init func(p *rpc.Process)) rpc.Address {
	t.Helper()
	a, err := n.Spawn(context.Background(), name, func(p *rpc.Process) error {
		init(p)
		return nil
	})
	require.NoError(t, err)
	return a
}

// main returns the context of code that is not a handler.
func blocking(t testing.TB) coroutine.Context { return coroutine.Blocking(t.Context()) }

// everyPairOfNodes makes two nodes that can reach each other, in every way that there is.
var everyPairOfNodes = map[string]func(t *testing.T) (n, m *rpc.Node){
	"one node": func(t *testing.T) (_, _ *rpc.Node) {
		t.Helper()
		n := aNode(t)
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

// receive returns a function for Await that receives a value.
func receive[T any](ch <-chan T) func(ctx context.Context) (T, error) {
	return func(ctx context.Context) (v T, err error) {
		select {
		case v = <-ch:
			return v, nil
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func listen(t testing.TB) transport.Transport {
	t.Helper()
	tr, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: nodetest.Secret()})
	require.NoError(t, err)
	return tr
}
