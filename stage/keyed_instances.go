package stage

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/version"
)

// shards is how many parts the instances of a keyed stage are in, each with a
// lock.
const shards = 64

// keyed is the behaviour of a keyed stage, which all workers share: it has the
// instances of the keys. The inbox gives out the commands of one key to one
// worker at a time, or one at a time if handlers suspend; so an instance is
// used by one handler, and only the table needs locks.
type keyed[C any, K comparable, B behaviour.Behaviour[C]] struct {
	name     string
	key      func(C) K
	factory  func(K) B
	seed     maphash.Seed
	report   func(message string, err error)
	idle     time.Duration // after which an instance is passivated; 0: never
	most     int           // instances; 0: any number
	states   int           // of passivated instances that are kept
	saves    bool          // instances may have snapshots
	suspends bool          // instances are Suspending
	every    int           // commands after which an instance has a snapshot
	parts    uint64        // how many shards are used

	ctx        context.Context //nolint:containedctx // the context of Start, for the Starts of the instances
	table      [shards]shard[K, B]
	recent     recent[entry[K, B]]
	ended      atomic.Bool // the stage has stopped
	instances  atomic.Int64
	passivated atomic.Uint64
	kept       atomic.Int64  // states of passivated instances
	ticks      atomic.Uint32 // quarters of idle since the start
	starts     atomic.Int32
	sweeps     atomic.Pointer[time.Time] // when idle instances are looked for next; nil: never
	restored   []keptState[K]            // from a checkpoint, until the start
	sweeper    chan struct{}             // closed to end the goroutine that sweeps; nil if there is none
	swept      chan struct{}             // closed when it has ended
}

// shard is a part of the instances: by key, and in a ring in the order of their
// last use. Those whose state alone is kept are in a second ring.
type shard[K comparable, B any] struct {
	mu    sync.Mutex // guards the rest, and the fields of the entries except state
	byKey map[K]*entry[K, B]
	root  entry[K, B] // of the ring: next is the entry that was used last
	kept  entry[K, B] // of the ring of states: next is the entry that was passivated last
}

// The states of an entry.
const (
	idle    = iota // no handler uses it
	atWork         // its handler runs, or it is being stopped
	handled        // its handler has returned; whether the handler's changes stay is not decided yet
	orphan         // its handler crashed, or was given up: the key has another instance, or none
)

// entry is the instance of a key, or its state.
type entry[K comparable, B any] struct {
	instance   B
	key        K
	state      atomic.Int32
	used       uint16        // the tick of its last use
	made       bool          // the instance has started; for the worker that uses it
	kept       bool          // only the state of a passivated instance is here
	stopped    chan struct{} // closed when it has been passivated; nil if it is not
	prev, next *entry[K, B]
	legacy     *legacy // nil if instances have no snapshots
}

// legacy is what an instance leaves to the next one of its key.
type legacy struct {
	saved any // the last snapshot; nil: none. The shard guards it
	// The fields below are for the worker that uses the instance.
	fresh any   // the snapshot to be saved if the command ends
	has   bool  // there is such a snapshot
	since int32 // commands since the last snapshot
}

// keptState is the state of one key as a checkpoint has it.
type keptState[K comparable] struct {
	Key   K
	State any
}

// unlink takes an entry out of its ring.
func (e *entry[K, B]) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// front puts an entry at the front of the ring of root.
func (e *entry[K, B]) front(root *entry[K, B]) {
	e.prev, e.next = root, root.next
	root.next.prev, root.next = e, e
}

// Start prepares the table, and starts the goroutine that passivates instances
// if there is a time for that.
func (s *keyed[C, K, B]) Start(ctx context.Context) error {
	s.ctx = ctx
	for i := range s.table {
		sh := &s.table[i]
		sh.byKey = map[K]*entry[K, B]{}
		sh.root.prev, sh.root.next = &sh.root, &sh.root
		sh.kept.prev, sh.kept.next = &sh.kept, &sh.kept
	}
	s.ended.Store(false)
	s.recent.forget()
	s.parts = shards
	for _, most := range []int{s.most, s.states} {
		if most > 0 { // a shard stops one of its own instances for a new one, if it has another
			s.parts = min(s.parts, uint64(max(most/shards, 1)))
		}
	}
	s.instances.Store(0)
	s.kept.Store(0)
	s.starts.Add(1)
	s.adopt()
	if s.idle > 0 {
		s.sweeper, s.swept = make(chan struct{}), make(chan struct{})
		go s.sweep(s.sweeper, s.swept)
	}
	return nil
}

