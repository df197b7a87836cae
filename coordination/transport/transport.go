package transport

import (
	"errors"
	"time"
)

var (
	// ErrUnreachable is the error of a message whose receiver does not exist,
	// has ended, or cannot be reached any more.
	ErrUnreachable = errors.New("transport: unreachable")

	// ErrTooLarge is the error of a message that is longer than the transport
	// carries.
	ErrTooLarge = errors.New("transport: message too large")

	// ErrEncoding is the error of a message whose value cannot be encoded.
	ErrEncoding = errors.New("transport: cannot be encoded")
)

// Transport carries messages between nodes. A node is a place with a name where
// processes live: package rpc makes one of a transport. All methods may be
// called by any goroutine, and from the functions that the transport calls.
type Transport interface {
	// Node returns the name of this node. Other nodes reach it by that name.
	Node() string

	// Serve starts the delivery of messages to this node, and is called once,
	// before any other method but Node. The transport calls deliver with the
	// name of the node that sent the message, perhaps on several goroutines at
	// once. deliver does not block.
	Serve(deliver func(from string, m *Message)) error

	// Send sends a message to a node, and does not wait until it has arrived.
	// Messages that are sent to a node one after the other arrive in that
	// order, each at most once. The transport owns m from then on.
	//
	// An error says that m was not sent: it cannot be encoded ([ErrEncoding]),
	// is too long ([ErrTooLarge]), or the transport is closed or knows that the
	// node does not exist ([ErrUnreachable]). A message that is lost later is
	// the matter of Watch.
	Send(node string, m *Message) error

	// Watch calls lost, once and on any goroutine, when messages from or to the
	// node may have been lost, or will be: it has ended, the connection has
	// broken, or the node does not answer. No message that was sent before is
	// delivered after that. The notice may be wrong about the node: it may
	// live, and be reachable again. If the node is not reachable now, lost is
	// called soon. lost may be called during Watch, and is not called after
	// stop has returned, except by a call under way.
	Watch(node string, lost func(reason error)) (stop func())

	// Close ends the delivery and the transport's goroutines, and has other
	// nodes notified of the loss of this one. It may be called twice. The
	// functions given to Watch are called.
	Close() error
}

// Message is the one type of messages that a transport carries. A transport
// delivers messages of all kinds in the same way: only package rpc interprets
// the fields.
type Message struct {
	Kind    uint8         // the kind of the message
	Call    uint64        // the number of the call that it belongs to
	Process string        // the receiver
	Method  string        // the function that is called
	Within  time.Duration // how much time the caller has; zero is no limit

	// Headers has values of the caller's context, as texts.
	Headers map[string]string

	// Body is the value of a request or a reply. A transport that encodes
	// messages delivers [Encoded] instead.
	Body any
	// Err is the error of a reply. A transport that encodes messages delivers
	// an [*Error] instead.
	Err error
}

// Encoded is a value that encoding/json has encoded: a received value, or a
// value that the caller encoded and sent as an Encoded, which is sent
// unchanged. A function of package rpc that takes or returns an Encoded gets
// the encoded value.
type Encoded []byte
