package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/link"
)

var (
	// ErrNoFunction is the error of a call of a function that the process does
	// not have.
	ErrNoFunction = errors.New("rpc: no such function")

	// ErrType is the error of a call whose request or result is of another type
	// than the caller and the function think.
	ErrType = errors.New("rpc: wrong type")
)

func init() { //nolint:gochecknoinits // as gob.Register is used
	transport.RegisterError("rpc.ErrNoFunction", ErrNoFunction)
	transport.RegisterError("rpc.ErrType", ErrType)
}

// Ref refers to a function of a process. It is a value that can be sent to
// other processes, alone or inside another value, and passed on by them: it
// keeps referring to the process that has the function.
//
// The methods of a Ref may be called by any goroutine, except that a
// [coroutine.Context] is the handler's own.
type Ref[Req, Resp any] struct {
	Address Address
	Method  string
}

// At returns a reference to the function of that name of a process. Whether
// there is one, and of these types, a call finds out.
func At[Req, Resp any](process Address, method string) Ref[Req, Resp] {
	return Ref[Req, Resp]{process, method}
}

// Call calls the function and suspends the caller until it has the result.
// While a function, a stage's suspending handler or a scheduler's task waits,
// others run; in main, or in a test, use coroutine.Blocking.
//
// The error of the function is returned. On the same node it is the very same
// value, and req and the result are passed as they are, without a copy; from
// another node it is a [*transport.Error], in which errors.Is and errors.As
// find registered errors. A panic of the function is a *coroutine.PanicError.
// The errors of the call itself wrap [ErrUnreachable], [ErrNoFunction] or
// [ErrType].
//
// If the caller is stopped, or c is bound to a context that ends
// (coroutine.WithContext), Call returns that error at once, and the function's
// context ends: a function that waits is stopped, and one that has not started
// is not called. The function's context also has the caller's deadline.
func (r Ref[Req, Resp]) Call(c coroutine.Context, req Req) (Resp, error) {
	link.CheckContext(c, "rpc: Call")
	k := new(call)
	err := c.Suspend(func(wake func()) {
		k.wake = wake
		r.Address.call(k, orderOf(c, r.Method, req))
	})
	if err != nil {
		k.cancel(err)
		var none Resp
		return none, err
	}
	return result[Resp](k, r.Address)
}

// Future calls the function and returns at once; the result can be waited for
// later. The call ends with ctx, at the latest, as [Ref.Call] does. The context
// of a handler ends when the handler returns, and with it the calls whose
// results it has not waited for.
func (r Ref[Req, Resp]) Future(ctx context.Context, req Req) *Future[Resp] {
	link.CheckContext(ctx, "rpc: Future")
	f := &Future[Resp]{of: r.Address}
	r.start(ctx, &f.k, req)
	return f
}

// Async calls the function for a process, and returns at once. When the call
// has ended, callback, if not nil, runs as a coroutine of p: in its turn, so
// that it needs no lock for the state of the process. The call ends when p
// does; then callback does not run.
//
// Async is called by p's init, or by a function of p.
func (r Ref[Req, Resp]) Async(p *Process, req Req, callback func(c coroutine.Context, resp Resp, err error)) {
	k := new(call)
	if callback != nil {
		k.then(func() {
			p.Go(func(c coroutine.Context) {
				resp, err := result[Resp](k, r.Address)
				callback(c, resp, err)
			})
		})
	}
	r.start(p.ctx, k, req)
}

// start starts a call that ends with ctx.
func (r Ref[Req, Resp]) start(ctx context.Context, k *call, req Req) {
	if ctx.Err() != nil {
		k.finish(nil, context.Cause(ctx))
		return
	}
	r.Address.call(k, orderOf(ctx, r.Method, req))
	if ctx.Done() != nil && !k.isDone() {
		stop := context.AfterFunc(ctx, func() { k.cancel(context.Cause(ctx)) })
		k.then(func() { stop() })
	}
}

// Send calls the function and does not wait for it: there is no result, and an
// error of the function is logged where it runs. The error is nil if the
// request was sent; it may still be lost on its way. It carries no deadline and
// no values of a context. Requests that one
// goroutine sends to a process, by Call or Send, arrive in that order.
func (r Ref[Req, Resp]) Send(req Req) error {
	return r.Address.send(nil, order{method: r.Method, body: req})
}

// Future is the result of a call under way. Any number of handlers and
// goroutines may use it.
type Future[T any] struct {
	k  call
	of Address
}

// Wait suspends the caller until the call has ended, and returns its result or
// error as [Ref.Call] does. If the caller is stopped first, or c is bound to a
// context that ends, Wait returns that error and the call continues.
func (f *Future[T]) Wait(c coroutine.Context) (T, error) {
	link.CheckContext(c, "rpc: Wait")
	if !f.k.isDone() {
		if err := c.Suspend(func(wake func()) { f.k.then(wake) }); err != nil {
			var none T
			return none, err
		}
	}
	return result[T](&f.k, f.of)
}

// Done reports whether the call has ended, so that Wait returns at once.
func (f *Future[T]) Done() bool { return f.k.isDone() }

// result returns the result of a call that is done.
func result[T any](k *call, from Address) (T, error) {
	value, err := k.result()
	if err != nil {
		var none T
		return none, err
	}
	return open[T](value, from.at)
}

// open returns the value of a message as a T. An encoded value is decoded, and
// its addresses get the node; a T that is itself transport.Encoded gets the
// encoded value.
func open[T any](value any, n *Node) (T, error) {
	var v T
	if data, ok := value.(transport.Encoded); ok {
		if raw, ok := any(&v).(*transport.Encoded); ok {
			*raw = data
			return v, nil
		}
		if err := json.Unmarshal(data, &v); err != nil {
			return v, fmt.Errorf("%w: %v cannot be decoded: %w", ErrType, reflect.TypeFor[T](), err)
		}
		n.bind(&v)
		return v, nil
	}
	v, ok := value.(T)
	if !ok && value != nil {
		return v, fmt.Errorf("%w: got %T, want %v", ErrType, value, reflect.TypeFor[T]())
	}
	return v, nil
}
