package nats_test

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/coordination/transport/transporttest"
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
