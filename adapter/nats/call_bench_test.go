package nats_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkCall has a function of another node called, or a stage of another process: one call at a time, and 64. Over a server in the process or by URL, with TLS or without;
// over sockets without a server; and by plain nats.go, with Request, the same values and a deadline.
//
//	go test -run '^$' -bench Call -benchtime 20000x -count 5 ./adapter/nats
func BenchmarkCall(b *testing.B) {
	for name, newServer := range everyServer {
		b.Run("server="+name+"/by=golda", func(b *testing.B) {
			connect := newServer(b)
			benchCalls(b, transportOf(b, connect(b), "a"), transportOf(b, connect(b), "b"))
		})
		b.Run("server="+name+"/by=stage", func(b *testing.B) {
			connect := newServer(b)
			benchStage(b, connect(b), connect(b))
		})
		b.Run("server="+name+"/by=plain", func(b *testing.B) {
			connect := newServer(b)
			benchRequests(b, connect(b).JetStream().Conn(), connect(b).JetStream().Conn())
		})
	}
	b.Run("server=none/by=sockets", func(b *testing.B) {
		benchCalls(b, listen(b), listen(b))
	})
}

func transportOf(b *testing.B, conn *nats.Conn, node string) transport.Transport {
	b.Helper()
	tr, err := nats.NewTransport(conn, node, nats.TransportConfig{})
	require.NoError(b, err)
	return tr
}

func listen(b *testing.B) transport.Transport {
	b.Helper()
	tr, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: nodetest.Secret()})
	require.NoError(b, err)
	return tr
}

func benchCalls(b *testing.B, from, to transport.Transport) {
	b.Helper()
	var nodes []*rpc.Node
	for _, tr := range []transport.Transport{from, to} {
		n, err := rpc.NewNode(rpc.Config{Transport: tr})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, n.Close()) })
		nodes = append(nodes, n)
	}
	_, err := nodes[1].Spawn(b.Context(), "B", func(p *rpc.Process) error {
		rpc.Func(p, "book", func(_ coroutine.Context, o Order) (Order, error) { return o, nil })
		return nil
	})
	require.NoError(b, err)
	call := rpc.At[Order, Order](nodes[0].Remote(to.Node(), "B"), "book")
	c := coroutine.Blocking(b.Context())
	bench(b, func(n int) error {
		_, err := call.Call(c, Order{"7", n})
		return err
	})
}

// benchStage calls a stage that another process runs.
func benchStage(b *testing.B, from, to *nats.Conn) {
	b.Helper()
	var book *stage.Stage[Order]
	for process, conn := range map[string]*nats.Conn{"b": to, "a": from} {
		s := stage.Func("book", func(_ context.Context, o Order) behaviour.Outcome { return behaviour.OK(o) })
		near := stage.Sink("near", func(context.Context, int) error { return nil })
		p, err := pipeline.New("bench", near, s, quiet, pipeline.Assign("a", "near"), pipeline.Assign("b", "book"),
			pipeline.RunsHere(nats.NewCarrier(conn, "bench", nats.Options[any]{}), process))
		require.NoError(b, err)
		require.NoError(b, p.Start(b.Context()))
		b.Cleanup(func() { require.NoError(b, p.Stop(context.Background())) })
		if process == "a" {
			book = s
		}
	}
	call := func(n int) error {
		_, err := stage.Call[Order](b.Context(), book, Order{"7", n})
		return err
	}
	eventually(b, "it answers", func() bool { return call(0) == nil })
	bench(b, call)
}

func benchRequests(b *testing.B, from, to *natsgo.Conn) {
	b.Helper()
	_, err := to.Subscribe("book", func(m *natsgo.Msg) {
		var o Order
		if err := json.Unmarshal(m.Data, &o); err != nil {
			b.Error(err)
		}
		data, err := json.Marshal(o)
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			b.Error(err)
		}
	})
	require.NoError(b, err)
	require.NoError(b, to.Flush())
	bench(b, func(n int) error {
		data, err := json.Marshal(Order{"7", n})
		if err != nil {
			return err
		}
		m, err := from.Request("book", data, time.Minute)
		if err != nil {
			return err
		}
		var o Order
		return json.Unmarshal(m.Data, &o)
	})
}

func bench(b *testing.B, call func(n int) error) {
	b.Helper()
	require.NoError(b, call(0))
	b.Run("callers=1", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			if err := call(n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("callers=64", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32) // for each of two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
