package control

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
)

// An operator changes the desired state, too. A bound that an operator sets is
// one that policies see, and decide within. A knob that an operator sets is
// held: what policies wish for it has no effect until the operator gives it
// back. Both outlive a change of policies.

// operation is the request of an operator, whose name the journal has.
type operation struct {
	who   string
	do    Operation
	entry *uint64    // gets the number of the entry in the journal before done has a result
	done  chan error // has a buffer of one
}

// Operation is one of the verbs below.
type Operation func(a *loopActor, who string) (controller.Change, error)

// Operate carries out an operation. The channel receives the result. If that is
// nil, entry has the number of the entry in the journal, else nothing has
// changed.
func (l *Loop) Operate(who string, do Operation, entry *uint64) <-chan error {
	m := operation{who, do, entry, make(chan error, 1)}
	l.request(m)
	return m.done
}

// Note adds an entry to the journal about something that the operator has done
// without the loop.
func (l *Loop) Note(who, what, stage string, before, after any, why string) uint64 {
	return l.write(controller.Change{
		At: time.Duration(l.Host.Now()), Policy: who, Stage: controller.NoStage, StageName: stage, What: named(what),
		Before: before, After: after, Why: why,
	})
}

// stage returns a stage of this process, and its number in a snapshot.
func (a *loopActor) stage(name string) (*engine.Core, *stageState, controller.StageID, error) {
	stages := a.loop.Pipeline.Stages()
	i := slices.IndexFunc(stages, func(c *engine.Core) bool { return c.Name() == name })
	st := a.loop.state.stages[name]
	switch {
	case i < 0 || st == nil:
		return nil, nil, 0, fmt.Errorf("stage %q: %w", name, ErrNoStage)
	case stages[i].Process() != "":
		return nil, nil, 0, fmt.Errorf("stage %q runs in process %q: ask there", name, stages[i].Process())
	default:
		return stages[i], st, controller.StageID(i), nil
	}
}

// ErrNoStage reports that there is no stage of a name.
var ErrNoStage = errors.New("there is no stage of that name")

// PauseStage pauses a stage, or resumes it.
func PauseStage(name string, on bool) Operation {
	return func(a *loopActor, _ string) (controller.Change, error) {
		_, st, id, err := a.stage(name)
		if err != nil {
			return controller.Change{}, err
		}
		ch := controller.Change{Stage: id, StageName: name, What: named("paused"), Before: st.paused, After: on, Why: "asked to"}
		a.loop.state.SetPaused(name, on)
		return ch, nil
	}
}

// Resize sets the bounds of the number of workers of a stage's own pool, or of a
// group. With most 0 they are the declared ones again.
func Resize(name string, fewest, most int) Operation {
	return func(a *loopActor, _ string) (controller.Change, error) {
		if most != 0 && (fewest < 1 || fewest > most || most > controller.MostWorkers) {
			return controller.Change{}, fmt.Errorf("%q: resize to %d to %d workers: use at least 1, at most %d, and the smaller number first",
				name, fewest, most, controller.MostWorkers)
		}
		if p := a.loop.state.pools[name]; p != nil && p.group {
			return a.resizeGroup(p, fewest, most), nil
		}
		return a.resizeStage(name, fewest, most)
	}
}

func (a *loopActor) resizeStage(name string, fewest, most int) (controller.Change, error) {
	c, st, id, err := a.stage(name)
	if err != nil {
		return controller.Change{}, err
	}
	if st.group != name {
		return controller.Change{}, fmt.Errorf("stage %q has the workers of group %q: resize the group", name, st.group)
	}
	if most == 0 {
		fewest, most = c.Spec().Declared()
	}
	if bound := c.Preset().Instances; most > bound && !c.Spec().Grows() {
		return controller.Change{}, fmt.Errorf("stage %q: at most %d workers find an instance to use: see stage.Instances", name, bound)
	}
	ch := controller.Change{Stage: id, StageName: name, What: knobBounds, Before: bounds(c.Bounds()), After: bounds(fewest, most), Why: "asked to"}
	c.SetBounds(part.Seal{}, fewest, most)
	st.workers = min(max(st.workers, fewest), most)
	st.knobs.Instances = max(st.knobs.Instances, c.Preset().Instances)
	return ch, nil
}

