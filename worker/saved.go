package worker

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/trial"
)

// Saved is the state of an instance as it was when a command had ended. A fresh instance that comes after a crash begins with
// it. The worker that has the instance has its saved state too.
type Saved struct {
	snapshot func() any
	restore  func(any) error
	every    int // commands after which the state is saved
	since    int // commands since it was
	state    any // nil: none
	flaw     error
}

// SavedOf returns the saved state, empty as yet, of a behaviour that has snapshots: one after so many commands each. It
// returns nil for any other behaviour.
func SavedOf(b any, every int) *Saved {
	s, saves := b.(behaviour.Snapshotter)
	r, restores := b.(behaviour.Restorer)
	switch {
	case saves && restores:
		return &Saved{snapshot: s.Snapshot, restore: r.Restore, every: max(every, 1)}
	case saves:
		return &Saved{flaw: fmt.Errorf("%T is a Snapshotter and no Restorer: it has no Restore(any) error", b)}
	case restores:
		return &Saved{flaw: fmt.Errorf("%T is a Restorer and no Snapshotter: it has no Snapshot() any", b)}
	default:
		return nil
	}
}

// Flaw returns why the behaviour cannot be used; nil if it can. The receiver may be nil.
func (s *Saved) Flaw() error {
	if s == nil {
		return nil
	}
	return s.flaw
}

// Note saves the state after n further commands, if it is time to. It calls user code, which may panic.
func (s *Saved) Note(n int) {
	s.since += n
	if s.since >= s.every {
		s.save()
	}
}

func (s *Saved) save() { s.state, s.since = s.snapshot(), 0 }

// Restore gives the behaviour a state, and saves a copy of its own. It calls user code, which may panic.
func (s *Saved) Restore(state any) error {
	if err := s.restore(state); err != nil {
		return err
	}
	s.save()
	return nil
}

// take removes the saved state and returns it. What commands have changed since is lost.
func (s *Saved) take() (state any) {
	state, s.state, s.since = s.state, nil, 0
	return state
}

// saveLast saves the state of an instance that no command crashed, and that is about to be stopped, for the next instance.
func (s *Stage) saveLast(inst Instance) {
	if _, two := inst.(*pair); two {
		return // each part is stopped by itself
	}
	saved := inst.Saved()
	if saved == nil {
		return
	}
	if saved.since > 0 {
		if err := Guard(s.Inbox.Name(), func() error { saved.save(); return nil }); err != nil {
			s.LogPanic("an instance that stops has no snapshot; an older one is kept", err)
		}
	}
	inst.Of().keep(saved.take())
}

// keepState keeps the saved state of an instance whose handler crashed for the next instance.
func keepState(inst Instance) {
	if p, two := inst.(*pair); two {
		inst = p.parts[p.side]
	}
	if inst == nil {
		return
	}
	if saved := inst.Saved(); saved != nil {
		inst.Of().keep(saved.take())
	}
}

// copyState begins the instance of a canary with the state of the old version's, unless it has one.
func (p *pair) copyState(to Instance) error {
	from, into := p.parts[trial.Before].Saved(), to.Saved()
	if from == nil || into == nil || into.state != nil {
		return nil
	}
	return Guard(p.rollout.stage.Inbox.Name(), func() error {
		state := from.snapshot()
		if state == nil {
			return nil
		}
		return into.Restore(state)
	})
}

// dropState discards the saved state of an instance.
func dropState(inst Instance) {
	if p, two := inst.(*pair); two {
		dropState(p.parts[0])
		dropState(p.parts[1])
		return
	}
	if inst == nil {
		return
	}
	if saved := inst.Saved(); saved != nil {
		saved.take()
	}
}

// keep keeps a state for an instance of the version, or of the one that has replaced it. There are never more than
// instances in use at once: each is that of an instance that is gone.
func (v *Version) keep(state any) {
	for ; state != nil && v != nil; v = v.heirOrKeep(state) {
	}
}

// heirOrKeep keeps a state and returns nil, or returns the version that has replaced this one; nil if there is none.
func (v *Version) heirOrKeep(state any) (heir *Version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.phase != making {
		return v.heir
	}
	v.states = append(v.states, state)
	return nil
}

// restored gives an instance that has started a state that was kept. If the instance cannot be restored, the result is a fresh
// one.
func (v *Version) restored(ctx context.Context, inst Instance, state any) (Instance, error) {
	saved := inst.Saved()
	if saved == nil {
		return inst, nil
	}
	err := Guard(v.stage.Inbox.Name(), func() error { return saved.Restore(state) })
	if err == nil {
		return inst, nil
	}
	v.stage.LogPanic("an instance could not be restored; a fresh one begins without its state", err)
	v.stage.callStop(inst)
	return v.startFresh(ctx, nil)
}

// takeStateLocked returns the state that was kept last; nil if there is none.
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
