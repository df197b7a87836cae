package transport_test

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/transport"
)

// secret is what the nodes of these tests share.
var secret = []byte("0123456789abcdef")

// listen returns a transport and what is delivered to it. It has the secret, unless it is insecure.
func listen(t testing.TB, cfg transport.Config) (transport.Transport, chan *transport.Message) {
	t.Helper()
	if !cfg.Insecure {
		cfg.Secret = secret
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	tr, err := transport.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	in := make(chan *transport.Message, 100)
	require.NoError(t, tr.Serve(func(_ string, m *transport.Message) { in <- m }))
	return tr, in
}

func dial(t testing.TB, tr transport.Transport) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(tr.Node(), "tcp:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func frame(data string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + data
}

func anyPeer(string) bool { return true }

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func TestANodeThatIsSilentIsLost(t *testing.T) {
	a, _ := listen(t, transport.Config{Heartbeat: 20 * time.Millisecond, Peers: anyPeer})
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

func TestANodeThatDoesNotReadIsLost(t *testing.T) {
	a, _ := listen(t, transport.Config{MaxQueue: 1 << 20, Insecure: true, Peers: anyPeer})
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