// adopt gives the keys the states that were restored. The stage has no handler
// yet.
func (s *keyed[C, K, B]) adopt() {
	for _, one := range s.restored {
		sh := s.shardOf(one.Key)
		sh.mu.Lock()
		e := s.add(sh, one.Key)
		e.legacy.saved = one.State
		e.state.Store(idle)
		sh.mu.Unlock()
	}
	s.restored = nil
}

// Stop stops all instances. One whose handler was given up and still runs is
// stopped when that has returned.
func (s *keyed[C, K, B]) Stop() {
	if s.sweeper != nil {
		close(s.sweeper)
		<-s.swept
		s.sweeper = nil
	}
	s.ended.Store(true)
	for i := range s.table {
		for _, e := range s.orphanBusy(&s.table[i]) {
			s.stop(e)
		}
		s.passivate(&s.table[i], false, func(*entry[K, B]) bool { return true })
	}
}

// orphanBusy removes from a shard the entries that handlers use. It returns the
// entries that no handler uses any more.
func (s *keyed[C, K, B]) orphanBusy(sh *shard[K, B]) (unused []*entry[K, B]) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := sh.root.next; e != &sh.root; {
		next := e.next
		switch {
		case e.state.CompareAndSwap(atWork, orphan):
			s.remove(sh, e)
		case e.state.CompareAndSwap(handled, orphan):
			s.remove(sh, e)
			unused = append(unused, e)
		}
		e = next
	}
	return unused
}

// count counts the instances and the states.
func (s *keyed[C, K, B]) count() keyCounts {
	return keyCounts{int(s.instances.Load()), int(s.kept.Load()), s.passivated.Load()}
}

// acquire returns the entry of a key. If its instance is being passivated,
// acquire waits until Stop has returned. The result is nil if the handler is
// late, or comes when the stage has stopped: it was given up, and its
// middleware has called it again.
func (s *keyed[C, K, B]) acquire(ctx context.Context, k K) *entry[K, B] {
	h := hashOf(s.seed, k)
	if e := s.acquireRecent(ctx, h, k); e != nil {
		return e
	}
	for sh := s.shardAt(h); ; {
		e, stopped := s.tryAcquire(ctx, sh, k)
		if stopped == nil {
			s.remember(h, e)
			return e
		}
		if handling.Until(ctx, stopped) != nil {
			if s.late(ctx) {
				return nil
			}
			<-stopped
		}
	}
}

// acquireRecent acquires the entry of a key if it was remembered and is idle.
// It returns nil otherwise.
func (s *keyed[C, K, B]) acquireRecent(ctx context.Context, hash uint64, k K) *entry[K, B] {
	slot := s.recent.at(hash)
	if slot == nil {
		return nil
	}
	e := slot.Load()
	if e == nil || e.key != k || s.late(ctx) || !e.state.CompareAndSwap(idle, atWork) {
		return nil
	}
	if s.ended.Load() { // Stop may not have seen that the entry is used
		s.release(ctx, e, false)
		return nil
	}
	return e
}

// remember notes the entry of a key with a hash, which may be nil.
func (s *keyed[C, K, B]) remember(hash uint64, e *entry[K, B]) {
	if e == nil || s.passivates() {
		return
	}
	s.recent.fit(int(s.instances.Load()))
	if slot := s.recent.at(hash); slot != nil { // the stage may have started again
		slot.Store(e)
	}
}

// late reports whether the context of a handler has ended, but not the context
// of the stage: then the worker may have been abandoned, and another worker may
// have the key.
func (s *keyed[C, K, B]) late(ctx context.Context) bool {
	return ctx.Err() != nil && s.ctx.Err() == nil
}

