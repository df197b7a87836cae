package transporttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/transport"
)

// Net is a network of one kind of transport, for one test.
type Net interface {
	// Join returns a further node that reaches all others, with a name of its
	// own choice. The test closes it.
	Join(t *testing.T) transport.Transport
	// Cut breaks the connections between two nodes. Both continue, and may
	// connect again.
	Cut(a, b transport.Transport)
}

// patience is how long a test waits for an event.
const patience = 30 * time.Second

var errRegistered = errors.New("registered")

func init() { //nolint:gochecknoinits // as programs do
	transport.RegisterError("transporttest.errRegistered", errRegistered)
}

// Run runs the tests, each on a network that newNet makes.
func Run(t *testing.T, newNet func(t *testing.T) Net) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, net Net){
		"a message arrives with all its parts":                      arrives,
		"a node sends to itself":                                    toItself,
		"messages of one sender arrive in order, each once":         inOrder,
		"many nodes and goroutines send to each other":              crowd,
		"an answer can be sent from within deliver":                 answers,
		"a value that is too large or cannot be encoded is refused": refused,
		"a node that is closed is lost":                             closedIsLost,
		"a node that never was is lost":                             neverWas,
		"a connection that is cut is lost on both sides":            cut,
		"a watch that is stopped is not called":                     stopped,
		"after a loss messages arrive again":                        again,
		"Close ends everything":                                     closes,
	} {
		t.Run(name, func(t *testing.T) { test(t, newNet(t)) })
	}
}

// inbox collects the messages that are delivered to a node.
type inbox chan arrival

type arrival struct {
	from string
	m    *transport.Message
}

// join returns a node and the inbox of its messages.
func join(t *testing.T, net Net) (transport.Transport, inbox) {
	t.Helper()
	in := make(inbox, 100_000)
	tr := net.Join(t)
	t.Cleanup(func() { assert.NoError(t, tr.Close()) })
	require.NoError(t, tr.Serve(func(from string, m *transport.Message) { in <- arrival{from, m} }))
	return tr, in
}

func (in inbox) next(t *testing.T) arrival {
	t.Helper()
	select {
	case a := <-in:
		return a
	case <-time.After(patience):
		require.FailNow(t, "no message has arrived")
		return arrival{}
	}
}

// text returns the value of a message whose value is a string.
func text(m *transport.Message) string {
	if data, ok := m.Body.(transport.Encoded); ok {
		return strings.Trim(string(data), `"`)
	}
	return m.Body.(string)
}

func arrives(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	require.NotEqual(t, a.Node(), b.Node())
	headers := func() map[string]string { return map[string]string{"X-A": "a", "X-B": ""} } // the transport owns what it is given
	require.NoError(t, a.Send(b.Node(), &transport.Message{
		Kind: 7, Call: 1 << 60, Process: "P", Method: "m", Within: 3 * time.Second, Headers: headers(), Body: "value",
	}))
	got := in.next(t)
	assert.Equal(t, a.Node(), got.from)
	assert.Equal(t, "value", text(got.m))
	got.m.Body = nil
	assert.Equal(t, &transport.Message{Kind: 7, Call: 1 << 60, Process: "P", Method: "m", Within: 3 * time.Second, Headers: headers()}, got.m)

	require.NoError(t, a.Send(b.Node(), &transport.Message{Kind: 1}))
	assert.Equal(t, &transport.Message{Kind: 1}, in.next(t).m)

	require.NoError(t, a.Send(b.Node(), &transport.Message{Err: fmt.Errorf("put: %w: %w", errRegistered, context.Canceled)}))
	got = in.next(t)
	assert.ErrorIs(t, got.m.Err, errRegistered)
	assert.ErrorIs(t, got.m.Err, context.Canceled)
	assert.EqualError(t, got.m.Err, "put: registered: context canceled")

	large := strings.Repeat("x", 1<<20)
	require.NoError(t, a.Send(b.Node(), &transport.Message{Body: large}))
	assert.Equal(t, large, text(in.next(t).m))
}

func toItself(t *testing.T, net Net) {
	a, in := join(t, net)
	require.NoError(t, a.Send(a.Node(), &transport.Message{Body: "value"}))
	got := in.next(t)
	assert.Equal(t, a.Node(), got.from)
	assert.Equal(t, "value", text(got.m))
}

func inOrder(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	const many = 5000
	for i := range uint64(many) {
		require.NoError(t, a.Send(b.Node(), &transport.Message{Call: i, Body: "value"}))
	}
	for i := range uint64(many) {
		require.Equal(t, i, in.next(t).m.Call)
	}
	assert.Empty(t, in)
}

// crowd has every node send to every other at once, so that connections are
// made from both ends at the same time.
func crowd(t *testing.T, net Net) {
	const nodes, senders, each = 4, 3, 100
	var trs []transport.Transport
	var ins []inbox
	for range nodes {
		tr, in := join(t, net)
		trs, ins = append(trs, tr), append(ins, in)
	}
	var wg sync.WaitGroup
	for i, from := range trs {
		for _, to := range trs {
			for s := range senders {
				wg.Go(func() {
					for k := range each {
						call := uint64(s*each + k)
						assert.NoError(t, from.Send(to.Node(), &transport.Message{Kind: uint8(i), Call: call}))
					}
				})
			}
		}
	}
	wg.Wait()
	for _, in := range ins {
		next := map[string]uint64{} // of each sender of each node
		for range nodes * senders * each {
			got := in.next(t)
			sender := fmt.Sprint(got.from, got.m.Call/each)
			require.Equal(t, trs[got.m.Kind].Node(), got.from)
			require.Equal(t, next[sender], got.m.Call%each)
			next[sender]++
		}
		assert.Empty(t, in)
	}
}

