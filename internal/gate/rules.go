package gate

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/plain/apart"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

// ErrPolicy refuses a command because a policy says so.
var ErrPolicy = errors.New("stage: turned away by a policy")

// Rules are the gates that a policy has set. The zero Rules let all commands
// in.
type Rules struct {
	set atomic.Pointer[rules]
}

// rules are the gates of one [controller.Admission], in the order in which they
// are asked. They are replaced as a whole.
type rules struct {
	gates []Gate
	limit int
	rate  *rate       // of gates; nil if there is none
	seen  *priorities // by one of the gates; nil if there is none that asks for priorities
}

// Set replaces the gates. A rate takes over the saved commands of the rate
// before.
func (r *Rules) Set(a controller.Admission, now int64) {
	before := r.set.Load()
	if before == nil && a == (controller.Admission{}) {
		return
	}
	next := &rules{limit: a.Limit}
	if a.Gate != nil {
		next.gates = append(next.gates, policy{a.Gate})
	}
	if a.Shed != (controller.Shed{}) {
		if next.seen = new(priorities); before != nil && before.seen != nil {
			next.seen = before.seen
		}
		next.gates = append(next.gates, shed{a.Shed, next.seen})
	}
	if a.Rate.PerSecond > 0 {
		next.rate = newRate(a.Rate, now)
		if before != nil && before.rate != nil {
			next.rate.inherit(before.rate)
		}
		next.gates = append(next.gates, next.rate)
	}
	r.set.Store(next)
}

// Any reports whether rules were ever set.
func (r *Rules) Any() bool { return r.set.Load() != nil }

// Limit returns how many commands may be in flight, 0 for any number.
func (r *Rules) Limit() int {
	if set := r.set.Load(); set != nil {
		return set.limit
	}
	return 0
}

// Priorities returns the priorities of recent commands, in no order; nil if no
// gate asks for them.
func (r *Rules) Priorities() []int {
	if set := r.set.Load(); set != nil && set.seen != nil {
		return set.seen.list()
	}
	return nil
}

// Admit asks the gates in turn, until one refuses the command.
func (r *Rules) Admit(at Door, e command.Envelope) (reason.Reason, error) {
	set := r.set.Load()
	if set == nil {
		return "", nil
	}
	for _, g := range set.gates {
		if why, err := g.Admit(at, e); err != nil {
			return why, err
		}
	}
	return "", nil
}

// policy asks a gate of the user.
type policy struct{ gate controller.Gate }

// Admit refuses the command also if the user's gate panics.
func (p policy) Admit(at Door, e command.Envelope) (reason.Reason, error) {
	queued, capacity := at.Filled()
	if err := p.ask(e.Command(), queued, capacity); err != nil {
		return reason.Policy, plain.Because(ErrPolicy, "", err)
	}
	return "", nil
}

// ErrPanic says that a gate of the user refuses because it panicked.
var ErrPanic = errors.New("its gate panicked")

func (p policy) ask(cmd any, queued, capacity int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %s", ErrPanic, apart.Text(v))
		}
	}()
	return p.gate.Admit(cmd, queued, capacity)
}

// shed refuses a share of the commands, and commands of low priority.
type shed struct {
	controller.Shed

	seen *priorities
}

// Admit refuses a command in favour of others.
func (s shed) Admit(at Door, e command.Envelope) (reason.Reason, error) {
	priority := 0
	if p, ok := e.Command().(queue.Prioritized); ok {
		priority = priorityOf(p)
	}
	s.seen.note(priority, at.Chance())
	if share := s.Share(priority); share > 0 && at.Chance() < share {
		return reason.Policy, ErrPolicy
	}
	return "", nil
}

// priorityOf returns the priority of a command, 0 if its method panics.
func priorityOf(p queue.Prioritized) (n int) {
	defer func() {
		if recover() != nil {
			n = 0
		}
	}()
	return p.Priority()
}
