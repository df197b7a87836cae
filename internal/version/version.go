package version

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/plain"
)

// errRetired means that a version makes no instances any more. Another version
// is the present one by then.
var errRetired = errors.New("version: it is retired")

// phase is how far the life of a version has come. It only moves forward.
type phase uint8

const (
	making  phase = iota // the version makes instances
	retired              // another version has won: no instance is made any more, and the live instances are being replaced
	over                 // the last instance has left
	done                 // what the version itself had is stopped too, and Done is closed
)

// demand says for how long a version's first instance is to stay started.
type demand uint8

const (
	wanted      demand = iota // until it is stopped
	untilUnused               // until no worker uses it: the supervisor has ended. A start makes it wanted again
	unwanted                  // no longer: the stage has ended for good, and an instance that starts late is stopped
)

// Version is one version of a stage's behaviour. It makes instances, and counts
// them until they are stopped. Any goroutine may call its methods.
//
// Its first instance is made, and perhaps started, before a worker needs it. If
// the workers share an instance the first one is the only one, and stays with
// the version. Otherwise the first worker that needs an instance takes it.
type Version struct {
	series *Series
	make   func(of *Version) Instance
	shares bool // the workers share the first instance

	turning sync.Mutex // held while first is being started or stopped; locked before mu

	mu    sync.Mutex // guards the rest
	name  string     // what the last instance that was made calls its version
	phase phase
	live  int           // instances that have not been stopped; if they are shared, workers that use it and suspended runs
	done  chan struct{} // closed in the phase done; nil if Done was not called

	states []any    // of instances that are gone, for those to come
	heir   *Version // gets the states once the version is retired; nil if they are lost

	first   Instance
	started bool // first has been started
	demand  demand
	cancel  context.CancelCauseFunc // ends the context that first was started with
}

// Name returns what the version's behaviour calls its version; it is empty if
// the behaviour has no version, or if no instance has been made yet.
func (v *Version) Name() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.name
}

// Build makes the first instance. It does not start it.
func (v *Version) Build() error {
	return v.series.guard(func() error {
		inst, err := v.build()
		if err == nil {
			v.Take(inst)
		}
		return err
	})
}

// Take gives the version its first instance, which is not started.
func (v *Version) Take(inst Instance) {
	name := inst.Version()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first, v.name = inst, name
}

// build makes an instance. It calls user code.
func (v *Version) build() (Instance, error) {
	inst := v.make(v)
	if inst == nil {
		return nil, fmt.Errorf("stage %q: the factory returned no behaviour", v.series.name())
	}
	if err := v.series.check(inst, v.shares); err != nil {
		return nil, err
	}
	name := inst.Version()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.name = name
	return inst, nil
}

// StartShared starts the instance that workers share, if they share one that
// has not been started.
func (v *Version) StartShared() error {
	if !v.shares {
		return nil
	}
	return v.startFirst(func(inst Instance) error {
		err := v.series.guard(func() error { return v.start(v.series.Context, inst) })
		if err != nil {
			return v.wrapStart(err)
		}
		return nil
	})
}

// Start starts the first instance, if it has not been started. If ctx ends
// first, Start returns its cause, and the instance is stopped as soon as it has
// started.
func (v *Version) Start(ctx context.Context) error {
	return v.startFirst(func(inst Instance) error { return v.startOne(ctx, inst) })
}

func (v *Version) startFirst(start func(Instance) error) error {
	if err := v.startFirstOnce(start); err != nil {
		return err
	}
	v.mu.Lock()
	late := v.demand == unwanted
	v.mu.Unlock()
	if late {
		v.Stop()
	}
	return nil
}

func (v *Version) startFirstOnce(start func(Instance) error) error {
	v.turning.Lock()
	defer v.turning.Unlock()
	v.mu.Lock()
	inst, started := v.first, v.started
	if v.demand == untilUnused {
		v.demand = wanted
	}
	v.mu.Unlock()
	if inst == nil || started {
		return nil
	}
	if err := start(inst); err != nil {
		return err
	}
	v.mu.Lock()
	late := v.phase >= over
	v.started = !late
	v.mu.Unlock()
	if late {
		v.series.callStop(inst)
	}
	return nil
}

