package transport_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/transport"
)

// listen returns a transport and what is delivered to it.
func listen(t *testing.T, cfg transport.Config) (transport.Transport, chan *transport.Message) {
	t.Helper()
	tr, err := transport.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	in := make(chan *transport.Message, 100)
	require.NoError(t, tr.Serve(func(_ string, m *transport.Message) { in <- m }))
	return tr, in
}

func dial(t *testing.T, tr transport.Transport) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(tr.Node(), "tcp:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func frame(data string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + data
}

const goodHello = `{"protocol":"golda/1","node":"tcp:127.0.0.1:1","birth":7}`

func TestASocketSurvivesWhatIsNoNode(t *testing.T) {
	b, in := listen(t, transport.Config{MaxMessage: 1000})
	a, _ := listen(t, transport.Config{})
	for name, bytes := range map[string]string{
		"a web browser":           "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a hello that is no JSON": frame("hello"),
		"another protocol":        frame(`{"protocol":"golda/9","node":"x","birth":7}`),
		"a hello without a name":  frame(`{"protocol":"golda/1","birth":7}`),
		"a message that is none":  frame(goodHello) + frame("x"),
		"a message that is too large": frame(goodHello) +
			string(binary.BigEndian.AppendUint32(nil, 1001)) + "the rest does not matter",
		"a part that does not exist": frame(goodHello) + frame("\x01\x09\x00\x00\x00\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, b)
			_, err := io.WriteString(conn, bytes)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
			_, err = io.ReadAll(conn)
			assert.False(t, isTimeout(err), "the connection is closed")
		})
	}
	require.NoError(t, a.Send(b.Node(), &transport.Message{Kind: 3}))
	assert.Equal(t, uint8(3), (<-in).Kind)
	assert.Empty(t, in)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func TestANodeThatIsSilentIsLost(t *testing.T) {
	a, _ := listen(t, transport.Config{Heartbeat: 20 * time.Millisecond})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	lost := make(chan error, 1)
	a.Watch("tcp:"+l.Addr().String(), func(reason error) { lost <- reason })
	conn, err := l.Accept() // and says nothing
	require.NoError(t, err)
	defer conn.Close()
	assert.ErrorIs(t, <-lost, transport.ErrUnreachable)
}

func TestANodeThatHasNothingToSendSendsHeartbeats(t *testing.T) {
	b, _ := listen(t, transport.Config{Heartbeat: time.Second})
	conn := dial(t, b)
	_, err := io.WriteString(conn, frame(goodHello))
	require.NoError(t, err)
	length := make([]byte, 4)
	_, err = io.ReadFull(conn, length)
	require.NoError(t, err)
	_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length))) // its hello
	require.NoError(t, err)
	for range 2 {
		_, err = io.ReadFull(conn, length)
		require.NoError(t, err)
		assert.Zero(t, binary.BigEndian.Uint32(length))
	}
}

func TestANodeWithTheNameOfAnotherProgramIsNew(t *testing.T) {
	b, in := listen(t, transport.Config{})
	lost := make(chan error, 1)
	for i, birth := range []string{"7", "8"} {
		conn := dial(t, b)
		_, err := io.WriteString(conn, frame(`{"protocol":"golda/1","node":"tcp:127.0.0.1:1","birth":`+birth+`}`)+frame("\x01\x00\x00\x00\x00\x00"))
		require.NoError(t, err)
		<-in
		if i == 0 {
			b.Watch("tcp:127.0.0.1:1", func(reason error) { lost <- reason })
		}
	}
	assert.ErrorIs(t, <-lost, transport.ErrUnreachable)
}

func TestAConfigIsChecked(t *testing.T) {
	for _, cfg := range []transport.Config{{MaxMessage: -1}, {MaxQueue: -1}, {Heartbeat: -1}} {
		_, err := transport.Listen("tcp", "127.0.0.1:0", cfg)
		require.Error(t, err)
	}
	_, err := transport.Listen("tcp", ":0", transport.Config{})
	require.ErrorContains(t, err, "Advertise")
	_, err = transport.Listen("carrier pigeon", "", transport.Config{})
	require.Error(t, err)
	tr, err := transport.Listen("tcp", ":0", transport.Config{Advertise: "example.org:7"})
	require.NoError(t, err)
	assert.Equal(t, "tcp:example.org:7", tr.Node())
	require.NoError(t, tr.Close())
	require.ErrorIs(t, tr.Serve(nil), transport.ErrUnreachable)
}

func TestANodeThatDoesNotReadIsLost(t *testing.T) {
	a, _ := listen(t, transport.Config{MaxQueue: 1 << 20})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	lost := make(chan error, 1)
	a.Watch("tcp:"+l.Addr().String(), func(reason error) { lost <- reason })
	value := strings.Repeat("x", 1<<18)
	for err == nil {
		err = a.Send("tcp:"+l.Addr().String(), &transport.Message{Body: value})
	}
	assert.ErrorIs(t, err, transport.ErrUnreachable)
	assert.ErrorIs(t, <-lost, transport.ErrUnreachable)
}

func TestAMessageIsDecodedAsItWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := transport.Message{
			Kind: rapid.Uint8().Draw(t, "kind"), Call: rapid.Uint64().Draw(t, "call"),
			Process: rapid.String().Draw(t, "process"), Method: rapid.String().Draw(t, "method"),
			Within: time.Duration(rapid.Int64Min(0).Draw(t, "within")), Body: transport.Encoded(`{"a":1}`),
		}
		data, err := transport.Encode(&m)
		require.NoError(t, err)
		got, err := transport.Decode(data)
		require.NoError(t, err)
		require.Equal(t, &m, got)
		if cut := rapid.IntRange(0, len(data)-len(`{"a":1}`)-1).Draw(t, "cut"); cut >= 0 {
			_, err = transport.Decode(data[:cut])
			require.Error(t, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	data, err := transport.Encode(&transport.Message{Kind: 1, Call: 2, Process: "P", Method: "m", Within: 3, Err: transport.ErrTooLarge})
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte{1, 1, 0xff, 0xff})
	f.Fuzz(func(_ *testing.T, data []byte) {
		if m, err := transport.Decode(data); err == nil && m.Err != nil {
			_ = m.Err.Error()
		}
	})
}
