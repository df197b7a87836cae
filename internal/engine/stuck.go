package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/worker"
)

// Stuck is a handler that had not returned when a report was made. Package
// stage documents it.
type Stuck struct {
	Stage     string
	For       time.Duration // how long its worker has been at its present batch
	Command   string        // the type of command that the stage takes
	At        string        // the innermost call of the user's code, see [stacks.Place]; empty if the stack was not found
	Suspended bool          // the handler is suspended: it holds no worker
	// Waits is empty, or says that the handler waits for a stage: for a free
	// slot, or for the answer to a command.
	Waits   string
	Awaited string // the name of that stage
	Stack   []byte // of its goroutine
}

// AtWork returns the handlers that run now in workers of the pools, the
// longest-running first. A handler may wait for the stages given. If any
// handler runs, AtWork stops the world to find the stacks, so it is for reports
// only.
func AtWork(pools []*Pool, stages []*Core) []Stuck { return atWork(pools, stages, nil) }

// Busy returns the workers of pools that are at a batch, the longest first, by
// the names of the stages that they are at. Unlike AtWork it does not stop the
// world.
func Busy(pools []*Pool) []link.Busy {
	busy := map[*worker.Worker]time.Duration{}
	for _, p := range pools {
		p.busy(busy)
	}
	all := make([]link.Busy, 0, len(busy))
	for w, d := range busy {
		all = append(all, link.Busy{Stage: w.At(), For: d})
	}
	slices.SortFunc(all, func(a, b link.Busy) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Stage, b.Stage))
	})
	return all
}

// UnderWay is AtWork, with the suspended handlers of the stages, and the
// workers that run no handler and hold commands for a full stage.
func UnderWay(pools []*Pool, stages []*Core) []Stuck {
	staffs := make([]*worker.Stage, len(stages))
	for i, c := range stages {
		staffs[i] = c.staff
	}
	all := atWork(pools, stages, staffs)
	for _, c := range stages {
		for _, m := range c.inbox.Senders().Parked() {
			if w, ok := m.Owner.(*worker.Worker); ok {
				all = append(all, Stuck{Stage: w.At(), Waits: slotIn(c), Awaited: c.Name()})
			}
		}
	}
	return all
}

func atWork(pools []*Pool, stages []*Core, staffs []*worker.Stage) []Stuck {
	busy := map[*worker.Worker]time.Duration{}
	for _, p := range pools {
		p.busy(busy)
	}
	if len(busy) == 0 && staffs == nil {
		return nil
	}
	workers := slices.Collect(maps.Keys(busy))
	running, suspended := worker.Handlers(workers, staffs)
	all := make([]Stuck, 0, len(busy)+len(suspended))
	for w, d := range busy {
		if w.Busy() == 0 {
			continue // its handler has returned meanwhile
		}
		all = append(all, found(Stuck{Stage: w.At(), For: d, Stack: running[w]}, stages))
	}
	for run, stack := range suspended {
		all = append(all, found(Stuck{Stage: run.Stage(), Suspended: true, Stack: stack}, stages))
	}
	slices.SortFunc(all, func(a, b Stuck) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Stage, b.Stage))
	})
	return all
}

// found adds the place and the wait that the stack of a handler shows.
func found(h Stuck, stages []*Core) Stuck {
	h.At = stacks.Place(h.Stack)
	what, address := stacks.Awaits(h.Stack)
	if what == stacks.Answer {
		h.Waits = "the answer to a command that is at no stage"
	}
	for _, c := range stages {
		switch {
		case what == stacks.Slot && c.staff.IsAt(address):
			h.Waits, h.Awaited = slotIn(c), c.Name()
		case what == stacks.Answer && c.staff.Holds(address):
			h.Waits, h.Awaited = fmt.Sprintf("the answer to a command at stage %q", c.Name()), c.Name()
		}
	}
	return h
}

func slotIn(c *Core) string { return fmt.Sprintf("a free slot in stage %q", c.Name()) }

// busy adds the workers that are at a batch, and for how long they have been.
func (p *Pool) busy(of map[*worker.Worker]time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.slots {
		if d := w.Busy(); d > 0 {
			of[w] = d
		}
	}
}
