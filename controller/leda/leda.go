package leda

import (
	"github.com/golda-dev/golda/controller"
)

// Stage identifies a stage (stage_t) by its name. It may be kept, even if its
// stage is removed.
type Stage string

// All is every stage, for MaxEventsWhenFocused: the appendix's "all".
const All Stage = "*"

// Pool identifies a pool of threads (pool_t) by its name. A stage's own pool
// has the stage's name, and a group that the pipeline declares is a pool, too.
type Pool string

// Global is the pool of all stages that were not given another one. In a script
// that governs a group (pipeline.ControlFor) it is the group's pool: each of
// LEDA's aglomerados has a controller and a global pool of its own.
const Global Pool = "leda"

// Leda is the handle of a script, and the first of the five groups: methods
// about queues. Only the script and the functions that it registers may use it,
// and no other goroutines.
type Leda struct {
	Pool       *PoolGroup
	Monitoring *MonitoringGroup
	Scheduler  *SchedulerGroup
	Instances  *InstancesGroup

	// The state of one call.
	d *controller.Decisions // nil outside of a call
	// now is the call's snapshot, as changed by its decisions.
	now     controller.Snapshot
	scratch controller.Decisions

	// The state of the run.
	private bool           // polled instead of shared
	placed  map[Stage]bool // set by SetPool
	apart   map[Stage]bool // kept out of the global pool because that has too few workers, and noted in the journal
}

func newLeda() *Leda {
	l := &Leda{placed: make(map[Stage]bool), apart: make(map[Stage]bool)}
	l.Pool = &PoolGroup{l: l}
	l.Monitoring = &MonitoringGroup{l: l, zero: make(map[Stage]controller.Counters), ended: make(map[Pool]uint64)}
	l.Scheduler = &SchedulerGroup{l: l, bounds: make(map[Stage]int)}
	l.Instances = &InstancesGroup{l: l}
	return l
}

// Stages returns all stages, in the order of the pipeline. It is not one of the
// 33 methods: in the appendix the script makes the stages, here the pipeline
// does.
func (l *Leda) Stages() []Stage {
	stages := make([]Stage, 0, len(l.now.Stages))
	for i := range l.now.Stages {
		stages = append(stages, nameOf(&l.now.Stages[i]))
	}
	return stages
}

// UsePrivateQueues (A.1.1) makes workers go from stage to stage instead of
// sharing one queue: all pools that visit other stages than their owner become
// polled.
//
// The appendix allows it once, at the start, and returns 0 or 1. Here it may be
// called at any time, and cannot fail. In LStage workers in this mode never
// slept (L1), and a command could be left behind between two queues (L7); both
// depend on the engine, which has neither defect.
func (l *Leda) UsePrivateQueues() { l.private = true }

// SetQueueCapacity (A.1.2) sets how many commands a stage's queue may hold, at
// least one.
//
// The appendix drops commands beyond the capacity. Here the stage's overflow
// rule decides, and the commands that the queue holds already stay.
func (l *Leda) SetQueueCapacity(st Stage, maxSize int) error {
	id, err := l.find("setQueueCapacity", st)
	if err != nil {
		return err
	}
	why := because("setQueueCapacity(%d)", maxSize)
	return l.decide(func(d *controller.Decisions) { controller.KnobCapacity.Set(d, id, maxSize, why) })
}

// GetQueueCapacity (A.1.3) returns how many commands a stage's queue may hold.
func (l *Leda) GetQueueCapacity(st Stage) int {
	return read(l, st, func(s *controller.StageStats) int { return s.QueueCap })
}

// DisableQueue (A.1.4) makes a stage take no more commands. The commands that
// wait there are handled.
//
// LStage counted the commands that it refused as input (L11); here they are
// rejected, or shed if another stage forwarded them.
func (l *Leda) DisableQueue(st Stage) error { return l.enable("disableQueue", st, false) }

// EnableQueue (A.1.5) makes a stage take commands again.
func (l *Leda) EnableQueue(st Stage) error { return l.enable("enableQueue", st, true) }

func (l *Leda) enable(method string, st Stage, on bool) error {
	id, err := l.find(method, st)
	if err != nil {
		return err
	}
	why := because("%s", method)
	return l.decide(func(d *controller.Decisions) { controller.KnobEnabled.Set(d, id, on, why) })
}

// QueueIsEnabled (A.1.6) reports whether a stage takes commands.
func (l *Leda) QueueIsEnabled(st Stage) bool {
	return read(l, st, func(s *controller.StageStats) bool { return s.Enabled })
}
