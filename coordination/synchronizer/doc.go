// Package synchronizer coordinates requests of several processes by rules that
// are written outside their code.
//
//	func oneAtATime(s *synchronizer.Synchronizer) {
//		on := func() (n int) {
//			for _, r := range resources {
//				n += s.Count(r, "turn_on").Accepted - s.Count(r, "turn_off").Completed
//			}
//			return n
//		}
//		for _, r := range resources {
//			s.Constrain(r, "turn_on", func(guard.Request) bool { return on() == 0 })
//		}
//	}
//
// The function is given, as init, to Node.Synchronize of package rpc, which
// runs the synchronizer.
//
// A request whose rules do not hold waits, as it does for a guard (see package
// guard): that is no error. Rules of several synchronizers compose: a request
// runs when all agree at the same time. The synchronizers need not know each
// other.
//
// # The kinds of rules
//
// A constraint ([Synchronizer.Constrain]) holds requests back while a condition
// is false. A condition reads the counters of the methods
// ([Synchronizer.Count]), or variables that triggers ([Synchronizer.Trigger])
// have written when requests were accepted or had ended. An atomic rule
// ([Synchronizer.Atomic]) makes requests of several members run together or not
// at all. [Synchronizer.AtMost] and [Synchronizer.OncePerRound] are constraints
// on counters that are often needed.
//
// # Accepted or Completed
//
// A request is accepted before it runs, and completed when it has ended. If
// turning off takes time, a resource is still on when turn_off is accepted: a
// condition about work that a method must have done depends on [Completed].
//
// # Rules that change
//
// Node.Resynchronize of package rpc gives a synchronizer of processes another
// init while it runs: rules are added and taken back at once, and a function of
// a process that calls it does so for others.
//
// # Restarts
//
// Counters belong to the members. A synchronizer that restarts runs init again
// and fetches the counters before it allows anything, so a rule on counters
// continues where it was. Variables of init start anew.
//
// If the node of a synchronizer ends, requests of processes wait that have its
// rules, until a synchronizer of its name has started or was taken back. No
// other requests do.
//
// # Concurrency
//
// The functions of one synchronizer are called one at a time, so they share
// variables without locks. They must not block, and must not call the members
// that they coordinate: others wait while they run. How often a constraint is
// evaluated is not promised.
package synchronizer
