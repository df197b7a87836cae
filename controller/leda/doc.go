// Package leda is the control interface of LEDA: the 33 methods of appendix A of the
// dissertation of Cruz (2015), under their own names and in their five groups, for
// scripts that read as the dissertation's do.
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
// Behind the names there is nothing but [controller.Snapshot] and
// [controller.Decisions]: what a script can do, a policy can, and more. docs/leda.md
// has all methods in one table. The seed is the dissertation, LStage the program that came with it;
// the numbers L1 to L18 are the defects of that program.
//
// # Order
//
// [New] makes a policy of a script. The script is called once, at the start, and
// registers timers and callbacks; from then on those are called, one at a time, when
// they are due. If the script panics, it is called again at the next event, from the
// beginning.
//
// # Reading and deciding
//
// A method that reads tells what the snapshot of this call says, as it is already
// changed by what this call decided: GetPriority after SetPriority tells the new
// priority, and GetThreadsCount after Add no more than the pool's bounds allow. Of a
// stage or pool that is not there it tells nothing: 0, false or "".
//
// A method that decides returns an error where the seed returns 0, and nil for its 1;
// then nothing was decided. [ErrUnknown] and [ErrNumber] tell why. Methods that add are
// turned into wishes that set, so what is decided can be applied twice and does no harm.
//
// # The global pool
//
// As in LEDA, a stage that the script gives no pool is in the [Global] one, whose
// workers share one queue: first come, first served, and stages of higher priority
// first where they differ. UsePrivateQueues has them go from stage to stage instead.
// Global is made when somebody needs it. It has the workers that were added, and one,
// LEDA's default thread, if none were.
//
// Three kinds of stages stay where they are unless the script says otherwise: those of
// a group that the pipeline declares (LEDA's cluster), those whose handlers wait, and
// those that are paused.
//
// # Ownership
//
// The handle, its groups, and all closures belong to one run of one pipeline. A script
// that is used for several should keep its variables inside. Outside of a call
// nothing can be decided.
//
// # Bounds
//
// A script has at most [MostTimers] timers and [MostPools] pools. What is remembered
// of stages that are gone is forgotten.
//
// # Purity
//
// This is the ground floor: no goroutine, no lock, no clock. A test writes snapshots
// down and asks.
package leda
