// Package transport carries messages between nodes, the programs whose
// processes call one another: see package coordination/rpc. Most programs use
// that package, and this one only to connect nodes.
//
// A [Hub] connects nodes of one program; messages are delivered without
// encoding. To connect programs there are transports that encode messages:
// [Listen], whose nodes share a secret, and the transport of package
// adapter/nats. A transport is small, and package transporttest has the tests
// that all transports pass.
//
// # Order and loss
//
// The messages of one goroutine to a node arrive in order and at most once. A
// message that is lost is not sent again: a transport notifies the watchers of
// the node instead, and messages sent before the loss do not arrive after it.
// The notice may be wrong about the node, so nothing that must be exclusive may
// depend on it alone.
//
// # Values and errors
//
// A transport that encodes messages uses encoding/json for values, so a sent
// struct needs exported fields. An error keeps its text. It also keeps its
// identity, and the errors that it wraps, if both nodes have registered them:
// [RegisterError], [RegisterErrorType].
//
// # Concurrency
//
// Everything here may be used by any goroutine.
package transport
