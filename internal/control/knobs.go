package control

import (
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/queue"
)

// The desired state of a stage and of a pool has the value of each knob. Here
// are the two directions: a change sets the value, and a snapshot shows it.

// Options are the options of a stage, as far as they set knobs. An
// [engine.Core] has them.
type Options interface {
	Name() string
	Bounds() (fewest, most int) // of its own workers
	Preset() inbox.Knobs
	Discipline() queue.Discipline
}

// stageState is the desired state of a stage, and of its own pool.
type stageState struct {
	options    Options
	group      string // whose controller governs it, if it has one: the group that declares it, or else the stage itself
	pool       string // whose workers visit it; its own name for its own pool
	workers    int    // of its own pool, if it has workers of its own
	knobs      inbox.Knobs
	dispatch   controller.Dispatch // of its own pool; matters only if other stages are bound to it, too
	plan       *controller.VisitPlan
	discipline string
	admission  *controller.Admission // nil: no limit
	paused     bool                  // by the user, not by a policy
}

// poolState is the desired state of a shared pool.
type poolState struct {
	name         string
	group        bool // the pipeline declares it
	fewest, most int
	workers      int
	dispatch     controller.Dispatch
	plan         *controller.VisitPlan
}

// admits returns the stage's limit on commands from outside.
func (st *stageState) admits() controller.Admission {
	if st.admission == nil {
		return controller.Admission{}
	}
	return *st.admission
}

// own reports whether the stage has workers of its own.
func (st *stageState) own() bool { return st.pool == st.options.Name() }

// apply applies a change of a knob of the stage, or of its own pool.
func (st *stageState) apply(ch controller.Change) {
	switch ch.What {
	case controller.KnobDispatch:
		st.dispatch = ch.After.(controller.Dispatch)
	case controller.KnobVisit:
		st.plan, _ = ch.After.(*controller.VisitPlan)
	case controller.KnobWorkers:
		st.workers = ch.After.(int)
	case controller.KnobPool:
		st.bind(ch.After.(string))
	case controller.KnobInstances:
		st.knobs.Instances = ch.After.(int)
	case controller.KnobPriority:
		st.knobs.Priority = ch.After.(int)
	case controller.KnobBatch:
		b := ch.After.(controller.Batch)
		st.knobs.Batch, st.knobs.Linger = b.Max, b.Linger
	case controller.KnobCapacity:
		st.knobs.Capacity = ch.After.(int)
	case controller.KnobEnabled:
		st.knobs.Disabled = !ch.After.(bool)
	case controller.KnobDiscipline:
		st.discipline = ch.After.(string)
	case controller.KnobQuality:
		st.knobs.Quality = ch.After.(float64)
	case controller.KnobSojourn:
		st.knobs.Sojourn = uint32(ch.After.(time.Duration) / time.Microsecond)
	default:
		if st.admission == nil {
			st.admission = new(controller.Admission)
		}
		admit(st.admission, ch)
	}
}

// show writes the values of the stage's knobs into a snapshot, except for those
// of its own pool.
func (st *stageState) show(s *controller.StageStats) {
	s.Pool, s.Instances, s.Priority = st.pool, st.knobs.Instances, st.knobs.Priority
	s.Batch = controller.Batch{Max: st.knobs.Batch, Linger: st.knobs.Linger}
	s.QueueCap, s.Enabled, s.Quality = st.knobs.Capacity, !st.knobs.Disabled, st.knobs.Quality
	s.Sojourn, s.Discipline, s.Admission = time.Duration(st.knobs.Sojourn)*time.Microsecond, st.discipline, st.admits()
}

// bind moves a stage to another pool. A stage that returns to its own pool
// starts there with the fewest workers, until a policy decides otherwise.
func (st *stageState) bind(pool string) {
	st.pool = pool
	fewest, _ := st.options.Bounds()
	st.workers = fewest
}

// apply applies a change of a knob of the pool.
func (p *poolState) apply(ch controller.Change) {
	switch ch.What {
	case controller.KnobWorkers:
		p.workers = ch.After.(int)
	case controller.KnobDispatch:
		p.dispatch = ch.After.(controller.Dispatch)
	case controller.KnobVisit:
		p.plan, _ = ch.After.(*controller.VisitPlan)
	default:
	}
}

func admit(a *controller.Admission, ch controller.Change) {
	switch ch.What {
	case controller.KnobRate:
		a.Rate = ch.After.(controller.Rate)
	case controller.KnobLimit:
		a.Limit = ch.After.(int)
	case controller.KnobShed:
		a.Shed = ch.After.(controller.Shed)
	case controller.KnobGate:
		a.Gate, _ = ch.After.(controller.Gate)
	default:
	}
}
