package leda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/golda-dev/golda/controller"
)

// The reasons why a method decided nothing. Errors are wrapped with the method
// and its argument; compare with errors.Is.
var (
	// ErrUnknown reports a missing stage or pool.
	ErrUnknown = errors.New("no such stage or pool")
	// ErrNumber reports a number that the method does not accept.
	ErrNumber = errors.New("number out of range")
	// ErrNoFunction reports a nil function.
	ErrNoFunction = errors.New("nil function")
	// ErrOutside is returned by a method that is called when no event is being
	// handled.
	ErrOutside = errors.New("leda: a script can decide only during a call")
)

func unknownStage(method string, st Stage) error {
	return fmt.Errorf("leda: %s: stage %q: %w", method, string(st), ErrUnknown)
}

func unknownPool(method string, p Pool) error {
	return fmt.Errorf("leda: %s: pool %q: %w", method, string(p), ErrUnknown)
}

func negative(method string, n int) error { return wrong(method, n, "negative") }

func wrong(method string, n int, why string) error {
	return fmt.Errorf("leda: %s: %d: %w: %s", method, n, ErrNumber, why)
}

func nothing(method string) error { return fmt.Errorf("leda: %s: %w", method, ErrNoFunction) }

// because formats a reason for the journal.
func because(format string, args ...any) string { return "script: " + fmt.Sprintf(format, args...) }

// take starts a call. It copies the snapshot, because the snapshot belongs to
// the caller and is changed here.
func (l *Leda) take(s *controller.Snapshot, d *controller.Decisions) {
	stages, pools := l.now.Stages[:0], l.now.Pools[:0]
	stages, pools = append(stages, s.Stages...), append(pools, s.Pools...)
	l.now, l.d = *s, d
	l.now.Stages, l.now.Pools = stages, pools
}

// forget drops the data of stages that are gone. A stage that is added again
// counts as new.
func (l *Leda) forget(ev controller.Event) {
	known := max(len(l.placed), len(l.apart), len(l.Monitoring.zero), len(l.Scheduler.bounds))
	if ev.Kind != controller.EventTopology && known <= len(l.now.Stages) {
		return
	}
	keep(l, l.placed)
	keep(l, l.apart)
	keep(l, l.Monitoring.zero)
	keep(l, l.Scheduler.bounds)
}

func keep[V any](l *Leda, m map[Stage]V) {
	maps.DeleteFunc(m, func(st Stage, _ V) bool { return l.at(st) < 0 })
}

// release ends a call and drops all references to its arguments. It keeps the
// memory.
func (l *Leda) release() {
	clear(l.now.Stages)
	clear(l.now.Pools)
	l.now = controller.Snapshot{Stages: l.now.Stages[:0], Pools: l.now.Pools[:0]}
	l.d = nil
}

// decide makes a decision and applies it to the copy of the snapshot. It can
// apply it alone, since every wish sets and none adds. So the next read returns
// the value that [controller.Settle] will give.
func (l *Leda) decide(set func(d *controller.Decisions)) error {
	if l.d == nil {
		return ErrOutside
	}
	set(l.d)
	l.scratch.Reset()
	set(&l.scratch)
	changes, _ := controller.Settle("", &l.now, &l.scratch)
	for _, c := range changes {
		l.apply(c)
	}
	return nil
}

// apply makes a change in the snapshot, if a script can read it.
func (l *Leda) apply(c controller.Change) {
	if c.What == controller.KnobWorkers {
		l.staff(c)
		return
	}
	st := &l.now.Stages[c.Stage]
	switch c.What {
	case controller.KnobPool:
		st.Pool = c.After.(string)
	case controller.KnobInstances:
		st.FreeInstances += c.After.(int) - c.Before.(int) // negative if busy instances are removed
		st.Instances = c.After.(int)
	case controller.KnobPriority:
		st.Priority = c.After.(int)
	case controller.KnobCapacity:
		st.QueueCap = c.After.(int)
	case controller.KnobEnabled:
		st.Enabled = c.After.(bool)
	default: // no method reads the others
	}
}

// staff sets the workers of a pool. It makes a pool that is missing.
func (l *Leda) staff(c controller.Change) {
	n := c.After.(int)
	if c.Stage >= 0 {
		l.now.Stages[c.Stage].Workers = n
	}
	switch p := l.now.Pool(c.StageName); {
	case p != nil:
		p.Workers = n
	case c.Stage < 0:
		l.now.Pools = append(l.now.Pools, controller.PoolStats{
			Name: c.StageName, Workers: n, MinWorkers: 1, MaxWorkers: controller.MostWorkers,
		})
	default: // the snapshot has no pools
	}
}

func nameOf(st *controller.StageStats) Stage { return Stage(st.Name) }

// poolOf returns the pool of a stage.
func poolOf(st *controller.StageStats) Pool { return Pool(cmp.Or(st.Pool, st.Name)) }

// at returns the index of a stage, or [controller.NoStage] if it is missing.
func (l *Leda) at(st Stage) controller.StageID {
	for i := range l.now.Stages {
		if nameOf(&l.now.Stages[i]) == st {
			return controller.StageID(i)
		}
	}
	return controller.NoStage
}

func (l *Leda) find(method string, st Stage) (controller.StageID, error) {
	id := l.at(st)
	if id < 0 {
		return id, unknownStage(method, st)
	}
	return id, nil
}

// read returns a value of a stage, or the zero value if the stage is missing.
// It is a function and not a method because it has a type parameter.
func read[T any](l *Leda, st Stage, what func(*controller.StageStats) T) (none T) {
	if id := l.at(st); id >= 0 {
		return what(&l.now.Stages[id])
	}
	return none
}
