package nats_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/stage"
)

// claimOf is a message by which a program claims the name of a node since a time.
func claimOf(birth uint64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1, 5}, birth), make([]byte, 16)...)
}

// claim publishes a message on the subject by which programs agree on the name of a node.
func claim(t *testing.T, conn *nats.Conn, node string, data []byte) {
	t.Helper()
	own := "golda.node." + node + "." + node
	require.NoError(t, conn.JetStream().Conn().PublishRequest(own, own, data))
}

// seize answers for the name of a node as a program does that has claimed it later than all others, and claims it.
func seize(t *testing.T, conn *nats.Conn, node string) {
	t.Helper()
	own := "golda.node." + node + "." + node
	_, err := conn.JetStream().Conn().Subscribe("golda.node."+node+".*", func(m *natsgo.Msg) {
		if m.Subject == own && m.Reply != own {
			_ = m.Respond(append(claimOf(math.MaxUint64), "process 1 on elsewhere"...))
		}
	})
	require.NoError(t, err)
	claim(t, conn, node, claimOf(math.MaxUint64))
}

func TestADamagedClaimDoesNotCloseANode(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var log buffer
	cfg := nats.TransportConfig{Heartbeat: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	a, in := joined(t, conn, "a", cfg)
	b, _ := joined(t, conn, "b", cfg)
	lost := watch(a, "a")
	for _, birth := range []uint64{math.MaxUint64, 1 << 63, uint64(time.Now().Add(time.Hour).UnixNano())} {
		claim(t, conn, "a", claimOf(birth))
	}
	eventually(t, "the log says that the claims are ignored", func() bool { return strings.Contains(log.String(), "is ignored") })
	eventually(t, "the node is reached", func() bool { return b.Send("a", &transport.Message{Kind: 7}) == nil && len(in) > 0 })
	require.Empty(t, lost)
	require.Equal(t, 1, strings.Count(log.String(), "is ignored"), "claims of no program do not fill the log")
}

func TestANodeGivesWayToAProgramThatAnswersForItsName(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", slowly)
	lost := watch(a, "a")
	seize(t, conn, "a")
	require.ErrorContains(t, <-lost, "another program has the name of node a: process 1 on elsewhere")
}

// nodesOf waits until some nodes have shown that they live, and returns their names.
func nodesOf(t *testing.T, conn *nats.Conn, n int) (all []string) {
	t.Helper()
	seen := make(chan string, 1<<10)
	sub, err := conn.JetStream().Conn().Subscribe("golda.node.*.*", func(m *natsgo.Msg) { seen <- strings.Split(m.Subject, ".")[2] })
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	for len(all) < n {
		if node := <-seen; !slices.Contains(all, node) {
			all = append(all, node)
		}
	}
	return all
}

// A hostile program of the same user takes the names of both nodes: that of the caller, and that of the process that is called.
func TestCallsGoOnWhenTheNodesOfACarrierAreTaken(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var log buffer
	double := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(2 * n) })
	}
	process := func(name string) *stage.Stage[int] {
		far, _ := halfOf(t, nats.NewCarrier(conn, "pair", nats.Options[any]{Logger: slog.New(slog.NewTextHandler(&log, nil))}), name, double)
		return far
	}
	process("b")
	far := process("a")
	got, err := call[int](t, far, 4)
	require.NoError(t, err)
	require.Equal(t, 8, got)
	for _, node := range nodesOf(t, conn, 2) {
		seize(t, conn, node)
	}
	eventually(t, "both nodes have given way", func() bool { return strings.Count(log.String(), "has taken the name") == 2 })
	eventually(t, "the carriers have other nodes", func() bool {
		got, err := stage.Call[int](t.Context(), far, 1)
		return err == nil && got == 2
	})
	for i := range 20 {
		got, err := stage.Call[int](t.Context(), far, i)
		require.NoError(t, err, "call %d", i)
		require.Equal(t, 2*i, got)
	}
}
