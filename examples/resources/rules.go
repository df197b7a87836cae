package main

import (
	"context"
	"sync/atomic"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// oneAtATime has a resource turned on when all others are off: when as many
// turn_off have ended as turn_on have begun.
func oneAtATime(of []rpc.Address) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		for _, r := range of {
			// counts from the start, though turn_off has no rule of its own
			s.Count(r, "turn_off")
			s.Constrain(r, "turn_on", func(guard.Request) bool {
				on := 0
				for _, r := range of {
					on += s.Count(r, "turn_on").Accepted - s.Count(r, "turn_off").Completed
				}
				return on == 0
			})
		}
	}
}

// oncePerRound has no resource turned on again before all others were.
func oncePerRound(of []rpc.Address) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		events := make([]synchronizer.Event, 0, len(of))
		for _, r := range of {
			events = append(events, synchronizer.Event{Of: r, Method: "turn_on"})
		}
		s.OncePerRound(events...)
	}
}

// The values of -rules.
const (
	rulesOne   = "one"
	rulesRound = "round"
	rulesBoth  = "both"
	rulesNone  = "none"
)

// synchronize starts the synchronizers, and returns how often they were
// started.
func (c config) synchronize(ctx context.Context, node *rpc.Node, of []rpc.Address) (*atomic.Int64, error) {
	var started atomic.Int64
	start := func(name string, rules func(s *synchronizer.Synchronizer)) error {
		f := fault{left: c.crash}
		_, err := node.Synchronize(ctx, name, func(s *synchronizer.Synchronizer) {
			started.Add(1)
			rules(s)
			f.add(s, of)
		})
		return err
	}
	if c.rules == rulesOne || c.rules == rulesBoth {
		if err := start("Sync_A", oneAtATime(of)); err != nil {
			return &started, err
		}
	}
	if c.rules == rulesRound || c.rules == rulesBoth {
		if err := start("Sync_B", oncePerRound(of)); err != nil {
			return &started, err
		}
	}
	return &started, nil
}

// fault is a constraint that panics now and then. It outlives the incarnations
// of its synchronizer, one of which runs at a time.
type fault struct {
	left      int // panics that are still to come
	evaluated int
}

// between is how many evaluations there are from one panic to the next.
const between = 7

func (f *fault) add(s *synchronizer.Synchronizer, of []rpc.Address) {
	for _, r := range of {
		s.Constrain(r, "turn_on", func(guard.Request) bool {
			if f.evaluated++; f.left > 0 && f.evaluated%between == 0 {
				f.left--
				panic("a fault, as intended")
			}
			return true
		})
	}
}
