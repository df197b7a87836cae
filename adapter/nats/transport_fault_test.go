package nats_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/stage"
)

// joined returns the transport of a node, which the end of the test closes, and what is delivered to it.
func joined(t testing.TB, conn *nats.Conn, node string, cfg nats.TransportConfig) (transport.Transport, chan *transport.Message) {
	t.Helper()
	in := make(chan *transport.Message, 1<<16)
	tr, err := nats.NewTransport(conn, node, cfg)
	require.NoError(t, err)
	require.NoError(t, tr.Serve(func(_ string, m *transport.Message) { in <- m }))
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr, in
}

// watch returns a channel that receives the notice of a loss.
func watch(tr transport.Transport, node string) chan error {
	lost := make(chan error, 1)
	tr.Watch(node, func(reason error) { lost <- reason })
	return lost
}

// slowly is for tests whose nodes are lost for another reason than that they are silent.
var slowly = nats.TransportConfig{Heartbeat: time.Hour}

func TestANodeThatIsNotThereIsLostAtOnce(t *testing.T) {
	a, _ := joined(t, embed(t, t.TempDir(), nats.Store{}), "a", slowly)
	for _, node := range []string{"b", "no name", "", "b.*", ">"} {
		assert.ErrorIs(t, <-watch(a, node), transport.ErrUnreachable)
	}
	assert.ErrorContains(t, <-watch(a, "b"), "node b: there is no such node")
}

func TestTheNameOfANodeBelongsToOneProgram(t *testing.T) {
	conn := connect(t, serve(t, &server.Options{}).ClientURL())
	a, in := joined(t, conn, "a", slowly)
	second, err := nats.NewTransport(conn, "a", slowly)
	require.NoError(t, err)
	err = second.Serve(func(string, *transport.Message) {})
	require.ErrorIs(t, err, nats.ErrTaken)
	require.ErrorContains(t, err, `node "a": the name is taken: process `)
	require.NoError(t, second.Close())
	b, _ := joined(t, conn, "b", slowly)
	require.NoError(t, b.Send("a", &transport.Message{Kind: 1}))
	<-in
	require.NoError(t, a.Close())
	again, in := joined(t, conn, "a", slowly)
	require.NoError(t, b.Send(again.Node(), &transport.Message{Kind: 2}))
	assert.EqualValues(t, 2, (<-in).Kind)
}

