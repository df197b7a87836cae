package nats

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
)

// Nodes lose each other if much more waits to be sent than the network takes,
// or to be handled, and the server ends the connection of a client for which
// too much waits. So large commands, and large results, are on their way a few
// at a time: the process that is called says that a command has arrived, and
// asks its caller before it sends a result. Small ones are not held up.
const (
	largeTransit = 16 << 10 // bytes of data from which on a command or a result is large
	mostTransit  = 8 << 20  // bytes of the large commands of a carrier that are on their way, and of the results
)

// bulk returns how many bytes data counts on its way; 0 if it is small.
func bulk(size int) int64 {
	if size < largeTransit {
		return 0
	}
	return int64(min(size, mostTransit))
}

// transits are the calls of a carrier that are on their way.
type transits struct {
	commands, results *semaphore.Weighted

	mu   sync.Mutex // guards the rest
	last uint64
	of   map[uint64]*transit
}

// transit is what one call has of the two.
type transit struct{ command, result int64 }

func newTransits() *transits {
	return &transits{
		commands: semaphore.NewWeighted(mostTransit), results: semaphore.NewWeighted(mostTransit), of: map[uint64]*transit{},
	}
}

// begin waits until a command may be sent, and returns the number of its call.
// The end must be noted with end.
func (t *transits) begin(ctx context.Context, size int) (uint64, error) {
	n := bulk(size)
	if n > 0 && t.commands.Acquire(ctx, n) != nil {
		return 0, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.of[t.last] = &transit{command: n}
	return t.last, nil
}

// arrived notes that the command of a call has arrived.
func (t *transits) arrived(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.of[number]; c != nil {
		t.commands.Release(c.command)
		c.command = 0
	}
}

// errNoCall refuses the result of a call that has ended.
var errNoCall = errors.New("nats: its caller does not wait any more")

// admit waits until the result of a call may be sent.
func (t *transits) admit(ctx context.Context, number uint64, size int) error {
	n := bulk(size)
	if t.results.Acquire(ctx, n) != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of[number]
	if c == nil {
		t.results.Release(n)
		return errNoCall
	}
	c.result += n
	return nil
}

// end notes that a call has ended.
func (t *transits) end(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of[number]
	delete(t.of, number)
	t.commands.Release(c.command)
	t.results.Release(c.result)
}

// finished asks the caller of a call to admit its result.
type finished struct {
	Call uint64
	Size int
}

// arrived tells the caller of a call that the command has arrived, if that is
// large.
func (x *exchange) arrived(q called) {
	if bulk(len(q.Data)) > 0 {
		_ = rpc.At[uint64, struct{}](x.caller(q), arrivedMethod).Send(q.Call) // or else the caller is lost, and notices that
	}
}

// ready waits until the caller of a call admits the result, if that is large.
func (x *exchange) ready(c coroutine.Context, q called, r reply) error {
	if bulk(len(r.Data)) == 0 {
		return nil
	}
	_, err := rpc.At[finished, struct{}](x.caller(q), admitMethod).Call(c, finished{q.Call, len(r.Data)})
	return err
}

// caller returns the process that takes what a call is answered by.
func (x *exchange) caller(q called) rpc.Address {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.node.Remote(q.From, callProcess)
}

// admit is the function by which a result is admitted.
func (x *exchange) admit(c coroutine.Context, q finished) (struct{}, error) {
	return coroutine.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.transits.admit(ctx, q.Call, q.Size)
	})
}
