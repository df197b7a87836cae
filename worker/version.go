package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/plain"
)

// errRetired tells that a version makes no instances any more. Who hears it finds that
// another version is present by then.
var errRetired = errors.New("worker: the version is retired")

// Version is one version of a stage's behaviour: it makes instances, and knows how many
// of them have not been stopped. Its methods may be called by anybody.
type Version struct {
	stage   *Stage
	make    func(of *Version) Instance
	rollout *Rollout // of a version that is two: its instances are Boths

	turning sync.Mutex // held while first is being started or stopped; before mu

	shares     bool       // all workers share the first instance
	mu         sync.Mutex // guards all below
	name       string
	first      Instance // made, and used by nobody yet; the only one, if it is shared
	live       int
	release    context.CancelCauseFunc // ends the context that first was started with
	many       bool
	started    bool // first has been started
	trialEnded bool // first is to be stopped when nobody has it
	closed     bool // nobody will come any more
	retired    bool
	over       bool
	ended      bool          // over, and all is told
	done       chan struct{} // closed when it has ended; nil if nobody has asked
}

// NewVersion returns a version that makes instances so. With shares it makes one, which
// all workers share.
func (s *Stage) NewVersion(build func(of *Version) Instance, shares bool) *Version {
	return &Version{stage: s, make: build, shares: shares}
}

// Name is what the version's behaviour calls itself, empty if it does not or if no
// instance has been made yet. That of a rollout is the version's before it.
func (v *Version) Name() string {
	if v.rollout != nil {
		return v.rollout.versions[before].Name()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.name
}

// Live is how many instances have not been stopped, or how many workers have the shared
// one.
func (v *Version) Live() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live
}

// Build makes the first instance. It is not started.
func (v *Version) Build() error {
	return Guard(v.stage.Inbox.Name(), func() error {
		inst, err := v.build()
		if err == nil {
			v.Take(inst)
		}
		return err
	})
}

// Take gives the version its first instance. It is not started.
func (v *Version) Take(inst Instance) {
	name, many := inst.Version(), inst.Many()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first, v.name, v.many = inst, name, many
}

// build makes an instance. It calls the user's code.
func (v *Version) build() (Instance, error) {
	inst := v.make(v)
	if inst == nil {
		return nil, fmt.Errorf("stage %q: the factory returned no behaviour", v.stage.Inbox.Name())
	}
	if err := v.stage.fits(inst); err != nil {
		return nil, err
	}
	name, many := inst.Version(), inst.Many()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.name, v.many = name, many
	return inst, nil
}

// fits reports why an instance is not one for the stage: either all its versions suspend, or none.
func (s *Stage) fits(inst Instance) error {
	switch suspends := inst.Suspends(); {
	case suspends && s.Runs == nil:
		return fmt.Errorf("stage %q: the factory made a behaviour that suspends; "+
			"only one that all workers share may, from the start on: stage.New, stage.Coroutine", s.Inbox.Name())
	case suspends && inst.Many():
		return fmt.Errorf("stage %q: the factory made a behaviour that suspends and is a Batcher; it cannot be both", s.Inbox.Name())
	case !suspends && s.Runs != nil:
		return fmt.Errorf("stage %q: the factory made a behaviour that does not suspend, for a stage whose behaviour does", s.Inbox.Name())
	}
	return nil
}

// batches reports whether the version's behaviour is a Batcher.
func (v *Version) batches() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.many
}

// StartTrial starts the instance that workers share, if they do and it has not been.
func (v *Version) StartTrial() error {
	switch {
	case v.rollout != nil:
		return v.rollout.startTrial()
	case !v.shares:
		return nil
	}
	return v.begin(func(inst Instance) error {
		err := Guard(v.stage.Inbox.Name(), func() error { return inst.Start(v.stage.Context) })
		if err != nil {
			return plain.Wrap(fmt.Sprintf("stage %q: start", v.stage.Inbox.Name()), err)
		}
		return nil
	})
}

// Begin starts the first instance, if it has not been. If ctx ends before it has started
// that is the error, and it is stopped as soon as it has.
func (v *Version) Begin(ctx context.Context) error {
	return v.begin(func(inst Instance) error { return v.startOne(ctx, inst) })
}

func (v *Version) begin(start func(Instance) error) error {
	if err := v.beginOnce(start); err != nil {
		return err
	}
	v.mu.Lock()
	late := v.closed
	v.mu.Unlock()
	if late {
		v.Halt()
	}
	return nil
}

func (v *Version) beginOnce(start func(Instance) error) error {
	v.turning.Lock()
	defer v.turning.Unlock()
	v.mu.Lock()
	inst, begun := v.first, v.started
	v.trialEnded = false
	v.mu.Unlock()
	if inst == nil || begun {
		return nil
	}
	if err := start(inst); err != nil {
		return err
	}
	v.mu.Lock()
	late := v.over
	v.started = !late
	v.mu.Unlock()
	if late {
		v.stage.lastWord(inst)
	}
	return nil
}

