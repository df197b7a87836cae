// Package leda is the control interface of LEDA: the 33 methods of appendix A
// of the dissertation of Cruz (2015), under their own names and in their five
// groups, for scripts that read like the dissertation's.
//
//	every := leda.New("grow", func(l *leda.Leda) { // a controller.Policy
//		for _, st := range l.Stages() {
//			l.Pool.SetPool(l.Pool.New(2), st)
//		}
//		l.Monitoring.AddTimer(func() {
//			for _, st := range l.Stages() {
//				if l.Monitoring.GetQueueSize(st) > 50 {
//					l.Pool.Add(l.Pool.GetPool(st), 1)
//				}
//			}
//		}, 2*time.Second)
//	})
//
// The methods are built only on [controller.Snapshot] and
// [controller.Decisions]: a policy can do everything that a script can, and
// more. docs/leda.md lists all methods in one table. LStage is the program that
// came with the dissertation; the numbers L1 to L18 are the defects of that
// program.
//
// # Order
//
// [New] makes a script a policy. The script is called once, at the start, and
// registers timers and callbacks; from then on those are called, one at a time,
// when they are due. If the script panics, it is called again at the next
// event, from the beginning.
//
// # Reading and deciding
//
// A method that reads returns the state of the snapshot of this call as changed
// by the decisions of this call: GetPriority after SetPriority returns the new
// priority, and GetThreadsCount after Add returns no more than the pool's
// bounds allow. For a missing stage or pool it returns the zero value: 0, false
// or "".
//
// A method that decides returns nil where the appendix returns 1, and an error
// where the appendix returns 0; then nothing was decided. [ErrUnknown] and
// [ErrNumber] say why. Methods that add are turned into wishes that set a
// value, so a decision can be applied twice without harm.
//
// # The global pool
//
// As in LEDA, a stage to which the script gives no pool is in the [Global]
// pool, whose workers share one queue: first come, first served, with stages of
// higher priority first where priorities differ. UsePrivateQueues makes the
// workers go from stage to stage instead. Global is made when a stage needs it.
// It has the workers that were added, or one, LEDA's default thread, if none
// were added.
//
// Unless the script moves them, three kinds of stages stay where they are:
// stages of a group that the pipeline declares (LEDA's cluster), stages whose
// handlers wait, and paused stages.
//
// # Ownership
//
// The handle, its groups, and all closures belong to one run of one pipeline. A
// script that is used for several runs should keep its variables inside. A
// script can decide only during a call.
//
// # Bounds
//
// A script has at most [MostTimers] timers and [MostPools] pools. Data about
// removed stages is dropped.
//
// # Purity
//
// This package is on the lowest layer: it has no goroutine, no lock and no
// clock. A test writes down snapshots and calls the controller.
package leda
