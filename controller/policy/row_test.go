package policy_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// row is a row of stages under a controller. It does what the engine does between two ticks, as far as a controller
// can see it.
type row struct {
	now     time.Duration
	stages  []controller.StageStats
	pools   []controller.PoolStats // the shared ones
	usage   float64                // of the CPUs; 0: not known
	entry   controller.Admission
	c       controller.Controller
	journal *steer.Journal
	err     error // the first error
}

// newRow starts a controller over stages with a capacity of 1024 commands, 10 to 200 workers, ten running, and
// batches of up to 64, unless the given stats say otherwise.
func newRow(c controller.Controller, stages ...controller.StageStats) *row {
	if len(stages) == 0 {
		stages = []controller.StageStats{{}}
	}
	f := &row{c: c, stages: stages, journal: steer.NewJournal(4096)}
	for i := range stages {
		stages[i] = furnished(stages[i], i)
	}
	f.ask(controller.EventStart)
	return f
}

func furnished(st controller.StageStats, i int) controller.StageStats {
	st.ID, st.Name = controller.StageID(i), fmt.Sprintf("stage %d", i)
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

// ask calls the controller and applies the changes. The window of a stage at a tick shows what happened just before,
// and is part of the total from then on.
func (f *row) ask(kind controller.EventKind) {
	if kind == controller.EventTick {
		for i := range f.stages {
			f.stages[i].Total = plus(f.stages[i].Total, f.stages[i].Window)
		}
	}
	s := &controller.Snapshot{At: f.now, CPUs: 2, CPUUsage: f.usage, Entry: f.entry, Stages: slices.Clone(f.stages), Pools: slices.Clone(f.pools)}
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
	f.journal.Add(slices.DeleteFunc(changes, func(c controller.Change) bool { return c.What == controller.KnobGate })...)
}

// turn applies a change of workers, of a stage or of a group, of a batch, or of a gate. The journal is without gates.
func (f *row) turn(c controller.Change) {
	if c.Stage == controller.NoStage {
		s := controller.Snapshot{Pools: f.pools}
		s.Pool(c.StageName).Workers = c.After.(int)
		return
	}
	if c.Stage == controller.Entry {
		f.admit(c)
		return
	}
	switch n := &f.stages[c.Stage]; c.What {
	case controller.KnobWorkers:
		n.Workers = c.After.(int)
	case controller.KnobBatch:
		n.Batch = c.After.(controller.Batch)
	case controller.KnobGate:
		n.Admission.Gate, _ = c.After.(controller.Gate)
	default:
	}
}

// admit applies a change of the entry.
func (f *row) admit(c controller.Change) {
	if x, ok := c.After.(controller.Shed); ok {
		f.entry.Shed = x
	}
}

// run lets a second pass for each queue length, which all stages have, and returns the workers of the first stage after
// each.
func (f *row) run(queue ...int) []int {
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

// expect ends a scenario: it returns an error if the result differs from what is expected.
func (f *row) expect(promise string, want, got any) error {
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

// by returns how many workers a change adds.
func by(c controller.Change) int { return c.After.(int) - c.Before.(int) }
