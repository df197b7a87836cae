package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
)

// callHeartbeat is how often a process shows to those that it calls, and that call it, that it lives. It is a variable for tests.
var callHeartbeat = defaultHeartbeat

// exchange is the node by which a carrier calls the processes of others, and is called by them. It is made when the first call is made, or
// the first caller asks for a stage, and closed with the connection.
type exchange struct {
	conn *Conn
	log  *slog.Logger
	cfg  TransportConfig

	mu        sync.Mutex // guards the rest
	node      *rpc.Node
	via       *nodes
	answerers map[string]*answerer // those that take calls, by what callers call them
	answering int                  // those that have not ended
	closing   chan struct{}        // closed when there are none any more; nil before close
}

// By which process and function of its node an exchange is called.
const (
	callProcess = "calls"
	callMethod  = "call"
)

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
	_, err = node.Spawn(context.Background(), callProcess, func(p *rpc.Process) error {
		rpc.Func(p, callMethod, x.serve)
		return nil
	})
	if err == nil {
		err = x.conn.ownExchange(x.close)
	}
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	x.node, x.via = node, via.(*nodes)
	return node, nil
}

// add has an answerer take calls, remove ends that.
func (x *exchange) add(a *answerer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answerers == nil {
		x.answerers = map[string]*answerer{}
	}
	x.answerers[a.name] = a
}

func (x *exchange) remove(a *answerer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.answerers, a.name)
}

// serve handles one call. The answerer may have gone since the caller has heard of it.
func (x *exchange) serve(c coroutine.Context, q called) (reply, error) {
	x.mu.Lock()
	a := x.answerers[q.To]
	x.mu.Unlock()
	if a == nil {
		return reply{}, errLeaving
	}
	return a.serve(c, q)
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

// end counts that an answerer has ended: its last function is about to return.
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
		_ = x.node.Stop(callProcess) // its functions have returned then
		x.via.flush(ctx)
	case <-ctx.Done():
	}
	return x.node.Close()
}