func (a *loopActor) resizeGroup(p *poolState, fewest, most int) controller.Change {
	if most == 0 {
		i := slices.IndexFunc(a.loop.Groups, func(g Group) bool { return g.Name == p.name })
		fewest, most = a.loop.Groups[i].Fewest, a.loop.Groups[i].Most
	}
	ch := controller.Change{
		Stage: controller.NoStage, StageName: p.name, What: knobBounds, Before: bounds(p.fewest, p.most), After: bounds(fewest, most), Why: "asked to",
	}
	p.fewest, p.most = fewest, most
	p.workers = min(max(p.workers, fewest), most)
	return ch
}

var knobBounds controller.Knob = named("bounds")

// bounds returns bounds in words.
func bounds(fewest, most int) string { return fmt.Sprintf("%d to %d", fewest, most) }

// hold sets a knob and holds it. If release is true, the knob is the policies'
// again from now on.
func hold[T any](a *loopActor, who string, knob *controller.Setting[T], of controller.StageID, name string, value T, release bool) (controller.Change, error) {
	l := a.loop
	s := l.snapshot(l.Pipeline.Read(false))
	var d controller.Decisions
	why := "held"
	if release {
		why = "given back to the policy"
	}
	knob.Set(&d, of, value, why)
	changes, faults := controller.Settle(who, s, &d)
	if len(faults) > 0 {
		return controller.Change{}, errors.Join(faults...)
	}
	ch := controller.Change{Stage: of, StageName: name, What: knob, Before: value, After: value, Why: why}
	if len(changes) > 0 {
		ch = changes[0]
	}
	l.state.apply(ch)
	if key := (heldKnob{knob, ch.StageName}); release {
		delete(l.state.held, key)
	} else {
		if l.state.held == nil {
			l.state.held = held{}
		}
		l.state.held[key] = ch
	}
	return ch, nil
}

// HoldRate holds the rate at which a stage, or the pipeline if the name is
// empty, admits commands. With no limit it is the policies' again.
func HoldRate(name string, rate controller.Rate) Operation {
	return func(a *loopActor, who string) (controller.Change, error) {
		id, of := controller.Entry, "entry"
		if name != "" {
			var err error
			if _, _, id, err = a.stage(name); err != nil {
				return controller.Change{}, err
			}
			of = name
		}
		return hold(a, who, controller.KnobRate, id, of, rate, rate.PerSecond == 0)
	}
}

// HoldCapacity holds the capacity of a stage's queue. With 0 it is the capacity
// of the options, and the policies' again.
func HoldCapacity(name string, slots int) Operation {
	return func(a *loopActor, who string) (controller.Change, error) {
		c, _, id, err := a.stage(name)
		if err != nil {
			return controller.Change{}, err
		}
		if slots < 0 {
			return controller.Change{}, fmt.Errorf("stage %q: a capacity of %d: use a positive number, or 0 for the one of the options", name, slots)
		}
		release := slots == 0
		if release {
			slots = c.Preset().Capacity
		}
		return hold(a, who, controller.KnobCapacity, id, name, slots, release)
	}
}

// UseFor replaces the policies of the pipeline's controller for a time; 0 is for
// good. Another replacement before the time is over cancels the way back.
func UseFor(policies []controller.Policy, d time.Duration) Operation {
	return func(a *loopActor, who string) (controller.Change, error) {
		l := a.loop
		l.mu.Lock()
		before := slices.Clone(l.policies[""])
		l.mu.Unlock()
		if t := l.temporary; t != nil {
			before = t.before
		}
		why := "asked to"
		if d > 0 {
			why = fmt.Sprintf("for %v, then back to %s", d, namesOf(before))
		}
		number, err := a.replace("", policies, who, why)
		if err == nil && d > 0 {
			t := &temporary{before: before}
			t.timer = time.AfterFunc(d, func() { l.Operate(who, back(t), new(uint64)) })
			l.temporary = t
		}
		return controller.Change{Number: number}, err
	}
}

// back ends a temporary policy, unless it has been replaced.
func back(t *temporary) Operation {
	return func(a *loopActor, who string) (controller.Change, error) {
		if a.loop.temporary != t {
			return controller.Change{}, errors.New("the policies have been replaced")
		}
		number, err := a.replace("", t.before, who, "the time is over")
		return controller.Change{Number: number}, err
	}
}