// start starts an instance. Whether it may have snapshots is checked here and
// not when it is made: an upgrade may make one before the stage has a pipeline.
func (v *Version) start(ctx context.Context, inst Instance) error {
	if v.series.Unsaved != "" && inst.Saved() != nil {
		return errors.New("the factory made a Snapshotter, " + v.series.Unsaved)
	}
	return inst.Start(ctx)
}

// wrapStart says of which stage an instance did not start.
func (v *Version) wrapStart(err error) error {
	return plain.Wrap(fmt.Sprintf("stage %q: start", v.series.name()), err)
}

// startOne starts an instance with a context that ends with the stage's, and
// while it starts also with ctx.
//
//nolint:contextcheck // two contexts end its own
func (v *Version) startOne(ctx context.Context, inst Instance) error {
	handling, cancel := context.WithCancelCause(v.series.Context)
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	var claimed atomic.Bool // by the first of two: the start has ended, or ctx has
	ended := crash.Try(v.series.name(), func() error {
		err := v.start(handling, inst)
		if !claimed.CompareAndSwap(false, true) && err == nil {
			inst.Stop()
		}
		return err
	})
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if claimed.CompareAndSwap(false, true) {
			return v.wrapStart(context.Cause(ctx))
		}
		err = <-ended
	}
	switch hooked := unhook(); {
	case err != nil:
		cancel(err)
		return v.wrapStart(err)
	case !hooked: // it has started, with a context that has ended
		v.series.callStop(inst)
		return v.wrapStart(context.Cause(ctx))
	}
	v.mu.Lock()
	v.cancel = cancel
	v.mu.Unlock()
	return nil
}

// Stop stops the first instance, if it was started. No worker may use it. A
// shared instance can be started again; another one is discarded.
func (v *Version) Stop() { v.stopFirst(func() bool { return true }) }

// StopUnused is [Version.Stop] for a stage whose supervisor ends: a shared
// instance is stopped when no worker uses it any more, unless it is started
// again before.
func (v *Version) StopUnused() {
	if !v.shares {
		v.Stop()
		return
	}
	v.mu.Lock()
	v.demand = max(v.demand, untilUnused)
	v.mu.Unlock()
	v.stopFirst(v.unusedLocked)
}

// unusedLocked reports whether the shared instance may stop and no worker uses
// it.
func (v *Version) unusedLocked() bool { return v.demand != wanted && v.live == 0 }

// Close is [Version.Stop] for good. It does not wait for a goroutine that is
// starting or stopping the instance: one that has started it too late stops it.
func (v *Version) Close() {
	v.mu.Lock()
	v.demand = unwanted
	v.mu.Unlock()
	if v.turning.TryLock() {
		defer v.turning.Unlock()
		v.stopTurning(func() bool { return true })
	}
}

// stopFirst stops the first instance if it is started and may is true then. May
// is called with mu held.
func (v *Version) stopFirst(may func() bool) {
	v.turning.Lock()
	defer v.turning.Unlock()
	v.stopTurning(may)
}

// stopTurning is stopFirst for a caller that holds turning.
func (v *Version) stopTurning(may func() bool) {
	v.mu.Lock()
	inst, stops := v.first, v.started && may()
	v.started = v.started && !stops
	if !v.shares {
		v.first = nil
	}
	v.mu.Unlock()
	if stops {
		v.series.callStop(inst)
	}
}

// acquire returns an instance that is started.
func (v *Version) acquire(ctx context.Context) (Instance, error) {
	first, started, state, ok := v.reserve()
	switch {
	case !ok:
		return nil, errRetired
	case v.shares:
		if !started { // a shared worker came before the stage's supervisor
			if err := v.StartShared(); err != nil {
				v.Release()
				return nil, err
			}
		}
		return first, nil
	}
	inst, err := first, error(nil)
	if !started {
		inst, err = v.startFresh(ctx, first)
	}
	if err != nil {
		v.keep(state)
	} else {
		inst, err = v.restored(ctx, inst, state)
	}
	if err != nil {
		v.Release()
		return nil, err
	}
	return inst, nil
}

// startFresh starts an instance, and makes it if there is none.
func (v *Version) startFresh(ctx context.Context, inst Instance) (Instance, error) {
	err := v.series.guard(func() (err error) {
		if inst == nil {
			if inst, err = v.build(); err != nil {
				return err
			}
		}
		if err := v.start(ctx, inst); err != nil {
			return v.wrapStart(err)
		}
		return nil
	})
	return inst, err
}