// A program that has stood still for long has lost its name to another one.
func TestOfTwoProgramsWithOneNameTheNewerOneKeepsIt(t *testing.T) {
	conn := connect(t, serve(t, &server.Options{}).ClientURL())
	cfg := nats.TransportConfig{Heartbeat: 10 * time.Millisecond}
	old, err := nats.NewTransport(conn, "a", cfg)
	require.NoError(t, err)
	still, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, old.Serve(func(string, *transport.Message) {
		select {
		case still <- struct{}{}:
			<-gate
		case <-gate:
		}
	}))
	defer func() { require.NoError(t, old.Close()) }()
	lost, other := watch(old, "a"), watch(old, "b")
	b, _ := joined(t, conn, "b", cfg)
	eventually(t, "it handles nothing that comes", func() bool {
		_ = b.Send("a", &transport.Message{})
		select {
		case <-still:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	fresh, in := joined(t, conn, "a", cfg)
	close(gate)
	assert.ErrorContains(t, <-lost, "another program has the name of node a")
	assert.ErrorIs(t, <-other, transport.ErrUnreachable)
	assert.ErrorIs(t, old.Send("b", &transport.Message{}), transport.ErrUnreachable)
	assert.ErrorIs(t, old.Send("a", &transport.Message{}), transport.ErrUnreachable)
	eventually(t, "the newer one is reached", func() bool { return b.Send("a", &transport.Message{}) == nil && len(in) > 0 })
	require.NoError(t, fresh.Send("b", &transport.Message{}))
}

func TestAMessageThatTheServerDoesNotTakeIsRefused(t *testing.T) {
	conn := connect(t, serve(t, &server.Options{MaxPayload: 1000}).ClientURL())
	a, _ := joined(t, conn, "a", slowly)
	b, in := joined(t, conn, "b", slowly)
	for size := range 1100 {
		err := a.Send(b.Node(), &transport.Message{Body: strings.Repeat("x", size)})
		if err == nil {
			assert.Len(t, (<-in).Body, size+2)
			continue
		}
		require.Greater(t, size, 900)
		require.ErrorIs(t, err, transport.ErrTooLarge)
		require.ErrorContains(t, err, "bytes, and the server takes 969")
	}
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	<-in
}

// The server is away, and comes back.
func TestAllNodesAreLostWithTheServer(t *testing.T) {
	s := serve(t, &server.Options{})
	port := s.Addr().(*net.TCPAddr).Port
	a, _ := joined(t, connect(t, s.ClientURL()), "a", slowly)
	b, in := joined(t, connect(t, s.ClientURL()), "b", slowly)
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	<-in
	lost := watch(a, "b")
	halt(s)
	reason := <-lost
	require.ErrorIs(t, reason, transport.ErrUnreachable)
	require.ErrorIs(t, reason, nats.ErrAway)
	require.ErrorIs(t, a.Send(b.Node(), &transport.Message{}), nats.ErrAway)
	require.ErrorIs(t, <-watch(a, "b"), nats.ErrAway)
	serve(t, &server.Options{Port: port})
	eventually(t, "the server is back", func() bool { return a.Send(b.Node(), &transport.Message{Kind: 2}) == nil && len(in) > 0 })
	assert.EqualValues(t, 2, (<-in).Kind)
}

// What does not fit in the queue of a receiver is dropped by the library of the server. It must not be missing silently.
func TestAReceiverThatIsTooSlowLosesTheSender(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", slowly)
	b, err := nats.NewTransport(conn, "b", nats.TransportConfig{Heartbeat: time.Hour, MaxQueue: 10_000})
	require.NoError(t, err)
	gate := make(chan struct{})
	var last atomic.Uint64
	var noticed atomic.Bool
	require.NoError(t, b.Serve(func(_ string, m *transport.Message) {
		<-gate
		if !noticed.Load() {
			assert.Equal(t, last.Load()+1, m.Call, "nothing is missing before the notice")
			last.Store(m.Call)
		}
	}))
	defer func() { require.NoError(t, b.Close()) }()
	lost := watch(a, "b")
	b.Watch("a", func(error) { noticed.Store(true) })
	n := uint64(0)
	send := func() {
		n++
		_ = a.Send("b", &transport.Message{Call: n, Body: strings.Repeat("x", 1000)})
		time.Sleep(time.Millisecond) // each is a message of its own
	}
	for range 50 {
		send()
	}
	close(gate)
	eventually(t, "the loss is noticed on both sides", func() bool {
		send()
		return noticed.Load() && len(lost) > 0
	})
	require.ErrorIs(t, <-lost, transport.ErrUnreachable)
	assert.Less(t, last.Load(), uint64(50))
}

func TestAQueueThatIsFullLosesTheNode(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", nats.TransportConfig{MaxQueue: 10_000})
	_, err := conn.JetStream().Conn().Subscribe("golda.node.b.*", func(*natsgo.Msg) {}) // and never answers
	require.NoError(t, err)
	lost := watch(a, "b")
	for err == nil {
		err = a.Send("b", &transport.Message{Body: strings.Repeat("x", 1000)})
	}
	assert.ErrorIs(t, err, transport.ErrUnreachable)
	assert.ErrorContains(t, err, "bytes wait to be sent")
	assert.Equal(t, err, <-lost)
}

func TestANodeThatNeverAnswersIsLost(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, _ := joined(t, conn, "a", nats.TransportConfig{Heartbeat: 10 * time.Millisecond})
	_, err := conn.JetStream().Conn().Subscribe("golda.node.b.*", func(*natsgo.Msg) {})
	require.NoError(t, err)
	assert.ErrorContains(t, <-watch(a, "b"), "it does not answer since")
}

// What is no message of a node, or of another version, is of no consequence.
func TestMessagesThatAreNoneAreIgnored(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	a, in := joined(t, conn, "a", slowly)
	b, _ := joined(t, conn, "b", slowly)
	for _, data := range []string{
		"", "x", strings.Repeat("\x00", 26), "\x01" + strings.Repeat("\xff", 100), "\x02\x04" + strings.Repeat("\x00", 24),
		"\x01\x02" + strings.Repeat("\x00", 24) + "a reason", "\x01\x04" + strings.Repeat("\x01", 24) + "\xff", "\x01\x05" + strings.Repeat("\x00", 24),
	} {
		for _, from := range []string{"a", "b", "c", "$"} {
			require.NoError(t, conn.JetStream().Conn().Publish("golda.node.a."+from, []byte(data)))
		}
	}
	eventually(t, "they have a session", func() bool {
		_ = b.Send(a.Node(), &transport.Message{Kind: 7})
		return len(in) > 0
	})
	assert.EqualValues(t, 7, (<-in).Kind)
}

func TestATransportConfigIsChecked(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	for name, c := range map[string]struct {
		node string
		cfg  nats.TransportConfig
		want string
	}{
		"no name":               {"", nats.TransportConfig{}, "must be of 1 to 64 letters"},
		"a name with a dot":     {"a.b", nats.TransportConfig{}, `node "a.b": the name must be`},
		"a negative queue":      {"a", nats.TransportConfig{MaxQueue: -1}, "MaxQueue is -1"},
		"a heartbeat too quick": {"a", nats.TransportConfig{Heartbeat: 1}, "Heartbeat is 1ns, and must be from 10ms to 24h"},
		"a negative heartbeat":  {"a", nats.TransportConfig{Heartbeat: -1}, "Heartbeat is -1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nats.NewTransport(conn, c.node, c.cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := nats.NewTransport(nil, "a", nats.TransportConfig{})
	require.ErrorContains(t, err, "without a Conn")
	tr, err := nats.NewTransport(conn, "a", nats.TransportConfig{})
	require.NoError(t, err)
	require.Error(t, tr.Serve(nil))
	require.NoError(t, tr.Close())
	require.ErrorIs(t, tr.Serve(func(string, *transport.Message) {}), transport.ErrUnreachable, "it is closed")
}

func TestATransportOutlivesItsConn(t *testing.T) {
	conn, err := nats.Embed(t.TempDir(), nats.Store{})
	require.NoError(t, err)
	a, _ := joined(t, conn, "a", slowly)
	b, in := joined(t, conn, "b", slowly)
	require.NoError(t, a.Send("b", &transport.Message{}))
	<-in
	lost := watch(a, "b")
	shut(t, conn)
	assert.ErrorIs(t, <-lost, transport.ErrUnreachable)
	assert.ErrorIs(t, a.Send("b", &transport.Message{}), transport.ErrUnreachable)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	late, err := nats.NewTransport(conn, "c", slowly)
	require.NoError(t, err)
	err = late.Serve(func(string, *transport.Message) {})
	require.ErrorIs(t, err, nats.ErrAway)
	_, overloaded := stage.Overloaded(err)
	require.False(t, overloaded && errors.Is(err, nats.ErrTaken))
	require.NoError(t, late.Close())
}