// tryAcquire is acquire that does not wait: it returns the channel that is
// closed when the key's instance has stopped.
func (s *keyed[C, K, B]) tryAcquire(ctx context.Context, sh *shard[K, B], k K) (e *entry[K, B], stopped <-chan struct{}) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.ended.Load() || s.late(ctx) {
		return nil, nil
	}
	e = sh.byKey[k]
	switch {
	case e == nil:
		return s.add(sh, k), nil
	case e.stopped != nil:
		return nil, e.stopped
	case e.state.CompareAndSwap(atWork, orphan): // its handler was given up and still runs
		s.remove(sh, e)
		return s.succeed(sh, e), nil
	}
	e.state.Store(atWork)
	if e.kept {
		e.kept = false
		s.kept.Add(-1)
		s.instances.Add(1)
	}
	if s.passivates() && sh.root.next != e {
		e.unlink()
		e.front(&sh.root)
	}
	e.used = s.now()
	return e, nil
}

// passivates reports whether the order of the last uses matters.
func (s *keyed[C, K, B]) passivates() bool { return s.idle > 0 || s.most > 0 }

// now returns the present tick. Ticks start again from 0 so late that no
// instance is idle for that long.
func (s *keyed[C, K, B]) now() uint16 { return uint16(s.ticks.Load()) }

func (s *keyed[C, K, B]) shardOf(k K) *shard[K, B] { return s.shardAt(hashOf(s.seed, k)) }

// shardAt returns the shard of the keys with a hash.
func (s *keyed[C, K, B]) shardAt(hash uint64) *shard[K, B] { return &s.table[hash%s.parts] }

// add adds an entry for a key, without an instance. The shard is locked.
func (s *keyed[C, K, B]) add(sh *shard[K, B], k K) *entry[K, B] {
	e := &entry[K, B]{key: k, used: s.now()}
	if s.saves {
		e.legacy = &legacy{}
	}
	e.state.Store(atWork)
	sh.byKey[k] = e
	e.front(&sh.root)
	s.instances.Add(1)
	return e
}

// succeed adds an entry for the key of an entry that was removed, with the
// state that the removed entry has left. The shard is locked.
func (s *keyed[C, K, B]) succeed(sh *shard[K, B], e *entry[K, B]) *entry[K, B] {
	next := s.add(sh, e.key)
	if s.saves {
		next.legacy.saved = e.legacy.saved
	}
	return next
}

// make makes and starts the instance of an entry, and gives it the last state
// of the key. If the instance cannot be restored the key gets another one,
// which begins without a state.
func (s *keyed[C, K, B]) make(e *entry[K, B]) {
	s.fresh(e)
	if s.saves && e.legacy.saved != nil && !s.restore(e) {
		s.stop(e)
		e.made = false
		s.fresh(e)
	}
	if s.most > 0 {
		s.passivated.Add(s.passivate(s.shardOf(e.key), true, s.surplus))
	}
}

// fresh makes and starts the instance of an entry.
func (s *keyed[C, K, B]) fresh(e *entry[K, B]) {
	e.instance = s.factory(e.key)
	if engine.IsNil(e.instance) {
		panic(fmt.Errorf("the factory returned nil for key %v", e.key))
	}
	if _, suspends := any(e.instance).(behaviour.Suspending[C]); suspends != s.suspends {
		panic(fmt.Errorf("the factory returned a %T, which is Suspending; the stage's handlers suspend only if the type that the factory "+
			"is declared to return is a behaviour.Suspending, and that is %v", e.instance, reflect.TypeFor[B]()))
	}
	if err := version.SavedOf(e.instance, 1).Flaw(); s.saves && err != nil {
		panic(fmt.Errorf("the factory made an instance that cannot be used: %w", err))
	}
	if starter, ok := any(e.instance).(behaviour.Starter); ok {
		if err := starter.Start(s.ctx); err != nil {
			panic(fmt.Errorf("start of the instance for key %v: %w", e.key, err))
		}
	}
	e.made = true
}

// restore gives an instance the saved state, and saves a copy of its own. It
// reports whether the instance is of use.
func (s *keyed[C, K, B]) restore(e *entry[K, B]) bool {
	state := e.legacy.saved
	s.save(e, nil) // the instance may keep it
	restorer, ok := any(e.instance).(behaviour.Restorer)
	if !ok {
		return true
	}
	var again any
	err := crash.Guard(s.name, func() error {
		if err := restorer.Restore(state); err != nil {
			return err
		}
		again = any(e.instance).(behaviour.Snapshotter).Snapshot()
		return nil
	})
	if err != nil {
		s.report("a key's instance could not be restored; a fresh one begins without its state", err)
		return false
	}
	s.save(e, again)
	return true
}

