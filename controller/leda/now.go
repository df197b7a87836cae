package leda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/golda-dev/golda/controller"
)

// Why a method decided nothing. Errors are wrapped with the method and what was asked
// for; compare with errors.Is.
var (
	// ErrUnknown is of a stage or a pool that is not there.
	ErrUnknown = errors.New("there is no such thing")
	// ErrNumber is of a number that the method cannot do anything with.
	ErrNumber = errors.New("not a number for this")
	// ErrNoFunction is of a nil function.
	ErrNoFunction = errors.New("no function to call")
	// ErrOutside is of a method that was called when no event was being answered.
	ErrOutside = errors.New("leda: nothing can be decided outside of a call")
)

func unknownStage(method string, st Stage) error {
	return fmt.Errorf("leda: %s: stage %q: %w", method, string(st), ErrUnknown)
}

func unknownPool(method string, p Pool) error {
	return fmt.Errorf("leda: %s: pool %q: %w", method, string(p), ErrUnknown)
}

func negative(method string, n int) error { return wrong(method, n, "it is less than none") }

func wrong(method string, n int, why string) error {
	return fmt.Errorf("leda: %s: %d: %w: %s", method, n, ErrNumber, why)
}

func nothing(method string) error { return fmt.Errorf("leda: %s: %w", method, ErrNoFunction) }

// because is a reason for the journal.
func because(format string, args ...any) string { return "script: " + fmt.Sprintf(format, args...) }

// take begins a call. The snapshot is lent, and gets changed here; so it is copied.
func (l *Leda) take(s *controller.Snapshot, d *controller.Decisions) {
	stages, pools := l.now.Stages[:0], l.now.Pools[:0]
	stages, pools = append(stages, s.Stages...), append(pools, s.Pools...)
	l.now, l.d = *s, d
	l.now.Stages, l.now.Pools = stages, pools
}

// forget drops the stages that are gone. One that comes back is a new one.
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

// release ends a call and lets go of all that was lent. The memory is kept.
func (l *Leda) release() {
	clear(l.now.Stages)
	clear(l.now.Pools)
	l.now = controller.Snapshot{Stages: l.now.Stages[:0], Pools: l.now.Pools[:0]}
	l.d = nil
}

// decide says something into the decisions, and does it to the snapshot: by itself, as
// every wish sets and none adds. What is read next is what [controller.Settle] will
// make of it.
func (l *Leda) decide(say func(d *controller.Decisions)) error {
	if l.d == nil {
		return ErrOutside
	}
	say(l.d)
	l.scratch.Reset()
	say(&l.scratch)
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
		st.FreeInstances += c.After.(int) - c.Before.(int) // less than none, if some that work are to go
		st.Instances = c.After.(int)
	case controller.KnobPriority:
		st.Priority = c.After.(int)
	case controller.KnobCapacity:
		st.QueueCap = c.After.(int)
	case controller.KnobEnabled:
		st.Enabled = c.After.(bool)
	default: // nobody reads it back
	}
}

// staff gives a pool its workers. A pool that is not there is made.
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
	default: // a snapshot without pools
	}
}

func nameOf(st *controller.StageStats) Stage { return Stage(st.Name) }

// poolOf is where a stage is.
func poolOf(st *controller.StageStats) Pool { return Pool(cmp.Or(st.Pool, st.Name)) }

// at is the place of a stage, [controller.NoStage] if it has none.
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

// read tells something of a stage, and nothing of one that is not there. It is no
// method, for the sake of its types.
func read[T any](l *Leda, st Stage, what func(*controller.StageStats) T) (none T) {
	if id := l.at(st); id >= 0 {
		return what(&l.now.Stages[id])
	}
	return none
}
