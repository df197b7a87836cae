// Package monitor makes functions mutually exclusive, in one process or across
// processes and programs, and lets them wait for conditions.
//
//	lock, err := monitor.New(ctx, node, "queue lock")
//	rpc.Func(p, "get", monitor.DoWhenFree(lock, func(c coroutine.Context, m *monitor.Monitor, _ struct{}) (string, error) {
//		for len(elements) == 0 {
//			if err := m.Wait(c, "not empty"); err != nil {
//				return "", err
//			}
//		}
//		...
//	}))
//
// A lock is an actor of its own, a process of package rpc, that gives a baton
// to one function after another. A [Lock] is a value: send it to the processes
// whose functions must exclude each other. A function that waits, for the lock
// or for a condition, is suspended, and its worker or process does other work.
//
// # When not to use it
//
// State that one process has needs no monitor: its functions run one at a time,
// and guards hold back a function that must not run between two halves of
// another (rpc.Process.Guard). Entering and leaving a monitor is two calls. Use
// it for state that is spread over processes: a file, a device, a conversation
// with a third party.
//
// # Order
//
// Functions enter in the order in which their requests reach the lock. A
// function that was signalled enters behind the functions that wait already:
// the signaller continues, and the condition may be false again before the
// other enters. So wait in a loop.
//
// # When the holder dies
//
// The lock is released when the function ends in any way, also because its
// process is stopped or restarted. When its program ends, its node's end
// releases the lock: at once if the program was killed, and after the
// transport's time limit if it hangs or cannot be reached.
//
// # When the holder only seems to have died
//
// No notice of a death is certain. A function may continue to work although the
// lock has been given to another. It learns of that at the latest when it
// leaves: its error is [ErrLost]. An action that must not be done twice, or by
// two functions at once, needs the token of the entry, see [Monitor.Token].
//
// # When the lock's process is restarted
//
// The function that is inside has lost the lock, and the functions that wait
// fail. Tokens continue to grow, if the clock of the lock's machine does.
//
// # Concurrency
//
// Locks, and the functions that DoWhenFree returns, may be used by any
// goroutine; a [Monitor] belongs to one run of its function.
package monitor
