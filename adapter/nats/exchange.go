package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
)

// callHeartbeat is how often a process shows to the processes that it calls,
// and that call it, that it lives. It is a variable for tests.
var callHeartbeat = defaultHeartbeat

// exchange is the node by which a carrier calls the processes of others, and is
// called by them. It is made when the first call is made, or the first caller
// asks for a stage, and closed with the connection.
type exchange struct {
	conn *Conn
	log  *slog.Logger
	cfg  TransportConfig

	transits *transits

	opens singleflight.Group

	mu        sync.Mutex // guards the rest
	failed    error      // of the last attempt to make the node
	failedAt  time.Time
	node      *rpc.Node
	via       *nodes
	owned     bool                 // it is closed with the connection
	ended     sync.WaitGroup       // closes nodes that were lost
	answerers map[string]*answerer // the answerers that take calls, by the name that callers use
	answering int                  // how many answerers have not ended
	closing   chan struct{}        // closed when no answerer is left; nil before close
}

// By which process and functions of its node an exchange is called.
const (
	callProcess = "calls"
	callMethod  = "call"

	arrivedMethod = "arrived"
	admitMethod   = "admit"
)

// open returns the node. If there is none it makes it, once for all that call
// open meanwhile.
func (x *exchange) open(ctx context.Context) (*rpc.Node, error) {
	if node, err := x.present(); node != nil || err != nil {
		return node, err
	}
	opened := x.opens.DoChan("", func() (any, error) {
		if node, err := x.present(); node != nil || err != nil {
			return node, err
		}
		node, via, err := x.make()
		x.set(node, via, err)
		if err != nil {
			return nil, err
		}
		if err := x.own(); err != nil {
			x.set(nil, nil, err)
			return nil, errors.Join(err, node.Close())
		}
		return node, nil
	})
	select {
	case r := <-opened:
		node, _ := r.Val.(*rpc.Node)
		return node, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// own has the exchange closed with the connection.
func (x *exchange) own() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owned {
		return nil
	}
	x.owned = true
	return x.conn.ownExchange(x.close)
}

// present returns the node, or why there can be none for now. Both are nil if
// it can be made.
func (x *exchange) present() (*rpc.Node, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closing != nil:
		return nil, fmt.Errorf("%w: %w", transport.ErrUnreachable, errClosed)
	case x.node != nil && x.via.peers.errClosed() == nil:
		return x.node, nil
	case !x.conn.nc.IsConnected():
		return nil, errAway
	case x.failed != nil && time.Since(x.failedAt) < failedTime:
		return nil, x.failed
	default:
		return nil, nil //nolint:nilnil // as it says
	}
}

// failedTime is for how long no node is made after one could not be made: that
// takes seconds if something is not permitted.
const failedTime = time.Second

// make makes the node.
func (x *exchange) make() (*rpc.Node, *nodes, error) {
	via, err := NewTransport(x.conn, "call-"+rand.Text(), x.cfg)
	if err != nil {
		return nil, nil, err
	}
	node, err := rpc.NewNode(rpc.Config{Transport: via})
	if err != nil {
		return nil, nil, errors.Join(err, via.Close())
	}
	_, err = node.Spawn(context.Background(), callProcess, func(p *rpc.Process) error {
		rpc.Func(p, callMethod, x.serve)
		rpc.Func(p, arrivedMethod, func(_ coroutine.Context, number uint64) (struct{}, error) {
			x.transits.arrived(number)
			return struct{}{}, nil
		})
		rpc.Func(p, admitMethod, x.admit)
		return nil
	})
	if err != nil {
		return nil, nil, errors.Join(err, node.Close())
	}
	via.Watch(via.Node(), x.lost)
	return node, via.(*nodes), nil
}

// lost has the answerers make another node, and say so.
func (x *exchange) lost(error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.answerers {
		ring(a.moved)
	}
}

// set notes the node, or why it could not be made.
func (x *exchange) set(node *rpc.Node, via *nodes, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.node != nil && x.node != node { // another program has taken its name, or has pretended to
		before := x.node
		x.ended.Go(func() { _ = before.Close() })
	}
	x.node, x.via, x.failed, x.failedAt = node, via, err, time.Now()
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

// serve handles one call. The answerer may have gone since the caller has heard
// of it.
func (x *exchange) serve(c coroutine.Context, sent transport.Encoded) (transport.Encoded, error) {
	q, err := decodeCalled(sent)
	if err != nil {
		return nil, err
	}
	x.arrived(q)
	x.mu.Lock()
	a := x.answerers[q.To]
	x.mu.Unlock()
	if a == nil {
		return nil, errLeaving
	}
	r, err := a.serve(c, q)
	if err != nil {
		return nil, err
	}
	return r.encode(), nil
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

// close waits until all calls to this node are answered, or ctx ends, and
// closes the node.
func (x *exchange) close(ctx context.Context) error {
	x.mu.Lock()
	x.closing = make(chan struct{})
	if x.answering == 0 {
		close(x.closing)
	}
	node, via := x.node, x.via
	x.mu.Unlock()
	defer x.ended.Wait()
	if node == nil {
		return nil
	}
	select {
	case <-x.closing:
		_ = node.Stop(callProcess) // its functions have returned then
		via.flush(ctx)
	case <-ctx.Done():
	}
	return node.Close()
}
