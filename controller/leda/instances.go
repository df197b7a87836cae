package leda

import (
	"github.com/golda-dev/golda/controller"
)

// InstancesGroup has the methods about instances: how many workers may be at a
// stage at once.
type InstancesGroup struct {
	l *Leda
}

// Add (A.5.1) allows more workers at a stage at once.
//
// In the appendix a stage starts without instances. Here the pipeline makes the
// stages, each with some, so addInstances(stage, 10) of the listings means Add
// or Kill until there are ten.
func (g *InstancesGroup) Add(st Stage, instances int) error {
	return g.change("instances.add", st, instances, 1)
}

// Kill (A.5.2) allows fewer workers at a stage at once, but at least one.
//
// In LStage it crashed, or held a lock for ever (L15).
func (g *InstancesGroup) Kill(st Stage, instances int) error {
	return g.change("instances.kill", st, instances, -1)
}

func (g *InstancesGroup) change(method string, st Stage, n, sign int) error {
	id, err := g.l.find(method, st)
	if err != nil {
		return err
	}
	if n < 0 {
		return negative(method, n)
	}
	now := g.l.now.Stages[id].Instances
	why := because("%s(%d) with %d", method, n, now)
	return g.l.decide(func(d *controller.Decisions) { controller.KnobInstances.Set(d, id, add(now, sign*n), why) })
}

// GetInstanceCount (A.5.3) returns how many workers may be at a stage at once.
//
// The listings call it getInstancesCount. LStage returned the number of idle
// instances that it could hold, and -1 where there was no bound (L14).
func (g *InstancesGroup) GetInstanceCount(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int { return s.Instances })
}

// GetFreeInstancesCount (A.5.4) returns how many instances of a stage are
// combined with no command: no worker uses them, and no command waits for a
// worker with one of them. It is 0 if GetQueueSize is greater than 0.
//
// The appendix declares it void and then describes its result.
func (g *InstancesGroup) GetFreeInstancesCount(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int {
		return max(s.FreeInstances, 0) - combined(s)
	})
}

// combined returns how many waiting commands LEDA would have combined with a
// free instance.
func combined(s *controller.StageStats) int {
	return max(0, min(s.QueueLen, s.FreeInstances))
}
