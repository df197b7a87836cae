package main

import (
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
)

type none = struct{}

// board has the resources and their states.
type board struct {
	resources []rpc.Address

	mu       sync.Mutex // guards the fields below
	on       int
	mostOn   int
	turnedOn []string
}

// resource is the init of a resource. It knows nothing of rules, except that a
// resource that is on cannot be turned on.
func (b *board) resource(name string, hold time.Duration) func(p *rpc.Process) error {
	return func(p *rpc.Process) error {
		on := false
		rpc.Func(p, "turn_on", func(c coroutine.Context, _ none) (none, error) {
			on = true
			b.turn(name, 1)
			return none{}, coroutine.Sleep(c, hold)
		})
		rpc.Func(p, "turn_off", func(c coroutine.Context, _ none) (none, error) {
			err := coroutine.Sleep(c, hold)
			b.turn(name, -1)
			on = false
			return none{}, err
		})
		p.Guard("turn_on", func(func(string) guard.Counters) bool { return !on })
		p.Guard("turn_off", func(count func(string) guard.Counters) bool { return on && count("turn_off").Current == 0 })
		return nil
	}
}

// turn notes that a resource was turned on or off.
func (b *board) turn(name string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on += by
	b.mostOn = max(b.mostOn, b.on)
	if by > 0 {
		b.turnedOn = append(b.turnedOn, name)
	}
}

// rounds returns how many rounds there were, from the beginning, in which each
// resource was turned on once.
func (b *board) rounds() (n int) {
	for round := range slices.Chunk(b.turnedOn, len(b.resources)) {
		if len(slices.Compact(slices.Sorted(slices.Values(round)))) < len(b.resources) {
			return n
		}
		n++
	}
	return n
}
