package transport

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Two nodes introduce themselves with four frames, before any other: the node
// that has connected sends its name, the name of the node that it wants, its
// key and a nonce; the other answers with the same; the first sends its proof,
// and the second sends its own proof, or the reason why it refuses.
//
// A proof is an HMAC-SHA256 with the secret and a signature with the key, both
// over the first two frames and the side that gives the proof. So it is of no
// use on another connection, to another node, or when it is sent back. The key
// is made when the node starts: it distinguishes a program from another that
// claims its name, even without a secret. The called side proves last, so a
// stranger gets no proof against which it could try secrets.

const protocol = "golda/2"

// largestHello is the length of the longest frame of an introduction.
const largestHello = 4 << 10

const nonceSize = 32

// hello is a frame of an introduction.
type hello struct {
	Protocol string `json:"protocol"`
	Node     string `json:"node,omitempty"`
	To       string `json:"to,omitempty"`
	Key      []byte `json:"key,omitempty"`
	Nonce    []byte `json:"nonce,omitempty"`

	MAC       []byte  `json:"mac,omitempty"`
	Signature []byte  `json:"signature,omitempty"`
	Refused   refusal `json:"refused,omitempty"`
}

// refusal is why a node refuses another one. Only these words cross, and no
// text of a stranger is in an error.
type refusal string

const (
	badProtocol refusal = "protocol"
	badName     refusal = "name"
	badSecret   refusal = "secret"
	badKey      refusal = "key"
	taken       refusal = "taken"
	full        refusal = "full"
)

// Error explains the word, for both sides.
func (r refusal) Error() string {
	switch r {
	case badProtocol:
		return "the two nodes have different versions of the protocol"
	case badName:
		return "the name of a node is not what the other one has called, or may not be used"
	case badSecret:
		return "the two nodes do not have the same Config.Secret"
	case badKey:
		return "the signature of a node is wrong"
	case taken:
		return "another program is connected that has the name, and without a Config.Secret it keeps it"
	case full:
		return "too many nodes are connected, see Config.MaxConns"
	default:
		return "a reason that this version does not know"
	}
}