// reserve counts an instance that is about to be used, and returns the first
// one if no worker has taken it, and the state that the instance is to begin
// with; nil if there is none yet. It returns false if the version is retired.
func (v *Version) reserve() (first Instance, started bool, state any, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.phase != making {
		return nil, false, nil, false
	}
	v.live++
	first, started = v.first, v.started
	if !v.shares {
		v.first, v.started = nil, false
	}
	return first, started, v.takeStateLocked(), true
}

// Retain counts one more instance of a version of which the caller has one.
func (v *Version) Retain() {
	v.mu.Lock()
	v.live++
	v.mu.Unlock()
}

// Release counts an instance that has been stopped. When the last instance of a
// retired version has left, the version is over.
func (v *Version) Release() {
	v.mu.Lock()
	v.live--
	if v.phase != retired || v.live > 0 {
		stops := v.started && v.unusedLocked()
		v.mu.Unlock()
		if stops {
			v.stopFirst(v.unusedLocked)
		}
		return
	}
	started, cancel := v.started, v.cancel
	v.phase, v.started = over, false
	v.mu.Unlock()
	if started {
		v.series.callStop(v.first)
	}
	if cancel != nil {
		cancel(nil)
	}
	v.finish()
	v.series.moving.Add(-1)
}

func (v *Version) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.phase = done
	if v.done != nil {
		close(v.done)
	}
}

// Done is closed when the last instance of a version that is retired has been
// stopped.
func (v *Version) Done() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done == nil {
		v.done = make(chan struct{})
		if v.phase == done {
			close(v.done)
		}
	}
	return v.done
}

// giveWay ends the making of instances, and calls install, which makes another
// version the present one. The states of instances go to the heir, if there is
// one; otherwise they are lost. All of that is one step for a worker that takes
// an instance: it may come after a crash, and must not find the heir without
// the state that its last instance has left. [Version.discard] follows.
func (v *Version) giveWay(heir *Version, install func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	states := v.states
	v.phase, v.heir, v.states = max(v.phase, retired), heir, nil
	v.live++         // this goroutine counts as one that uses the version
	if heir != nil { // an older version is always locked before it
		heir.mu.Lock()
		defer heir.mu.Unlock()
		heir.states = append(heir.states, states...)
	}
	install()
}

// discard stops the first instance of a version that has given way, if no
// worker has taken it.
func (v *Version) discard() {
	v.mu.Lock()
	var unused Instance
	if v.started && !v.shares {
		unused, v.first, v.started = v.first, nil, false
	}
	v.mu.Unlock()
	if unused != nil {
		v.series.callStop(unused)
	}
	v.Release()
}

// keep keeps a state for an instance of the version, or of the version that has
// replaced it. There are never more than instances in use at once: each was
// left by an instance that is gone.
func (v *Version) keep(state any) {
	for state != nil && v != nil {
		v = v.heirOrKeep(state)
	}
}

// heirOrKeep keeps a state and returns nil, or returns the version that has
// replaced this one; nil if there is none.
func (v *Version) heirOrKeep(state any) (heir *Version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.phase != making {
		return v.heir
	}
	v.states = append(v.states, state)
	return nil
}

// restored gives an instance that has started a state. If the instance cannot
// be restored, the result is a fresh one. Without a state it gets the state of
// an instance that was stopped while this one started, if there is one.
func (v *Version) restored(ctx context.Context, inst Instance, state any) (Instance, error) {
	saved := inst.Saved()
	if saved == nil {
		return inst, nil
	}
	if state == nil {
		state = v.takeState()
	}
	if state == nil {
		return inst, nil
	}
	err := v.series.guard(func() error { return saved.Restore(state) })
	if err == nil {
		return inst, nil
	}
	v.series.logPanic("an instance could not be restored; a fresh one begins without its state", err)
	v.series.callStop(inst)
	return v.startFresh(ctx, nil)
}

// takeState returns the state that was kept last; nil if there is none.
func (v *Version) takeState() any {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.takeStateLocked()
}

func (v *Version) takeStateLocked() (state any) {
	if last := len(v.states) - 1; last >= 0 {
		state, v.states[last] = v.states[last], nil
		v.states = v.states[:last]
	}
	return state
}

// Forget drops the states that are kept: the stage begins anew.
func (v *Version) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states = nil
}
