// Package transaction has the two sides of the protocol by which requests of
// several processes are coordinated, as pure state machines: no goroutine, no
// lock, no clock, no transport. The same code runs in actors, and in a
// simulator that is part of the tests.
//
// A [Process] has a queue of requests. Before a request runs whose method has
// rules, it asks the synchronizers of the method, one after the other. The
// request runs if all agree. If one does not, the request waits until that one
// sends a notification. A [Synchronizer] that has agreed is locked until it
// hears whether the request runs, so the rules of several synchronizers
// compose.
//
// Locks are waited for by wait-die (Rosenkrantz, Stearns and Lewis 1978): a
// transaction that is older than the lock's holder waits, and a younger one is
// aborted and tries again when it gets a hint. The youngest waiting transaction
// is next, so that each waiting transaction is older than the lock's holder. No
// cycle can arise. A transaction keeps its age through all attempts.
//
// # Atomic rules
//
// A request of a method that has an atomic rule is offered to the rule's
// synchronizer. When each event of the rule has an offer, the synchronizer
// locks the processes in order. A process that cannot run its request now
// refuses, and says later when it can: no rule waits while it has a lock. An
// older rule that was refused is not overtaken by younger ones. When all have
// granted their locks the requests must run, each as soon as its guards hold:
// they held when the lock was granted.
//
// # Crashes
//
// Death notices may be wrong and late, and messages to a node that has died may
// reach its successor. Each message has the epoch of its synchronizer and the
// incarnation of its process; a message for another one is ignored.
//
//   - A process dies while it has a synchronizer's lock: the synchronizer asks
//     the others of the transaction. It was committed if one has committed it,
//     and it was not if all have seen the death without a commit. Then the
//     counters of the process become zero.
//   - A synchronizer dies: requests of its methods wait, and no others. Its
//     successor has a higher epoch, and fetches the counters of all processes
//     before it agrees to anything. Then it decides on the locks that atomic
//     rules had.
//   - A notice was wrong: the synchronizer installs its rules again, and the
//     process answers with its counters.
//
// # How an owner uses them
//
// The owner passes on each event, then runs the requests that may run, and
// sends the messages of the outbox:
//
//	p.Receive(m)                                   // or Arrive, Complete, Withdraw, Down
//	for r := p.Next(); r != nil; r = p.Next() {
//		send(p.Outbox())                           // the others hear of a commit before the request runs
//		run(r)                                     // until it has ended or is suspended
//	}
//	send(p.Outbox())
//
// From time to time it calls Repeat, because a message or a notice may have
// been lost with a node.
//
// A transport delivers the messages between two incarnations in the order in
// which they were sent. It may lose the last ones of them if it reports one of
// the two as dead.
package transaction