// save sets the saved state of an entry, whose handler another worker may give
// up meanwhile.
func (s *keyed[C, K, B]) save(e *entry[K, B], state any) {
	sh := s.shardOf(e.key)
	sh.mu.Lock()
	*e.legacy = legacy{saved: state}
	sh.mu.Unlock()
}

// note makes a snapshot of an instance that has handled a command, if it is
// time to. It calls user code, which may panic.
func (s *keyed[C, K, B]) note(e *entry[K, B]) {
	if e.legacy.since++; int(e.legacy.since) < s.every {
		return
	}
	if snapshotter, ok := any(e.instance).(behaviour.Snapshotter); ok {
		e.legacy.fresh, e.legacy.has = snapshotter.Snapshot(), true
	}
}

// noteLast saves the state of an instance that is about to be stopped, if
// commands have changed it since it was saved.
func (s *keyed[C, K, B]) noteLast(e *entry[K, B]) {
	snapshotter, ok := any(e.instance).(behaviour.Snapshotter)
	if !ok || !e.made || e.legacy.since == 0 {
		return
	}
	if err := crash.Guard(s.name, func() error { s.save(e, snapshotter.Snapshot()); return nil }); err != nil {
		s.report("a key's instance that stops has no snapshot; an older one is kept", err)
	}
}

// surplus reports whether there are more instances than there may be.
func (s *keyed[C, K, B]) surplus(*entry[K, B]) bool { return s.instances.Load() > int64(s.most) }

// release ends the use of an entry by a handler, which has crashed unless it is
// done. What the handler has changed stays only if its command ends, too: until
// then it may be tried again. So if the instance has snapshots, the worker
// decides.
func (s *keyed[C, K, B]) release(ctx context.Context, e *entry[K, B], done bool) {
	switch {
	case !done:
	case s.saves && s.leftToWorker(ctx, e):
		return
	case !s.saves && e.state.CompareAndSwap(atWork, idle):
		return
	}
	sh := s.shardOf(e.key)
	sh.mu.Lock()
	if e.state.Swap(orphan) != orphan {
		s.replace(sh, e)
	}
	sh.mu.Unlock()
	s.stop(e)
}

// leftToWorker leaves it to the worker whether what a handler has changed
// stays. It returns false if it does not: the worker was given up, or another
// instance has the key.
func (s *keyed[C, K, B]) leftToWorker(ctx context.Context, e *entry[K, B]) bool {
	if w, ok := ctx.Value(link.EmitterKey{}).(link.Deferrer); ok {
		return w.Defer(s, e)
	}
	if !s.Deferred(e) {
		return false
	}
	s.Settled(e, true, nil) // a middleware has passed on a context that leads to no worker
	return true
}

// Deferred notes that the handler that uses an entry has returned. It returns
// false if another instance has the key.
func (s *keyed[C, K, B]) Deferred(use any) bool {
	return use.(*entry[K, B]).state.CompareAndSwap(atWork, handled)
}

// Settled ends the use of an entry whose handler has returned, unless another
// handler uses it by now. If the command has not ended the instance is stopped,
// and the key's next command gets another one.
func (s *keyed[C, K, B]) Settled(use any, ended bool, _ error) {
	e := use.(*entry[K, B])
	sh := s.shardOf(e.key)
	sh.mu.Lock()
	if ended {
		s.commit(e)
		sh.mu.Unlock()
		return
	}
	drops := e.state.CompareAndSwap(handled, orphan)
	if drops {
		s.replace(sh, e)
	}
	sh.mu.Unlock()
	if drops {
		s.stop(e)
	}
}

// commit saves the snapshot of an entry, if there is one, and makes the entry
// idle. The shard is locked.
func (s *keyed[C, K, B]) commit(e *entry[K, B]) {
	if e.state.Load() != handled {
		return
	}
	if left := e.legacy; left.has {
		*left = legacy{saved: left.fresh}
	}
	e.state.Store(idle)
}

