// Package guard decides which requests of a queue may run now.
//
// A process or stage has a queue of requests. When one arrives, and whenever
// one has run, it evaluates the guards of the requests that wait, and runs the
// oldest one whose guard holds. A request whose guard does not hold stays in
// the queue: it is pending. That is no error.
//
// There are two kinds. A [Guard] sees the state of the process and the
// [Counters] of its methods, and allows or holds back a whole method. A
// [RequestGuard] also sees the request, so it has to be asked about each
// request of its method that waits. A Guard costs the same at any length of the
// queue: prefer it.
//
// The bounded buffer, with its synchronization apart from its functions:
//
//	put := func(count func(string) guard.Counters) bool {
//		return count("put").Completed-count("get").Completed < size && count("put").Current == 0
//	}
//	get := func(count func(string) guard.Counters) bool {
//		return count("get").Completed < count("put").Completed && count("get").Current == 0
//	}
//
// # Concurrency
//
// The process evaluates its guards on the goroutine that runs its functions,
// between two of them. So a guard may read the variables that those functions
// write, without locks. It must not suspend, must not block, and should change
// nothing: how often it is evaluated is not promised. A guard that panics
// crashes the process that evaluates it.
//
// # When a guard is evaluated
//
// A guard is evaluated again when a request arrives, and when a function of the
// process has ended or is suspended. If it depends on anything else, such as
// the time or a variable of another process, that change alone wakes no
// request.
package guard

import "slices"

// Counters count the requests of one method since the process was created.
type Counters struct {
	// Invocations counts the requests received, without requests withdrawn
	// while they waited.
	Invocations int
	Accepted    int // allowed to run
	Completed   int // ended, in whatever way
	Current     int // running or suspended: Accepted - Completed
	Pending     int // waiting: Invocations - Accepted
}

// Guard allows or holds back every request of a method, by the state of the
// process and the counters of its methods, which count returns. A method that
// was never called has zero counters. The process evaluates a Guard once for
// each scan of its queue, however many requests wait.
type Guard func(count func(method string) Counters) bool

// RequestGuard allows or holds back one request. The process evaluates it for
// the requests of its method that wait, oldest first, until it holds for one of
// them: a request may so overtake an older one of its method.
type RequestGuard func(r Request, count func(method string) Counters) bool

// Request is a request that waits.
type Request struct {
	Process string // the address of the process, or the name of the stage, that the request waits in
	Method  string
	Args    any // the caller's arguments; they must not be changed
}

// EnabledSet returns the guard of a method under the enabled-set rule
// (Tomlinson and Singh 1989): requests of the method run only in states in
// which the method is in the set that enabled returns. EnabledSet panics if
// enabled is nil.
func EnabledSet(method string, enabled func() []string) Guard {
	if enabled == nil {
		panic("guard: EnabledSet of " + method + ": the function that returns the enabled methods is nil")
	}
	return func(func(string) Counters) bool { return slices.Contains(enabled(), method) }
}
