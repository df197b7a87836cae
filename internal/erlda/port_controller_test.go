package erlda

import (
	"sync/atomic"
	"time"
)

// controllerState is stage_controller's record. The tests of controller/policy test the law defect by defect; here it
// is complete.
type controllerState struct {
	fewest, most    int
	up, down        int
	checkInterval   time.Duration
	hot, cold       int
	lastActionMS    int64 // 0, on a clock that starts far below zero
	cooldownMS      int64
	minSamplesToAct int
}

// spawnController is stage_controller:spawn_controller/2.
func spawnController(m *module, stage *process, ticks *atomic.Int64) *process {
	s := controllerState{
		fewest: 10, most: 200, up: 100, down: 10, checkInterval: time.Second,
		cooldownMS: 2000, minSamplesToAct: 1,
	}
	pid := m.node.spawn(func(self *process) {
		for {
			pause(self.ctx, s.checkInterval)
			self.check()
			ticks.Add(1)
			s = m.checkStageBalance(stage, s)
		}
	})
	m.node.register(m.name+"_controller", pid)
	return pid
}

// checkStageBalance samples and acts, and returns the state that it was given. It continues when the stage is dead.
func (m *module) checkStageBalance(stage *process, s controllerState) controllerState {
	if stage.isAlive() {
		longest, workers := m.maxWorkerQueue(), len(m.node.lookup(m.key()))
		after := s
		switch {
		case longest > s.up:
			after.hot, after.cold = s.hot+1, 0
		case longest < s.down:
			after.hot, after.cold = 0, s.cold+1
		default:
			after.hot, after.cold = 0, 0
		}
		_ = m.maybeScale(workers, after)
	}
	return s
}

// maxWorkerQueue returns the longest of the workers' mailboxes.
func (m *module) maxWorkerQueue() int {
	longest := 0
	for _, w := range m.node.lookup(m.key()) {
		longest = max(longest, queueLen(w))
	}
	return longest
}

func (m *module) maybeScale(workers int, s controllerState) controllerState {
	canAct := m.node.monotonicMS()-s.lastActionMS >= s.cooldownMS
	switch {
	case s.hot >= s.minSamplesToAct && workers < s.most && canAct:
		m.addWorker()
		s.hot, s.lastActionMS = 0, m.node.monotonicMS()
	case s.cold >= s.minSamplesToAct && workers > s.fewest && canAct:
		m.removeWorker()
		s.cold, s.lastActionMS = 0, m.node.monotonicMS()
	}
	return s
}
