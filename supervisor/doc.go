// Package supervisor keeps children alive: it starts them in order, starts those
// afresh that fail, gives up when that happens too often, and stops them in
// reverse order. A child is a plain function, an actor, or another supervisor:
//
//	err := supervisor.Run(ctx, supervisor.Spec{
//		Strategy:  supervisor.OneForOne,
//		Intensity: supervisor.Intensity{Restarts: 3, Within: time.Minute},
//		Children: []supervisor.Child{
//			supervisor.Service("poller", poll), // func(context.Context) error
//			supervisor.Service("pusher", push),
//		},
//	})
//
// The semantics are those of Erlang/OTP's supervisor; docs/supervision.md has a
// table of them, each with the test that holds it:
//
//   - A child is started when the one before it has said that it is ready. One
//     that cannot start stops those before it, and the start has failed.
//   - When a child ends, its restart type ([Permanent], [Transient], [Temporary])
//     says whether it is started afresh, and the [Strategy] who is with it: stopped
//     in reverse order, then started in order.
//   - Each restart counts against the [Intensity]. One too many and the supervisor
//     stops all children and itself, with an [*EscalationError] that tells the
//     story. A supervisor that is another's child fails towards that one.
//   - A child that is told to stop has a time limit. One that does not keep it is
//     abandoned: Go cannot kill a goroutine. It is reported, and nobody waits for
//     it any more.
//   - Children come and go while the tree runs: [Tree.Add], [Tree.Terminate],
//     [Tree.Restart], [Tree.Delete].
//
// # Concurrency
//
// One goroutine at a time decides, and takes one step after another: it starts or
// stops a single child and goes on when that has answered. What happens
// meanwhile is taken into account when the step is over, but an order to stop,
// which also ends a start that hangs. All methods of [Tree] may be called by
// anybody at any time, but [Tree.Stop], [Tree.Wait] and what changes the children
// not by a child, which would wait for itself.
//
// Foreign code (Spawn, hooks, deciders, services) may panic or end its goroutine:
// that is an error or a crash with a stack, and harms nobody else.
//
// # Resume
//
// An incarnation of a child is never revived, nor used again after a crash:
// nobody knows how far it had come. It is stopped, awaited, and followed by a new
// one under a new name, so that no late message of the old one is taken for the
// new one's. So there is no "resume" among the answers of a decider. What must
// outlive an incarnation belongs outside of it.
package supervisor
