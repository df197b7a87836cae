package transport_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/transport"
)

// stranger is a program that speaks the protocol on a bare connection, and may say what no node says. Its code shares nothing with
// that of the nodes.
type stranger struct {
	t      testing.TB
	conn   net.Conn
	key    ed25519.PrivateKey
	secret []byte
	first  introduction // what it says of itself
	other  introduction // what the node has said
}

type introduction struct {
	Protocol  string `json:"protocol"`
	Node      string `json:"node,omitempty"`
	To        string `json:"to,omitempty"`
	Key       []byte `json:"key,omitempty"`
	Nonce     []byte `json:"nonce,omitempty"`
	MAC       []byte `json:"mac,omitempty"`
	Signature []byte `json:"signature,omitempty"`
	Refused   string `json:"refused,omitempty"`
}

// aName is the name of a node to which no program listens.
const aName = "tcp:127.0.0.1:1"

// approach connects to a node, and says nothing yet.
func approach(t testing.TB, tr transport.Transport, name string, secret []byte) *stranger {
	t.Helper()
	s := newStranger(t, dial(t, tr), secret)
	s.first = introduction{Protocol: "golda/2", Node: name, To: tr.Node(), Key: s.public(), Nonce: nonce()}
	return s
}

func newStranger(t testing.TB, conn net.Conn, secret []byte) *stranger {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return &stranger{t: t, conn: conn, key: key, secret: secret}
}

func (s *stranger) public() []byte { return s.key.Public().(ed25519.PublicKey) }

func nonce() []byte {
	n := make([]byte, 32)
	_, _ = rand.Read(n)
	return n
}

// say sends an introduction, or a part of one.
func (s *stranger) say(i introduction) {
	s.t.Helper()
	data, err := json.Marshal(i)
	require.NoError(s.t, err)
	s.write(frame(string(data)))
}

func (s *stranger) write(data string) {
	s.t.Helper()
	_, err := io.WriteString(s.conn, data)
	require.NoError(s.t, err)
}

// read reads a frame.
func (s *stranger) read() ([]byte, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(s.conn, length); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint32(length))
	_, err := io.ReadFull(s.conn, data)
	return data, err
}

func (s *stranger) hear() (i introduction) {
	s.t.Helper()
	data, err := s.read()
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(data, &i), "%q", data)
	return i
}

// proof is what the protocol wants of a side.
func (s *stranger) proof(side string, caller, called introduction) introduction {
	var of []byte
	for _, part := range []string{
		"golda/2", side, caller.Node, called.Node, string(caller.Key), string(called.Key), string(caller.Nonce), string(called.Nonce),
	} {
		of = append(binary.AppendUvarint(of, uint64(len(part))), part...)
	}
	i := introduction{Protocol: "golda/2", Signature: ed25519.Sign(s.key, of)}
	if s.secret != nil {
		m := hmac.New(sha256.New, s.secret)
		m.Write(of)
		i.MAC = m.Sum(nil)
	}
	return i
}

// introduce does all that a node does, and returns the last word of the other one.
func (s *stranger) introduce() introduction {
	s.t.Helper()
	s.say(s.first)
	if s.other = s.hear(); s.other.Refused != "" {
		return s.other
	}
	s.say(s.proof("caller", s.first, s.other))
	return s.hear()
}

// enter introduces the stranger, which is taken for a node.
func (s *stranger) enter() *stranger {
	s.t.Helper()
	last := s.introduce()
	require.Empty(s.t, last.Refused)
	mac := s.proof("called", s.first, s.other).MAC
	require.True(s.t, bytes.Equal(mac, last.MAC), "the node proves that it has the secret, too")
	return s
}

// isClosed reports whether the node closes the connection, without anything more than an introduction and heartbeats.
func (s *stranger) isClosed() bool {
	for {
		data, err := s.read()
		if err != nil {
			return !isTimeout(err)
		}
		if len(data) > 0 {
			require.True(s.t, json.Valid(data), "it has sent a message: %q", data)
		}
	}
}

// aMessage is a message without any parts.
const aMessage = "\x01\x00\x00\x00\x00\x00"