// parseHello decodes a frame of an introduction.
func parseHello(data []byte) (h hello, err error) {
	if err := json.Unmarshal(data, &h); err != nil {
		return hello{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if h.Protocol != protocol && h.Refused == "" {
		return hello{}, badProtocol
	}
	return h, nil
}

// introduction has the hellos of two nodes on one connection.
type introduction struct{ caller, called hello }

// The sides of an introduction.
const (
	callerSide = "caller"
	calledSide = "called"
)

// transcript returns the bytes over which a side gives its proof.
func (i introduction) transcript(side string) (all []byte) {
	for _, part := range [][]byte{
		[]byte(protocol), []byte(side),
		[]byte(i.caller.Node), []byte(i.called.Node), i.caller.Key, i.called.Key, i.caller.Nonce, i.called.Nonce,
	} {
		all = binary.AppendUvarint(all, uint64(len(part)))
		all = append(all, part...)
	}
	return all
}

// prove returns the proof of this node, on its side.
func (s *socket) prove(i introduction, side string) hello {
	of := i.transcript(side)
	h := hello{Protocol: protocol, Signature: ed25519.Sign(s.key, of)}
	if len(s.cfg.Secret) > 0 {
		h.MAC = s.mac(of)
	}
	return h
}

func (s *socket) mac(of []byte) []byte {
	m := hmac.New(sha256.New, s.cfg.Secret)
	m.Write(of)
	return m.Sum(nil)
}

// verify returns an error if the proof of the other node, on its side, is
// wrong.
func (s *socket) verify(proof hello, i introduction, side string) error {
	of, key := i.transcript(side), i.caller.Key
	if side == calledSide {
		key = i.called.Key
	}
	var mac []byte
	if len(s.cfg.Secret) > 0 {
		mac = s.mac(of)
	}
	switch {
	case !hmac.Equal(mac, proof.MAC): // a node that has a secret does not talk to one that has none
		return badSecret
	case !ed25519.Verify(key, of, proof.Signature):
		return badKey
	}
	return nil
}

// myself returns how this node introduces itself.
func (s *socket) myself(to string) hello {
	h := hello{Protocol: protocol, Node: s.node, To: to, Key: s.publicKey(), Nonce: make([]byte, nonceSize)}
	_, _ = rand.Read(h.Nonce) // it does not fail
	return h
}

func (s *socket) publicKey() []byte { return s.key.Public().(ed25519.PublicKey) }

// checkHello returns an error if the introduction of another node is wrong.
func (s *socket) checkHello(h hello) error {
	if h.Refused != "" {
		return refusedError{h.Refused}
	}
	if len(h.Key) != ed25519.PublicKeySize || len(h.Nonce) != nonceSize {
		return errMalformed
	}
	_, _, err := checkNode(s.kind, h.Node)
	if err != nil || h.Node == s.node || bytes.Equal(h.Key, s.publicKey()) {
		return badName
	}
	return nil
}

// refusedError is that the other node refuses this one.
type refusedError struct{ reason refusal }

func (e refusedError) Error() string { return "it refuses: " + e.reason.Error() }

// call introduces this node to one that it has connected to, and returns the
// key of that.
func (s *socket) call(conn net.Conn, r *receiver, node string) (key []byte, err error) {
	defer r.hurry()()
	i := introduction{caller: s.myself(node)}
	if err = s.writeHello(conn, i.caller); err != nil {
		return nil, err
	}
	if i.called, err = readHello(r); err == nil {
		err = s.checkHello(i.called)
	}
	if err == nil && i.called.Node != node {
		err = badName
	}
	if err == nil {
		err = s.writeHello(conn, s.prove(i, callerSide))
	}
	if err != nil {
		return nil, err
	}
	proof, err := readHello(r)
	switch {
	case err != nil:
		return nil, err
	case proof.Refused != "":
		return nil, refusedError{proof.Refused}
	}
	return i.called.Key, s.verify(proof, i, calledSide)
}

// listenTo waits for a connected node to introduce itself, and returns the
// hellos of both when the node has proved its own.
func (s *socket) listenTo(conn net.Conn, r *receiver) (i introduction, err error) {
	defer r.hurry()()
	if i.caller, err = readHello(r); err != nil {
		return i, err
	}
	if err = s.checkHello(i.caller); err == nil && i.caller.To != s.node {
		err = badName
	}
	if err != nil {
		return i, err
	}
	i.called = s.myself(i.caller.Node)
	if err = s.writeHello(conn, i.called); err != nil {
		return i, err
	}
	proof, err := readHello(r)
	if err == nil {
		err = s.verify(proof, i, callerSide)
	}
	return i, err
}

func readHello(r *receiver) (hello, error) {
	data, err := r.next(largestHello)
	if err != nil {
		return hello{}, err
	}
	return parseHello(data)
}

func (s *socket) writeHello(conn net.Conn, h hello) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return s.writeFrames(conn, bufio.NewWriter(conn), [][]byte{data})
}

// refuse closes a connection whose node has not introduced itself well, or
// cannot be served. It says why, if there is a word for it.
func (s *socket) refuse(conn net.Conn, claimed string, reason error) {
	if word, ok := errors.AsType[refusal](reason); ok {
		_ = s.writeHello(conn, hello{Protocol: protocol, Refused: word})
	}
	_ = conn.Close()
	s.logRefused(conn, claimed, reason)
}

// refusedPause is the least time between two lines of the log about connections
// that were refused.
const refusedPause = 10 * time.Second

// logRefused logs that a connection was refused, unless another one was logged
// a short while ago.
func (s *socket) logRefused(conn net.Conn, claimed string, reason error) {
	if s.ctx.Err() != nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	s.refused++
	count, log := s.refused, now.Sub(s.logged) >= refusedPause
	if log {
		s.logged, s.refused = now, 0
	}
	s.mu.Unlock()
	if log {
		s.cfg.Logger.Warn("transport: connections were refused; the last one", slog.String("node", s.node), slog.Int("refused", count),
			slog.String("from", conn.RemoteAddr().String()), slog.String("called itself", claimed), slog.Any("reason", reason))
	}
}
