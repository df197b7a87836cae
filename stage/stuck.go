package stage

import (
	"cmp"
	"slices"
	"time"

	"github.com/golda-dev/golda/worker"
)

// Stuck is a handler that had not returned when a report was made.
type Stuck struct {
	Stage string
	For   time.Duration // how long its worker has been at its present batch
	// Command is the type of command that the stage takes.
	Command string
	// At is the innermost call of the user's code, see [worker.Place]: there it is stuck, or
	// just happens to be. It is empty if the stack was not found.
	At string
	// Stack is the stack of its goroutine.
	Stack []byte
}

// AtWork returns the handlers that run now in workers of the pools, those that have run for
// longest first. If there are any it stops the world to find their stacks, so it is for a
// report.
func AtWork(pools []*Pool) []Stuck {
	busy := map[*worker.Worker]time.Duration{}
	for _, p := range pools {
		p.busy(busy)
	}
	if len(busy) == 0 {
		return nil
	}
	workers := make([]*worker.Worker, 0, len(busy))
	for w := range busy {
		workers = append(workers, w)
	}
	stacks := worker.Stacks(workers)
	all := make([]Stuck, 0, len(busy))
	for w, d := range busy {
		if w.Busy() == 0 {
			continue // it has returned meanwhile
		}
		all = append(all, Stuck{Stage: w.At(), For: d, Stack: stacks[w], At: worker.Place(stacks[w])})
	}
	slices.SortFunc(all, func(a, b Stuck) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Stage, b.Stage))
	})
	return all
}

// busy notes which workers are at a batch, and for how long they have been.
func (p *Pool) busy(of map[*worker.Worker]time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.slots {
		if d := w.Busy(); d > 0 {
			of[w] = d
		}
	}
}

// Takes is the type of the stage's commands, in words.
func (c *Core) Takes() string { return c.kind.name() }
