package policy

import (
	"time"

	"github.com/golda-dev/golda/controller"
)

// scaler sets the numbers of workers for an Objective: Backlog those of most
// pools, and Hill those of the stages that Backlog cannot help.
type scaler struct {
	backlog, hill controller.Controller
	stages        memory[climber]

	asked [2]time.Duration // when each was asked last
	every [2]time.Duration // and how long after that it wants to be asked again
	view  controller.Snapshot
}

// climber is the memory of a stage.
type climber struct {
	climbs bool          // Hill sets its workers
	since  time.Duration // since when it has been overloaded, or not
	hot    bool          // it is
}

// control asks the laws whose time has come, each about its own stages.
func (w *scaler) control(c *objective, ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	climbing := false
	for i := range s.Stages {
		climbing = w.choose(c, &s.Stages[i], s.At) || climbing
	}
	w.stages.forget(s)
	w.ask(0, w.backlog, c, ev, s, d, false)
	if climbing {
		w.ask(1, w.hill, c, ev, s, d, true)
	}
}

// choose decides which law sets the workers of a stage, and reports whether it
// is Hill.
func (w *scaler) choose(c *objective, st *controller.StageStats, now time.Duration) (climbs bool) {
	t := w.stages.of(st.Name)
	if !st.Blocking || !own(st) || st.MaxWorkers <= st.MinWorkers {
		t.climbs = false
		return false
	}
	narrow := c.load.narrow.name == st.Name
	if hot := c.pressing && (narrow || t.climbs); hot != t.hot {
		t.hot, t.since = hot, now
	}
	switch rate := c.load.stages.of(st.Name).handled / (demandOver.Seconds() / ln2); {
	case t.hot && now-t.since >= climbsAfter && rate >= climbsFrom:
		t.climbs = true
	case !t.hot && now-t.since >= climbsUntil:
		t.climbs = false
	}
	return t.climbs
}

// ln2 is the divisor of the sum of a rate over demandOver with the weights of an
// exponential decay.
const ln2 = 0.6931

// ask asks a law if its time has come. The stages of the other law look paused
// to it: all laws leave these alone.
func (w *scaler) ask(i int, law controller.Controller, c *objective, ev controller.Event, s *controller.Snapshot, d *controller.Decisions, climbs bool) {
	if ev.Kind == controller.EventTick && s.At-w.asked[i] < w.every[i]-c.every/2 {
		return
	}
	w.asked[i] = s.At
	stages := append(w.view.Stages[:0], s.Stages...)
	w.view = *s
	w.view.Stages = stages
	for at := range stages {
		if st := &stages[at]; w.stages.of(st.Name).climbs != climbs {
			st.Paused = true
		}
	}
	d.Every(c.every)
	law.Control(ev, &w.view, d)
	w.every[i] = d.Interval()
	w.name(c, s, d, climbs)
	clear(stages)
	w.view = controller.Snapshot{Stages: stages}
}

// name has the reasons for new numbers of workers name the aim. Those of Hill
// are many.
func (w *scaler) name(c *objective, s *controller.Snapshot, d *controller.Decisions, many bool) {
	named := func(why string) string { return c.name + ": " + why }
	is := func(why string) bool { return len(why) > len(c.name) && why[:len(c.name)] == c.name }
	for i := range s.Stages {
		id := controller.StageID(i)
		if n, why, ok := controller.KnobWorkers.Wish(d, id); ok && !is(why) {
			controller.KnobWorkers.Set(d, id, n, named(why))
			if many {
				d.Vary(id, "")
			}
		}
	}
	for i := range s.Pools {
		if n, why, ok := controller.KnobWorkers.PoolWish(d, s.Pools[i].Name); ok && !is(why) {
			controller.KnobWorkers.SetPool(d, s.Pools[i].Name, n, named(why))
		}
	}
}
