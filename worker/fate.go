package worker

import "sync/atomic"

// fate says whether a worker was given up. A goroutine cannot be ended from
// outside, so a worker whose handler does not return is given up instead:
// another goroutine settles what the worker held, and the handler's goroutine
// goes on without a worker until it returns, if it ever does.
//
// A worker is given up once, in one of two ways. [Worker.giveUpLocked] decides,
// under emitting, which way that is:
//
//	                  stuck                                abandoned
//	why               a handler ran past its time          a hard stop waited for its grace,
//	                  limit and the grace                  and the worker still has a batch
//	given up by       the watchdog, which has watching     [Stage.AbandonAll], with the inbox's lock
//	not if            the handler has returned (calling),  the worker delivers, or has nothing in
//	                  or emits just now                    its batch (see [inbox.Batches.Abandon])
//	owner afterwards  the watchdog owns the whole worker   the worker's goroutine still owns the
//	                                                       worker; the inbox owns the batch
//	the batch         is settled like a crash: the         is dead-lettered; what the worker has
//	                  command is charged, the rest goes    emitted is discarded, and copies of what
//	                  back, results are delivered          was booked as gone (pledges) are delivered
//	successor         a new worker, which inherits what    none: the pipeline has stopped
//	                  could not be delivered
//	the goroutine     at once when the handler returns:    when it next meets the inbox, emits, or
//	finds out         returned is false                    ends its batch
//	it may then       stop its instance, when over is      drop its batch and stop its
//	                  closed                               instance
//
// A worker that runs the handler of a [Run] is given up as stuck at a hard
// stop, too: [Stage.AbandonAll] is the watchdog there, and takes the run from
// the worker instead of watching. The rest of the batch ends, and the worker
// has no successor. See the type custody.
//
// Why two: the watchdog may take all of a worker, because a call with a time
// limit pays two locks to say when a handler runs. Calls without a limit do not
// pay for that, so at a hard stop the handler may return at any moment and use
// the worker; there the inbox ends the batch by copies of its own, under its
// own lock. See docs/decisions/crashes.md.
type fate int32

// The fates of a worker.
const (
	inService fate = iota // it was not given up
	stuck                 // by the watchdog
	abandoned             // at the end of a hard stop
)

// atomicFate is a fate that any goroutine may load.
type atomicFate struct{ v atomic.Int32 }

func (f *atomicFate) Load() fate { return fate(f.v.Load()) }

// unwind is the value of the panic that ends a batch of a worker that was given
// up.
type unwind struct{}
