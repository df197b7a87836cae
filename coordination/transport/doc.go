// Package transport carries messages between nodes, the programs whose processes call one another: see package
// coordination/rpc. Most programs use that package, and this one only to connect nodes.
//
// A [Hub] connects nodes of one program; messages are handed over as they are. To connect programs there are transports that encode
// messages: [Listen], whose nodes share a secret, and that of package adapter/nats. A transport is a small thing, and package transporttest has the tests that all of them pass.
//
// # Order and loss
//
// What one goroutine sends to a node arrives in order and at most once. A message that is lost is not sent again: a transport
// notifies those that watch the node instead, and what came before the loss does not arrive after it. The notice may be wrong
// about the node, so nothing that must be exclusive may depend on it alone.
//
// # Values and errors
//
// A transport that encodes messages uses encoding/json for values, so what is sent needs exported fields. An error keeps its text,
// and what it is or wraps if both nodes have registered that: [RegisterError], [RegisterErrorType].
//
// # Concurrency
//
// Everything here may be used by any goroutine.
package transport
