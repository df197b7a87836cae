package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
)

// exchange is the node by which a carrier calls the processes of others, and is called by them. It is made when the first call is made,
// or the first stage that may be called is started, and closed with the connection.
type exchange struct {
	conn *Conn
	log  *slog.Logger
	cfg  TransportConfig

	mu        sync.Mutex // guards the rest
	node      *rpc.Node
	via       *nodes
	answering int           // answerers that have not ended
	closing   chan struct{} // closed when there are none any more; nil before close
}

// open returns the node. Until there is one, each call tries to make it.
func (x *exchange) open() (*rpc.Node, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closing != nil:
		return nil, fmt.Errorf("%w: %w", transport.ErrUnreachable, errClosed)
	case x.node != nil:
		return x.node, nil
	case !x.conn.nc.IsConnected():
		return nil, errAway
	}
	via, err := NewTransport(x.conn, "call-"+rand.Text(), x.cfg)
	if err != nil {
		return nil, err
	}
	node, err := rpc.NewNode(rpc.Config{Transport: via})
	if err != nil {
		return nil, errors.Join(err, via.Close())
	}
	if err := x.conn.ownExchange(x.close); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	x.node, x.via = node, via.(*nodes)
	return node, nil
}

// begin counts an answerer. It reports false if the exchange is closed.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing != nil {
		return false
	}
	x.answering++
	return true
}

// end counts that an answerer has ended: all its answers have been handed to the transport.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answering--
	if x.answering == 0 && x.closing != nil {
		close(x.closing)
	}
}

// close waits until what was called here is answered, or ctx ends, and closes the node.
func (x *exchange) close(ctx context.Context) error {
	x.mu.Lock()
	x.closing = make(chan struct{})
	if x.answering == 0 {
		close(x.closing)
	}
	x.mu.Unlock()
	select {
	case <-x.closing:
		x.via.flush(ctx)
	case <-ctx.Done():
	}
	return x.node.Close()
}