// startOne starts an instance with a context that ends with the stage's, and while it
// starts also with ctx.
func (v *Version) startOne(ctx context.Context, inst Instance) error { //nolint:contextcheck // two contexts end its own
	handling, cancel := context.WithCancelCause(v.stage.Context)
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	var told atomic.Bool // by whom the end of the start was noted first
	ended := Try(v.stage.Inbox.Name(), func() error {
		err := inst.Start(handling)
		if !told.CompareAndSwap(false, true) && err == nil {
			inst.Stop()
		}
		return err
	})
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if told.CompareAndSwap(false, true) {
			return plain.Wrap(fmt.Sprintf("stage %q: start", v.stage.Inbox.Name()), context.Cause(ctx))
		}
		err = <-ended
	}
	switch hooked := unhook(); {
	case err != nil:
		cancel(err)
		return plain.Wrap(fmt.Sprintf("stage %q: start", v.stage.Inbox.Name()), err)
	case !hooked: // it has started, with a context that is over
		v.stage.lastWord(inst)
		return plain.Wrap(fmt.Sprintf("stage %q: start", v.stage.Inbox.Name()), context.Cause(ctx))
	}
	v.mu.Lock()
	v.release = cancel
	v.mu.Unlock()
	return nil
}

// Halt stops the first instance, if it was started. Nobody has it. It can be started
// again if it is shared; if not, it was the only one of its kind.
func (v *Version) Halt() { v.halt(always) }

func always() bool { return true }

// EndTrial is Halt for a stage whose keeper goes: the shared instance is stopped when nobody has it
// any more, unless it is raised again before.
func (v *Version) EndTrial() {
	if !v.shares {
		v.Halt()
		return
	}
	v.mu.Lock()
	v.trialEnded = true
	v.mu.Unlock()
	v.halt(v.idle)
}

// idle reports whether a version that was lowered is used by nobody. Its caller holds mu.
func (v *Version) idle() bool { return v.trialEnded && v.live == 0 }

// Close is Halt for good. It waits for nobody who is starting the instance, or stopping it: who
// comes too late with a start stops it.
func (v *Version) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	if v.turning.TryLock() {
		defer v.turning.Unlock()
		v.stop(always)
	}
}

// halt stops the first instance if it is so then.
func (v *Version) halt(then func() bool) {
	v.turning.Lock()
	defer v.turning.Unlock()
	v.stop(then)
}

// stop is halt; its caller holds turning.
func (v *Version) stop(then func() bool) {
	v.mu.Lock()
	inst, begun := v.first, v.started && then()
	v.started = v.started && !begun
	if !v.shares {
		v.first = nil
	}
	v.mu.Unlock()
	if begun {
		v.stage.lastWord(inst)
	}
}

// start returns an instance that is started.
func (v *Version) start(ctx Context) (Instance, error) {
	if v.rollout != nil {
		return v.rollout.start(ctx)
	}
	first, begun, ok := v.join()
	switch {
	case !ok:
		return nil, errRetired
	case v.shares:
		if !begun { // a shared worker came before the stage's keeper
			if err := v.StartTrial(); err != nil {
				v.left()
				return nil, err
			}
		}
		return lent{first}, nil
	case begun:
		return first, nil
	}
	inst, err := v.startFresh(ctx, first)
	if err != nil {
		v.left()
		return nil, err
	}
	return inst, nil
}

// startFresh starts an instance, and makes it if there is none.
func (v *Version) startFresh(ctx Context, inst Instance) (Instance, error) {
	err := Guard(v.stage.Inbox.Name(), func() (err error) {
		if inst == nil {
			if inst, err = v.build(); err != nil {
				return err
			}
		}
		if err := inst.Start(ctx); err != nil {
			return plain.Wrap(fmt.Sprintf("stage %q: start", v.stage.Inbox.Name()), err)
		}
		return nil
	})
	return inst, err
}

// join counts an instance to come, and gives out the first if nobody has it. It reports
// false if the version is retired.
func (v *Version) join() (first Instance, begun, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.retired {
		return nil, false, false
	}
	v.live++
	first, begun = v.first, v.started
	if !v.shares {
		v.first, v.started = nil, false
	}
	return first, begun, true
}

// another counts one instance more of a version of which the caller has one.
func (v *Version) another() {
	v.mu.Lock()
	v.live++
	v.mu.Unlock()
}

// left counts an instance that has been stopped. With the last of a version that is
// retired the version is over.
func (v *Version) left() {
	v.mu.Lock()
	v.live--
	over := v.retired && v.live == 0 && !v.over
	v.over = v.over || over
	begun, release, idle := v.started, v.release, v.idle()
	v.started = v.started && !over
	v.mu.Unlock()
	if !over {
		if idle {
			v.halt(v.idle)
		}
		return
	}
	if begun {
		v.stage.lastWord(v.first)
	}
	if release != nil {
		release(nil)
	}
	v.end()
	v.stage.moving.Add(-1)
}

func (v *Version) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	if v.done != nil {
		close(v.done)
	}
}

// Done is closed when the last instance of a version that is retired has been stopped.
func (v *Version) Done() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done == nil {
		v.done = make(chan struct{})
		if v.ended {
			close(v.done)
		}
	}
	return v.done
}

// retire has the version make no further instance.
func (v *Version) retire() {
	v.mu.Lock()
	v.retired = true
	v.live++ // this one who stops what nobody has used
	var unused Instance
	if v.started && !v.shares {
		unused, v.first, v.started = v.first, nil, false
	}
	v.mu.Unlock()
	if unused != nil {
		v.stage.lastWord(unused)
	}
	v.left()
}

// adopt takes an instance of another version over, as far as it is of use: what is not
// is stopped. It returns nil if nothing is.
func (v *Version) adopt(inst Instance) Instance {
	want := v
	if v.rollout != nil {
		want = v.rollout.versions[before]
	}
	if b, ok := inst.(*Both); ok {
		inst = b.keep(want)
	} else if inst.Of() != want {
		StopInstance(v.stage, inst)
		inst = nil
	}
	if inst == nil || v.rollout == nil {
		return inst
	}
	return v.rollout.wrap(inst)
}
