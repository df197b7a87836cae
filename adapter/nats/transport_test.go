package nats_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/coordination/transport/transporttest"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// payload is how large the messages of the servers of these tests may be.
const payload = 4 << 20

// everyServer makes a function that returns a connection to one server, with which each kind of server is there.
var everyServer = map[string]func(t testing.TB) (connect func(t testing.TB) *nats.Conn){
	"in the process": func(t testing.TB) func(t testing.TB) *nats.Conn {
		t.Helper()
		conn := embed(t, t.TempDir(), nats.Store{MaxPayload: payload})
		return func(testing.TB) *nats.Conn { return conn }
	},
	"by URL": func(t testing.TB) func(t testing.TB) *nats.Conn {
		t.Helper()
		s := serve(t, &server.Options{MaxPayload: payload})
		return func(t testing.TB) *nats.Conn { t.Helper(); return connect(t, s.ClientURL()) }
	},
	"with TLS and credentials": func(t testing.TB) func(t testing.TB) *nats.Conn {
		t.Helper()
		cert, pool := certificate(t, time.Now().Add(time.Hour))
		s := serve(t, &server.Options{
			MaxPayload: payload, TLS: true, TLSTimeout: 10, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			Username: "shop", Password: "secret",
		})
		return func(t testing.TB) *nats.Conn {
			t.Helper()
			return connect(t, "tls://"+s.Addr().String(), natsgo.UserInfo("shop", "secret"), natsgo.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
		}
	},
}

// connect connects to a server by URL. The end of the test closes the connection.
func connect(t testing.TB, url string, options ...natsgo.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(t.Context(), url, append(options, natsgo.ReconnectWait(10*time.Millisecond))...)
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, conn) })
	return conn
}

func TestTheTransportConforms(t *testing.T) {
	for name, newServer := range everyServer {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Net { return &network{connect: newServer(t)} })
		})
	}
}

// network makes transports over one server, as a network for tests.
type network struct {
	connect func(t testing.TB) *nats.Conn
	n       int
}

func (n *network) Join(t *testing.T) transport.Transport {
	t.Helper()
	n.n++
	tr, err := nats.NewTransport(n.connect(t), fmt.Sprint("node-", n.n), nats.TransportConfig{Heartbeat: 100 * time.Millisecond})
	require.NoError(t, err)
	return tr
}

func (*network) Cut(a, b transport.Transport) { nats.Cut(a, b.Node()) }

func TestTheDeadlineAndTheCancellationOfACallTravel(t *testing.T) {
	for name, newServer := range everyServer {
		t.Run(name, func(t *testing.T) {
			n, m := pairOf(t, newServer(t))
			started, ended := make(chan time.Time, 1), make(chan error, 1)
			_, err := m.Spawn(t.Context(), "B", func(p *rpc.Process) error {
				rpc.Func(p, "wait", func(c coroutine.Context, _ none) (none, error) {
					deadline, _ := c.Deadline()
					started <- deadline
					err := coroutine.Sleep(c, time.Hour)
					ended <- err
					return none{}, err
				})
				return nil
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			call := rpc.At[none, none](n.Remote("b", "B"), "wait").Future(ctx, none{})
			require.WithinDuration(t, time.Now().Add(time.Hour), <-started, time.Minute)
			cancel()
			_, err = call.Wait(blocking(t))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, <-ended, coroutine.ErrStopped)
		})
	}
}

func TestAFullStageRefusesACallOfAnotherNode(t *testing.T) {
	for name, newServer := range everyServer {
		t.Run(name, func(t *testing.T) {
			n, m := pairOf(t, newServer(t))
			running, release := make(chan none, 3), make(chan none)
			slow := stage.Func("slow", func(_ context.Context, v int) behaviour.Outcome {
				running <- none{}
				<-release
				return behaviour.OK(v)
			}, stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.Reject))
			p, err := pipeline.New("p", slow, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, p.Stop(context.Background())) })
			_, err = m.Spawn(t.Context(), "B", func(p *rpc.Process) error {
				rpc.Stage[int](p, "slow", slow)
				return nil
			})
			require.NoError(t, err)
			call := rpc.At[int, int](n.Remote("b", "B"), "slow")
			first := call.Future(t.Context(), 1)
			<-running
			var accepted []*rpc.Future[int]
			for err == nil { // at most one more has a slot
				require.Less(t, len(accepted), 3)
				next := call.Future(t.Context(), 2)
				eventually(t, "it is refused, or queued", func() bool { return next.Done() || slow.Snapshot().Queue.Queued > len(accepted) })
				if !next.Done() {
					accepted = append(accepted, next)
					continue
				}
				_, err = next.Wait(blocking(t))
			}
			require.ErrorIs(t, err, stage.ErrFull)
			overload, ok := stage.Overloaded(err)
			require.True(t, ok)
			require.Equal(t, stage.Overload{Reason: reason.Full, RetryAfter: time.Second}, overload)
			close(release)
			for _, f := range append(accepted, first) {
				_, err := f.Wait(blocking(t))
				require.NoError(t, err)
			}
		})
	}
}

// pairOf returns two nodes, a and b.
func pairOf(t testing.TB, connect func(t testing.TB) *nats.Conn) (a, b *rpc.Node) {
	t.Helper()
	var nodes []*rpc.Node
	for _, name := range []string{"a", "b"} {
		tr, err := nats.NewTransport(connect(t), name, nats.TransportConfig{})
		require.NoError(t, err)
		n, err := rpc.NewNode(rpc.Config{Transport: tr})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		nodes = append(nodes, n)
	}
	return nodes[0], nodes[1]
}