// replace takes an entry out of the table, and leaves its saved state to the
// next one of its key. The shard is locked.
func (s *keyed[C, K, B]) replace(sh *shard[K, B], e *entry[K, B]) {
	s.remove(sh, e)
	if s.saves && e.legacy.saved != nil {
		s.succeed(sh, e).state.Store(idle)
	}
}

// remove takes an entry out of the table. The shard is locked.
func (s *keyed[C, K, B]) remove(sh *shard[K, B], e *entry[K, B]) {
	delete(sh.byKey, e.key)
	e.unlink()
	s.instances.Add(-1)
}

// stop calls the Stop of an instance, if it was started.
func (s *keyed[C, K, B]) stop(e *entry[K, B]) {
	stopper, ok := s.stopperOf(e)
	if !ok {
		return
	}
	if err := crash.Guard(s.name, func() error { stopper.Stop(); return nil }); err != nil {
		s.reportStop(err)
	}
}

// stopperOf returns the instance of an entry if it was started and has a Stop.
func (s *keyed[C, K, B]) stopperOf(e *entry[K, B]) (stopper behaviour.Stopper, ok bool) {
	stopper, ok = any(e.instance).(behaviour.Stopper)
	return stopper, ok && e.made
}

func (s *keyed[C, K, B]) reportStop(crash error) { s.report("stop of a key's instance crashed", crash) }

// Timers returns when idle instances are passivated next.
func (s *keyed[C, K, B]) Timers() (t link.Timers) {
	if next := s.sweeps.Load(); next != nil {
		t.Ticks = append(t.Ticks, link.Tick{What: "stop idle instances", At: *next})
	}
	return t
}

// sweep passivates idle instances until it is ended.
func (s *keyed[C, K, B]) sweep(end <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	every := max(s.idle/4, 1)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer s.sweeps.Store(nil)
	for {
		next := time.Now().Add(every)
		s.sweeps.Store(&next)
		select {
		case <-end:
			return
		case <-ticker.C:
		}
		s.ticks.Add(1)
		now := s.now()
		for i := range s.table {
			s.passivated.Add(s.passivate(&s.table[i], true, func(e *entry[K, B]) bool { return now-e.used > 4 }))
		}
	}
}

// passivate stops instances that no handler uses, the longest unused first,
// while match returns true for the next one. It returns how many it stopped.
// They stay in the table until their Stop has returned, so that the next
// instance of the key finds what Stop has saved. With keep their states are
// kept, as many as there may be.
func (s *keyed[C, K, B]) passivate(sh *shard[K, B], keep bool, match func(*entry[K, B]) bool) (n uint64) {
	keep = keep && s.states > 0
	for e := s.claim(sh, match); e != nil; e = s.claim(sh, match) {
		err := crash.Guard(s.name, func() error { // one guard for all: each is a goroutine, which costs more than a short Stop
			for ; e != nil; e = s.claim(sh, match) {
				if keep {
					s.noteLast(e)
				}
				if stopper, ok := s.stopperOf(e); ok {
					stopper.Stop()
				}
				s.retire(sh, e, keep)
				n++
			}
			return nil
		})
		if err == nil {
			break
		}
		s.reportStop(err)
		s.retire(sh, e, keep)
		n++
	}
	return n
}

// retire takes an entry out of the table when its instance has stopped, or
// leaves it there with its state alone.
func (s *keyed[C, K, B]) retire(sh *shard[K, B], e *entry[K, B], keep bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer close(e.stopped)
	if !keep || e.legacy.saved == nil {
		delete(sh.byKey, e.key)
		return
	}
	var none B
	e.instance, e.made, e.kept, e.stopped = none, false, true, nil
	e.front(&sh.kept)
	e.state.Store(idle)
	if s.kept.Add(1) > int64(s.states) {
		oldest := sh.kept.prev
		oldest.unlink()
		delete(sh.byKey, oldest.key)
		s.kept.Add(-1)
	}
}

// claim takes the next entry to be passivated out of its ring; nil if there is
// none.
func (s *keyed[C, K, B]) claim(sh *shard[K, B], match func(*entry[K, B]) bool) *entry[K, B] {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := sh.root.prev; e != &sh.root && e != nil && match(e); e = e.prev {
		if e.state.CompareAndSwap(idle, atWork) {
			e.stopped = make(chan struct{})
			e.unlink()
			s.instances.Add(-1)
			return e
		}
	}
	return nil
}
