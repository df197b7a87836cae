package transport_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/coordination/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAHubConforms(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transporttest.Net { return &hubs{} })
}

// hubs is a hub as a network for tests.
type hubs struct {
	transport.Hub
	n int
}

func (h *hubs) Join(*testing.T) transport.Transport {
	h.n++
	return h.Hub.Join(fmt.Sprint("node", h.n))
}

func (h *hubs) Cut(a, b transport.Transport) { h.Hub.Cut(a.Node(), b.Node()) }

func TestSocketsConform(t *testing.T) {
	for name, s := range map[string]sockets{
		"tcp":                  {"tcp", transport.Config{Secret: secret}},
		"tcp without a secret": {"tcp", transport.Config{Insecure: true, Peers: anyPeer}},
		"unix":                 {"unix", transport.Config{}},
		"unix with a secret":   {"unix", transport.Config{Secret: secret}},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(*testing.T) transporttest.Net { return s })
		})
	}
}

// sockets makes transports over sockets, as a network for tests.
type sockets struct {
	network string
	cfg     transport.Config
}

func (s sockets) Join(t *testing.T) transport.Transport {
	t.Helper()
	address := "127.0.0.1:0"
	if s.network == "unix" {
		address = t.TempDir() + "/socket"
	}
	tr, err := transport.Listen(s.network, address, s.cfg)
	require.NoError(t, err)
	return tr
}

func (sockets) Cut(a, b transport.Transport) { transport.Cut(a, b) }
