// Package rpc calls functions of processes, in the same program or in another
// one.
//
//	node, err := rpc.NewNode(rpc.Config{})
//	defer node.Close()
//	counter, err := node.Spawn(ctx, "counter", func(p *rpc.Process) error {
//		n := 0 // no lock: the functions of a process run one at a time
//		rpc.Func(p, "add", func(_ coroutine.Context, by int) (int, error) {
//			n += by
//			return n, nil
//		})
//		return nil
//	})
//	sum, err := rpc.At[int, int](counter, "add").Call(coroutine.Blocking(ctx), 3)
//
// A [Process] is an actor with a name on a [Node]. Its functions run as
// coroutines: a function that waits, in a call of another process or in any
// other suspension, lets the next request of its process run. So two processes
// that call each other do not wait for ever. Guards hold back requests that
// must not run meanwhile: [Process.Guard].
//
// A [Ref] refers to a function. It is called in three ways: [Ref.Call] suspends
// the caller, [Ref.Async] continues with a callback, and [Ref.Future] returns a
// result to wait for later. [Ref.Send] wants no result. A Ref is a value that
// can be sent to other processes: so a process passes a function to another,
// which calls it back.
//
// # Where calls work
//
// A call takes a [coroutine.Context]. It belongs to a function of a process, to
// a stage's suspending handler, or to a scheduler's task, and then only that
// function, handler or task is suspended. In main, in tests, and on goroutines
// of your own, coroutine.Blocking(ctx) blocks the goroutine. A context that was
// derived from a handler's does not compile, because it could be used by
// another goroutine; to limit one call, use coroutine.WithContext. A stage is
// called like a function: see [Stage].
//
// # Values
//
// Within a node nothing is encoded: the function gets the caller's value, and
// the caller the function's result or error, as they are. A value that has been
// sent must not be changed any more. Between nodes the transport encodes values
// by encoding/json, and errors as package transport says.
//
// # Deadlines and cancellation
//
// The context of a function has its caller's deadline, and ends when the caller
// does not wait any more: because it was stopped, its context has ended, its
// process or its node has ended. A request whose turn comes later is not
// served.
//
// The values that package stage/headers carries are in the function's context,
// and so is a deadline of [stage.WithDeadline]: commands that the function
// submits with its context have both. No other values travel, also within a
// node. [Ref.Send] carries none.
//
// # Order
//
// Requests that one goroutine sends to a process arrive in that order. They are
// served in that order unless guards say otherwise; when they end is another
// matter.
//
// # Restarts
//
// [Node.Spawn] starts a process that is not restarted, and [SpawnAt] one at
// another node. [Node.Child] makes one for a supervisor. A process keeps its
// address through restarts, and nothing else: its functions are stopped, its
// callers get [ErrUnreachable], and init runs again. A panic of a function is
// not a crash of its process, but the error of that call.
//
// # Synchronizers
//
// [Node.Synchronize] applies rules of package synchronizer to processes:
// constraints over several of them, or both or none. The request of a method
// that has rules runs when the synchronizers have agreed, and waits until then
// as it does for a guard. A process that no synchronizer has rules for does not
// notice them. [Node.Resynchronize] changes the rules while the synchronizer
// runs.
//
// # Limits
//
// Each other node has limits: for its requests under way, by number and bytes,
// for its watches, and for the rules of its synchronizers. See [Config]. Calls
// within a node are not.
//
// # Nodes that are lost
//
// When a connection breaks, all calls over it fail with [ErrUnreachable], on
// both sides: the caller does not know whether the function has run, and the
// function that waits is stopped. Later calls connect again. A node that seems
// dead may be alive: see [Address.Watch].
//
// # Concurrency
//
// Nodes, addresses, references and futures may be used by any goroutine. The
// methods of a [Process] belong to its own functions, where not said otherwise.
// A function that blocks without suspending holds up its process.
package rpc