func answers(t *testing.T, net Net) {
	a, in := join(t, net)
	b := net.Join(t)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	require.NoError(t, b.Serve(func(from string, m *transport.Message) {
		assert.NoError(t, b.Send(from, &transport.Message{Call: m.Call + 1}))
	}))
	for i := range uint64(100) {
		require.NoError(t, a.Send(b.Node(), &transport.Message{Call: i}))
		require.Equal(t, i+1, in.next(t).m.Call)
	}
}

// refused is about a transport that encodes. One that does not carries any
// value.
func refused(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	require.NoError(t, a.Send(b.Node(), &transport.Message{Body: "value"}))
	if _, encodes := in.next(t).m.Body.(transport.Encoded); !encodes {
		return
	}
	require.ErrorIs(t, a.Send(b.Node(), &transport.Message{Body: func() {}}), transport.ErrEncoding)
	require.ErrorIs(t, a.Send(b.Node(), &transport.Message{Body: panics{}}), transport.ErrEncoding)
	require.ErrorIs(t, a.Send(b.Node(), &transport.Message{Body: strings.Repeat("x", 17<<20)}), transport.ErrTooLarge)
	require.NoError(t, a.Send(b.Node(), &transport.Message{Body: "after"}))
	assert.Equal(t, "after", text(in.next(t).m), "nothing else is affected")
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("boom") }

// losses collects the calls of one watch.
func losses(tr transport.Transport, node string) (lost chan error, stop func()) {
	lost = make(chan error, 10)
	return lost, tr.Watch(node, func(reason error) { lost <- reason })
}

func awaitLoss(t *testing.T, lost chan error) {
	t.Helper()
	select {
	case reason := <-lost:
		assert.ErrorIs(t, reason, transport.ErrUnreachable)
	case <-time.After(patience):
		require.FailNow(t, "the loss was not noticed")
	}
}

func closedIsLost(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	one, _ := losses(a, b.Node())
	two, _ := losses(a, b.Node())
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	in.next(t)
	assert.Empty(t, one)
	require.NoError(t, b.Close())
	awaitLoss(t, one)
	awaitLoss(t, two)
	late, _ := losses(a, b.Node())
	awaitLoss(t, late)
	assert.Empty(t, one, "each is called once")
}

func neverWas(t *testing.T, net Net) {
	a, _ := join(t, net)
	b := net.Join(t)
	name := b.Node()
	require.NoError(t, b.Serve(func(string, *transport.Message) {}))
	require.NoError(t, b.Close())
	lost, _ := losses(a, name)
	awaitLoss(t, lost)
	lost, _ = losses(a, "no name of a node")
	awaitLoss(t, lost)
	if err := a.Send("no name of a node", &transport.Message{}); err != nil {
		assert.ErrorIs(t, err, transport.ErrUnreachable)
	}
}

func cut(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	c, inC := join(t, net)
	ab, _ := losses(a, b.Node())
	ba, _ := losses(b, a.Node())
	ac, _ := losses(a, c.Node())
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	require.NoError(t, a.Send(c.Node(), &transport.Message{}))
	in.next(t)
	inC.next(t)
	net.Cut(a, b)
	awaitLoss(t, ab)
	awaitLoss(t, ba)
	require.NoError(t, a.Send(c.Node(), &transport.Message{}))
	inC.next(t)
	assert.Empty(t, ac, "no other node is affected")
}

func stopped(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	off, stop := losses(a, b.Node())
	on, _ := losses(a, b.Node())
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	in.next(t)
	stop()
	stop()
	require.NoError(t, b.Close())
	awaitLoss(t, on)
	assert.Empty(t, off)
}

func again(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	for i := range uint64(4) {
		lost := sent(t, a, b, in, i)
		net.Cut(a, b)
		awaitLoss(t, lost)
	}
}

// sent sends a message until it arrives, and returns the channel of the next
// loss. The other node may notice a loss later than this one, so a message may
// meet the end of the connection before; but that is another loss.
func sent(t *testing.T, from, to transport.Transport, in inbox, call uint64) (lost chan error) {
	t.Helper()
	deadline := time.After(patience)
	for {
		lost, stop := losses(from, to.Node())
		err := from.Send(to.Node(), &transport.Message{Call: call})
		for err == nil {
			select {
			case got := <-in:
				if got.m.Call == call {
					return lost
				} // otherwise it arrived although its connection was lost
			case err = <-lost:
			case <-deadline:
				require.FailNow(t, "a message has not arrived, and no loss was noticed")
			}
		}
		stop()
	}
}

func closes(t *testing.T, net Net) {
	a, _ := join(t, net)
	b, in := join(t, net)
	require.NoError(t, a.Send(b.Node(), &transport.Message{}))
	in.next(t)
	lost, _ := losses(a, b.Node())
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	awaitLoss(t, lost)
	assert.ErrorIs(t, a.Send(b.Node(), &transport.Message{}), transport.ErrUnreachable)
	lost, _ = losses(a, b.Node())
	awaitLoss(t, lost)
	assert.Empty(t, in)
}
