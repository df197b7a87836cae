package policy_test

import (
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// defects says which of the defects of ERLDA's controller a port of it has. The numbers are those of the list in the
// project's notes on policies.
type defects struct {
	e1  bool // the new state is discarded: check_stage_balance ends in "State."
	e2  bool // last_action_ms is 0 on a clock that starts far below zero
	e3  bool // workers refuse at 50 waiting, but adding one needs more than 100
	e4  bool // the minimum is the constant 10, where every stage starts
	e19 bool // remove_worker keeps 1, the controller 10; nothing restores 10
	e22 bool // the policy is fixed: the numbers are in the code
}

var allDefects = defects{e1: true, e2: true, e3: true, e4: true, e19: true, e22: true}

// original is a port of check_stage_balance with the given defects. With all of them it is the published program; with
// one it shows that the scenario for that defect tests nothing else; with none it is the law.
type original struct {
	has   defects
	law   policy.ERLDA
	state map[string]balance
}

// balance holds what check_stage_balance got and should have returned changed.
type balance struct {
	hot, cold    int
	acted        bool
	lastActionMS int64
}

func newOriginal(law policy.ERLDA, has defects) controller.Controller {
	if has.e22 {
		law = policy.ERLDA{}
	}
	return &original{has: has, law: spelledOut(law), state: make(map[string]balance)}
}

// spelledOut returns ERLDA's constants: ?UP, ?DOWN, ?K, ?COOLDOWN_MS.
func spelledOut(law policy.ERLDA) policy.ERLDA {
	if law.Up == 0 {
		law.Up, law.Down = 100, 10
	}
	if law.Samples == 0 {
		law.Samples = 1
	}
	if law.Cooldown == 0 {
		law.Cooldown = 2 * time.Second
	}
	return law
}

func (o *original) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		d.Every(time.Second)
	}
	if ev.Kind != controller.EventTick {
		return
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		after := o.checkStageBalance(st, monotonicMS(s.At), o.state[st.Name], d)
		if !o.has.e1 {
			o.state[st.Name] = after
		}
	}
}

// monotonicMS returns erlang:monotonic_time(millisecond) as it was seen on OTP 25.
func monotonicMS(at time.Duration) int64 { return -576460751799 + at.Milliseconds() }

func (o *original) checkStageBalance(
	st *controller.StageStats, now int64, b balance, d *controller.Decisions,
) balance {
	least, most := o.bounds(st)
	if !o.has.e19 && st.Workers < least {
		controller.KnobWorkers.Set(d, st.ID, least, "below the minimum")
		return b
	}
	queue, up, down := o.sample(st)
	b.hot, b.cold = next(b.hot, queue > up), next(b.cold, queue < down)
	switch may := o.may(now, b); {
	case may && b.hot >= o.law.Samples && st.Workers < most:
		controller.KnobWorkers.Set(d, st.ID, st.Workers+1, "add_worker")
	case may && b.cold >= o.law.Samples && st.Workers > least:
		controller.KnobWorkers.Set(d, st.ID, o.removeWorker(st), "remove_worker")
	default:
		return b
	}
	return balance{acted: true, lastActionMS: now}
}

func (o *original) bounds(st *controller.StageStats) (least, most int) {
	if o.has.e4 {
		return 10, 200
	}
	return st.MinWorkers, st.MaxWorkers
}

// sample returns the longest of the workers' mailboxes, none of which takes more than 50; the thresholds do not take
// this limit into account.
func (o *original) sample(st *controller.StageStats) (queue, up, down int) {
	if o.has.e3 {
		return min(st.QueueLen, 50), o.law.Up, o.law.Down
	}
	up = min(o.law.Up, st.QueueCap/2)
	return st.QueueLen, up, min(o.law.Down, max(1, up))
}

func (o *original) may(now int64, b balance) bool {
	if !o.has.e2 && !b.acted {
		return true
	}
	return now-b.lastActionMS >= o.law.Cooldown.Milliseconds()
}

func (o *original) removeWorker(st *controller.StageStats) int {
	if o.has.e19 {
		return max(1, st.Workers-1)
	}
	return max(st.MinWorkers, st.Workers-1)
}

func next(n int, again bool) int {
	if again {
		return n + 1
	}
	return 0
}
