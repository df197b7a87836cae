package nats_test

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/coordination/transport"
)

// The connection breaks and comes back often, while a function that was given to Watch takes its time.
func TestANodeIsReachedAgainAfterManyReconnects(t *testing.T) {
	s := serve(t, &server.Options{})
	conn := connect(t, s.ClientURL())
	a, _ := joined(t, conn, "a", slowly)
	b, in := joined(t, connect(t, s.ClientURL()), "b", slowly)
	require.NoError(t, a.Send("b", &transport.Message{}))
	<-in
	noticed, gate := make(chan struct{}), make(chan struct{})
	a.Watch("b", func(error) { close(noticed); <-gate })
	var changes atomic.Int64
	nc := conn.JetStream().Conn()
	back := nc.StatusChanged(natsgo.CONNECTED)
	defer nc.RemoveStatusListener(back)
	for range 20 {
		require.NoError(t, nc.ForceReconnect())
		<-back
		changes.Add(1)
	}
	<-noticed
	close(gate)
	eventually(t, "the node is reached", func() bool { return a.Send(b.Node(), &transport.Message{Kind: 2}) == nil && len(in) > 0 })
}

// Another program has the name and stands still, so Serve waits for it, for hours.
func TestCloseEndsServe(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	nc := conn.JetStream().Conn()
	asked := make(chan struct{}, 1)
	other, err := nc.Subscribe("golda.node.a.*", func(*natsgo.Msg) { asked <- struct{}{} })
	require.NoError(t, err)
	tr, err := nats.NewTransport(conn, "a", slowly)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- tr.Serve(func(string, *transport.Message) {}) }()
	<-asked
	require.NoError(t, tr.Close())
	require.ErrorIs(t, <-served, transport.ErrUnreachable)
	require.NoError(t, other.Unsubscribe())
	joined(t, conn, "a", slowly) // the name is free
}

func TestCloseAndServeAtOnceLeaveTheNameFree(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	for range 50 {
		tr, err := nats.NewTransport(conn, "a", slowly)
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() { _ = tr.Serve(func(string, *transport.Message) {}) })
		both.Go(func() { assert.NoError(t, tr.Close()) })
		both.Wait()
		again, _ := nats.NewTransport(conn, "a", slowly)
		require.NoError(t, again.Serve(func(string, *transport.Message) {}))
		require.NoError(t, again.Close())
	}
}

// A message that can never be sent costs itself, and not the node.
func TestAMessageThatIsLargerThanTheQueueIsRefused(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", nats.TransportConfig{Heartbeat: time.Hour, MaxQueue: 1000})
	b, in := joined(t, conn, "b", slowly)
	lost := watch(a, "b")
	err := a.Send(b.Node(), &transport.Message{Body: strings.Repeat("x", 1001)})
	require.ErrorIs(t, err, transport.ErrTooLarge)
	require.ErrorContains(t, err, "the MaxQueue is 1000")
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	<-in
	require.Empty(t, lost)
}

// What the server does not permit is an error of Serve, not a node that nothing reaches.
func TestANodeThatMayNotSubscribeIsRefused(t *testing.T) {
	t.Parallel()
	for name, permitted := range map[string]*server.Permissions{
		"it may not subscribe": {Subscribe: &server.SubjectPermission{Deny: []string{"golda.node.a.*"}}},
		"it may not publish":   {Publish: &server.SubjectPermission{Deny: []string{"golda.node.*.a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &server.Options{Users: []*server.User{{Username: "shop", Password: "secret", Permissions: permitted}}})
			conn := connect(t, s.ClientURL(), natsgo.UserInfo("shop", "secret"))
			tr, err := nats.NewTransport(conn, "a", nats.TransportConfig{Heartbeat: 10 * time.Millisecond})
			require.NoError(t, err)
			err = tr.Serve(func(string, *transport.Message) {})
			require.ErrorIs(t, err, natsgo.ErrPermissionViolation)
			require.ErrorContains(t, err, `nats: node "a": `)
			require.NoError(t, tr.Close())
			joined(t, conn, "other", slowly)
		})
	}
}

// guard is an authentication of a server that refuses clients for a time.
type guard struct {
	closed  atomic.Bool
	refused atomic.Int64
}

func (g *guard) Check(server.ClientAuthentication) bool {
	if g.closed.Load() {
		g.refused.Add(1)
		return false
	}
	return true
}

// Credentials are revoked, and given again: a server that is configured wrong for some seconds does not end its clients.
func TestANodeIsReachedAgainAfterItsCredentialsWereRevoked(t *testing.T) {
	var g guard
	s := serve(t, &server.Options{CustomClientAuthentication: &g})
	conn := connect(t, s.ClientURL())
	a, _ := joined(t, conn, "a", slowly)
	b, in := joined(t, connect(t, s.ClientURL()), "b", slowly)
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	<-in
	lost := watch(a, "b")
	g.closed.Store(true)
	require.NoError(t, conn.JetStream().Conn().ForceReconnect())
	require.ErrorIs(t, <-lost, nats.ErrAway)
	eventually(t, "it is refused again and again", func() bool { return g.refused.Load() >= 5 || conn.JetStream().Conn().IsClosed() })
	require.ErrorIs(t, a.Send("b", &transport.Message{}), nats.ErrAway)
	g.closed.Store(false)
	eventually(t, "the node is reached", func() bool { return a.Send(b.Node(), &transport.Message{Kind: 2}) == nil && len(in) > 0 })
}

// A program that may publish what it likes greets with names that no node has.
func TestNodesWithNamesThatAreNoneHaveNoSession(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", slowly)
	nc := conn.JetStream().Conn()
	var answers atomic.Int64
	_, err := nc.Subscribe("golda.node.*.a", func(m *natsgo.Msg) {
		if m.Subject != "golda.node.a.a" {
			answers.Add(1)
		}
	})
	require.NoError(t, err)
	hello := append([]byte{1, 1}, strings.Repeat("\x01", 8)+strings.Repeat("\x00", 16)...)
	for _, name := range []string{"$", "*", ">", "ü", strings.Repeat("x", 65)} {
		require.NoError(t, nc.Publish("golda.node.a."+name, hello))
	}
	require.NoError(t, nc.Publish("golda.node.a.b", hello))
	eventually(t, "the last one is answered", func() bool { return answers.Load() > 0 })
	require.NoError(t, a.Close())
	require.NoError(t, nc.Flush())
	require.LessOrEqual(t, answers.Load(), int64(2), "an answer and a farewell")
}

func TestALongHeartbeatIsRefused(t *testing.T) {
	_, err := nats.NewTransport(embed(t, t.TempDir(), nats.Store{}), "a", nats.TransportConfig{Heartbeat: math.MaxInt64})
	require.ErrorContains(t, err, "and must be from 10ms to 24h")
}
