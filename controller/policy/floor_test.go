package policy_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// floor is a row of stages under a controller, as far as a controller can
// tell: what the shell does between two ticks, without the shell.
type floor struct {
	now     time.Duration
	stages  []controller.StageStats
	pools   []controller.PoolStats // those that are shared
	usage   float64                // of the CPUs; 0: not known
	c       controller.Controller
	journal *controller.Journal
	err     error // the first that went wrong
}

// newFloor starts a controller over stages with room for 1024 commands and 10 to
// 200 workers, ten of them at work, in batches of up to 64, unless they say otherwise.
func newFloor(c controller.Controller, stages ...controller.StageStats) *floor {
	if len(stages) == 0 {
		stages = []controller.StageStats{{}}
	}
	f := &floor{c: c, stages: stages, journal: controller.NewJournal(4096)}
	for i := range stages {
		stages[i] = furnished(stages[i], i)
	}
	f.ask(controller.EventStart)
	return f
}

func furnished(st controller.StageStats, i int) controller.StageStats {
	st.ID, st.Name = controller.StageID(i), fmt.Sprintf("room %d", i)
	if st.QueueCap == 0 {
		st.QueueCap = 1024
	}
	if st.MaxWorkers == 0 {
		st.MinWorkers, st.MaxWorkers = 10, 200
	}
	if st.Workers == 0 {
		st.Workers = 10
	}
	if st.Batch.Max == 0 {
		st.Batch.Max = 64
	}
	return st
}

// ask puts one question and makes the changes. What a stage's window shows at a tick
// happened just before, and is part of the total from then on.
func (f *floor) ask(kind controller.EventKind) {
	if kind == controller.EventTick {
		for i := range f.stages {
			f.stages[i].Total = plus(f.stages[i].Total, f.stages[i].Window)
		}
	}
	s := &controller.Snapshot{At: f.now, CPUs: 2, CPUUsage: f.usage, Stages: slices.Clone(f.stages), Pools: slices.Clone(f.pools)}
	var d controller.Decisions
	if err := controller.Ask(f.c, controller.Event{Kind: kind}, s, &d); err != nil && f.err == nil {
		f.err = err
	}
	changes, faults := controller.Settle("test", s, &d)
	if len(faults) > 0 && f.err == nil {
		f.err = faults[0]
	}
	for _, c := range changes {
		f.turn(c)
	}
	f.journal.Add(changes...)
}

// turn makes a change of workers, of a stage or of a group.
func (f *floor) turn(c controller.Change) {
	if c.Stage == controller.NoStage {
		s := controller.Snapshot{Pools: f.pools}
		s.Pool(c.StageName).Workers = c.After.(int)
		return
	}
	switch n := &f.stages[c.Stage]; c.What {
	case controller.KnobWorkers:
		n.Workers = c.After.(int)
	case controller.KnobBatch:
		n.Batch = c.After.(controller.Batch)
	default:
	}
}

// run lets a second pass for each queue length, which all stages have, and
// returns the workers of the first stage after each.
func (f *floor) run(queue ...int) []int {
	workers := make([]int, 0, len(queue))
	for _, n := range queue {
		f.now += time.Second
		for i := range f.stages {
			f.stages[i].QueueLen = min(n, f.stages[i].QueueCap)
		}
		f.ask(controller.EventTick)
		workers = append(workers, f.stages[0].Workers)
	}
	return workers
}

// during repeats a queue length.
func during(seconds, queue int) []int {
	return slices.Repeat([]int{queue}, seconds)
}

// expect is the end of a scenario: an error if it went otherwise than it should.
func (f *floor) expect(promise string, want, got any) error {
	if f.err != nil {
		return f.err
	}
	if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
		return fmt.Errorf("%s: want %s, got %s", promise, w, g)
	}
	return nil
}

func plus(a, b controller.Counters) controller.Counters {
	a.Accepted += b.Accepted
	a.OK += b.OK
	a.Forwarded += b.Forwarded
	a.Errors += b.Errors
	a.Shed += b.Shed
	a.DeadLettered += b.DeadLettered
	a.Busy += b.Busy
	a.Blocked += b.Blocked
	a.Idle += b.Idle
	return a
}

// by is how many workers a change makes more.
func by(c controller.Change) int { return c.After.(int) - c.Before.(int) }
