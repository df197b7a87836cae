package rpc

import (
	"fmt"
	"strings"

	"github.com/golda-dev/golda/coordination/transport"
)

// ErrUnreachable is the error of a call to a process that does not exist or has
// ended, or whose node cannot be reached. If the connection was lost during the
// call, the function may have run.
var ErrUnreachable = transport.ErrUnreachable

// Address is the address of a process: the name of its node, and its name
// there. It stays the same when the process is restarted. It is a value that
// can be sent to other processes and passed on by them: as text it is
// "node#process". Addresses of one node can be compared with ==.
//
// The zero Address leads nowhere. So does one that did not come through package
// rpc, such as one that was read from a file: [Node.Remote] makes one that
// does.
type Address struct {
	node, process string
	at            *Node // through which calls leave this program
}

// Node returns the name of the process's node.
func (a Address) Node() string { return a.node }

// Process returns the name of the process on its node. It is empty for the
// address of a node itself.
func (a Address) Process() string { return a.process }

// Via returns the address of the node of this program through which calls to
// the address leave.
func (a Address) Via() Address {
	if a.at == nil {
		return Address{}
	}
	return a.at.Address("")
}

// String returns the address as text.
func (a Address) String() string { return a.node + "#" + a.process }

// Name returns the address as text: so a synchronizer knows the process. See
// package synchronizer.
func (a Address) Name() string { return a.String() }

// MarshalText returns the address as text.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an address. The address leads nowhere until it is bound
// to a node of this program: package rpc binds all that it receives, and
// [Node.Remote] binds others.
func (a *Address) UnmarshalText(text []byte) error {
	node, process, ok := strings.Cut(string(text), "#")
	if !ok {
		return fmt.Errorf("rpc: not an address: %q", text)
	}
	*a = Address{node: node, process: process}
	return nil
}

// isHere reports whether the process is, or would be, on the node through which
// the address leads.
func (a Address) isHere() bool { return a.at != nil && a.node == a.at.name }

func (a Address) errNowhere() error {
	return fmt.Errorf("%w: the address %q was not made by a node of this program: see Node.Remote", ErrUnreachable, a)
}
