package transport_test

import (
	"fmt"
	"testing"

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
