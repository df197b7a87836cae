package policy_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller"
)

// sim is one stage in virtual time under a controller: random arrivals or a queue that is always full, workers that
// each handle one command at a time, and CPUs for which they may compete. It advances in steps of a millisecond.
type sim struct {
	rate     float64       // arrivals a second; below zero: the queue is always full
	service  time.Duration // of one command that has a CPU to itself, if it computes
	random   bool          // the service time is exponential with that mean
	cores    float64       // how many commands compute at full speed together; 0: they wait rather than compute
	blind    bool          // the controller does not know the CPU usage
	capacity int

	chance *rand.Rand
	c      controller.Controller
	stage  controller.StageStats
	now    time.Duration
	next   time.Duration // time of the next tick
	every  time.Duration
	seen   controller.Counters
	left   []time.Duration // of work, for each busy worker
	used   float64         // of the CPUs, since the last tick, in steps
	steps  float64

	journal []controller.Change
}

const step = time.Millisecond

func (s *sim) start(law controller.Policy, least, most int) *sim {
	s.chance = rand.New(rand.NewPCG(7, 11))
	s.c = law.New()
	s.stage = controller.StageStats{
		Name: "s", QueueCap: s.capacity, Workers: least, MinWorkers: least, MaxWorkers: most, Instances: most, Enabled: true,
	}
	s.ask(controller.EventStart)
	return s
}

// run advances the time.
func (s *sim) run(d time.Duration) *sim {
	for end := s.now + d; s.now < end; {
		s.arrive()
		s.begin()
		if s.rate < 0 {
			s.arrive()
		}
		s.work()
		s.now += step
		if s.now >= s.next {
			s.ask(controller.EventTick)
		}
	}
	return s
}

func (s *sim) arrive() {
	n := s.capacity - s.stage.QueueLen
	if s.rate >= 0 {
		n = min(n, s.poisson(s.rate*step.Seconds()))
	}
	s.stage.QueueLen += n
	s.stage.Total.Accepted += uint64(n)
}

func (s *sim) poisson(mean float64) (n int) {
	for p := s.chance.Float64(); p > math.Exp(-mean); n++ {
		p *= s.chance.Float64()
	}
	return n
}

func (s *sim) begin() {
	for len(s.left) < s.stage.Workers && s.stage.QueueLen > 0 {
		s.stage.QueueLen--
		need := s.service
		if s.random {
			need = time.Duration(s.chance.ExpFloat64() * float64(need))
		}
		s.left = append(s.left, need)
	}
}

func (s *sim) work() {
	speed := 1.0
	if s.cores > 0 {
		speed = min(1, s.cores/float64(len(s.left)))
		s.used += min(1, float64(len(s.left))/s.cores)
	}
	s.steps++
	s.stage.Total.Busy += time.Duration(len(s.left)) * step
	s.stage.Total.Idle += time.Duration(max(s.stage.Workers-len(s.left), 0)) * step
	rest := s.left[:0]
	for _, left := range s.left {
		if left -= time.Duration(speed * float64(step)); left > 0 {
			rest = append(rest, left)
		} else {
			s.stage.Total.OK++
		}
	}
	s.left = rest
}

func (s *sim) ask(kind controller.EventKind) {
	st := s.stage
	st.Busy, st.InHand = len(s.left), len(s.left)
	st.Window = st.Total.Sub(s.seen)
	s.seen = st.Total
	shown := &controller.Snapshot{At: s.now, CPUs: 2, Stages: []controller.StageStats{st}}
	if !s.blind && s.steps > 0 {
		shown.CPUUsage = max(s.used/s.steps, 0.01)
		s.used, s.steps = 0, 0
	}
	var d controller.Decisions
	if err := controller.Ask(s.c, controller.Event{Kind: kind, Stage: controller.NoStage}, shown, &d); err != nil {
		panic(err)
	}
	if d.Interval() > 0 {
		s.every = d.Interval()
	}
	s.next = s.now + s.every
	changes, faults := controller.Settle("sim", shown, &d)
	if len(faults) > 0 {
		panic(faults[0])
	}
	for _, c := range changes {
		s.stage.Workers = c.After.(int)
	}
	s.journal = append(s.journal, changes...)
}

// most returns the maximum number of changes within any minute after a time.
func (s *sim) mostChanges(after time.Duration) (most int) {
	for i, first := range s.journal {
		if first.At < after {
			continue
		}
		n := 0
		for _, c := range s.journal[i:] {
			if c.At-first.At < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
