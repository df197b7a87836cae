package rpc

import (
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/stage"
)

// function is a function of a process, without its types.
type function struct {
	open func(body any) (any, error) // the request as the function wants it
	run  func(c coroutine.Context, req any) (any, error)
}

// Func adds a function to a process and returns its reference. The function
// runs as a coroutine of the process, and c is the context of one call: it ends
// when the caller gives up, when the process is stopped, and when f returns. A
// function that suspends lets others of its process run; the variables that
// they share may change then, and need no lock.
//
// Without a method the function is anonymous: it can be called only by its
// reference, and ends with the process even if the process is restarted.
// [Process.Remove] removes a function.
//
// Func is called by init, or by a function of the process. It panics if the
// process has a function of that name.
func Func[Req, Resp any](p *Process, method string, f func(c coroutine.Context, req Req) (Resp, error)) Ref[Req, Resp] {
	if f == nil {
		panic(fmt.Sprintf("rpc: process %q: function %q is nil", p.slot.name, method))
	}
	method = p.add(method, &function{
		open: func(body any) (any, error) { return openRequest[Req](body, p.node) },
		run: func(c coroutine.Context, req any) (any, error) {
			v, _ := req.(Req) // a nil interface is the zero Req
			return f(c, v)
		},
	})
	return At[Req, Resp](p.address, method)
}

// Stage adds a function that calls a stage: with a command, and with the result
// that [stage.Call] returns. So a stage of a running pipeline is called from
// everywhere, and by the same means, as a function. A refusal of the stage is
// the error of the call, and [stage.Overloaded] knows it on other nodes, too.
// If the stage has callers wait for a slot, or is slow, at most 4096 calls wait
// for it here; further ones are refused with stage.ErrFull.
func Stage[Resp, Req any](p *Process, method string, s *stage.Stage[Req]) Ref[Req, Resp] {
	if s == nil {
		panic(fmt.Sprintf("rpc: process %q: the stage of function %q is nil", p.slot.name, method))
	}
	waiting := 0
	return Func(p, method, func(c coroutine.Context, cmd Req) (Resp, error) {
		if waiting == maxWaiting {
			var none Resp
			return none, fmt.Errorf("rpc: process %q: %w: %d calls wait for it", p.slot.name, stage.ErrFull, waiting)
		}
		waiting++
		defer func() { waiting-- }()
		return stage.Call[Resp](c, s, cmd)
	})
}

// maxWaiting is how many calls of a function that [Stage] has made may wait.
const maxWaiting = 4096

// openRequest returns the value of a request.
func openRequest[Req any](body any, n *Node) (any, error) {
	_, encoded := body.(transport.Encoded) // a Req that is any would accept it undecoded
	if _, ok := body.(Req); ok && !encoded {
		return body, nil
	}
	v, err := open[Req](body, n)
	return v, err
}
