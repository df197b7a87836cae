package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/stage"
)

// outgoing is a command that the server is to take.
type outgoing[C any] struct {
	cmd C
	id  string
	of  context.Context // has its deadline and the values that it takes along; nil if there are none
	err error           // why it was not taken; nil if it was
}

// How long carry waits before it publishes again the commands that the server
// could not take.
const (
	firstWait   = 5 * time.Millisecond
	longestWait = time.Second
)

// carry publishes commands, in order, and waits for as long as the server
// cannot take one. A command that is published again has the same ID, so that
// the stream has it once. The contexts of the commands may be nil. It returns an
// error for each command, or nil if the server has all.
func (i *Inlet[C]) carry(ctx context.Context, cmds []C, of []context.Context) (errs []error) {
	all := make([]*outgoing[C], len(cmds))
	for n, cmd := range cmds {
		all[n] = &outgoing[C]{cmd: cmd, id: rand.Text()}
		if of != nil {
			all[n].of = of[n]
		}
	}
	for _, round := range i.rounds(all) {
		i.carryAll(ctx, round)
	}
	for n, s := range all {
		if s.err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(cmds))
		}
		errs[n] = s.err
	}
	return errs
}

// rounds returns the commands in groups to be published one after the other: of
// a keyed stage, each has at most one command of a partition, so that one which
// the server takes late does not come after the next.
func (i *Inlet[C]) rounds(all []*outgoing[C]) [][]*outgoing[C] {
	if i.keys.of == nil {
		return [][]*outgoing[C]{all}
	}
	var rounds [][]*outgoing[C]
	next := map[int]int{} // the round of a partition's next command
	for _, s := range all {
		part := i.keys.of(s.cmd)
		if next[part] == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[next[part]] = append(rounds[next[part]], s)
		next[part]++
	}
	return rounds
}

// chained reports whether the server may refuse a command and take the one
// after it. Of a keyed stage no two of a round belong together.
func (i *Inlet[C]) chained() bool {
	return (i.keys.parts == 0 || i.keys.fair != nil) && (i.o.MaxMessages > 0 || i.o.MaxBytes > 0)
}

// carryAll publishes commands until the server has taken or refused each, or
// ctx ends. After one that could not be taken it goes on with one, and then
// with twice as many each time.
func (i *Inlet[C]) carryAll(ctx context.Context, left []*outgoing[C]) {
	window, pause, waits := len(left), firstWait, false
	for len(left) > 0 {
		some := left[:min(window, len(left))]
		refused := i.carryOnce(ctx, some)
		left = slices.Concat(refused, left[len(some):])
		if len(refused) < len(some) {
			pause = firstWait
		}
		if len(refused) == 0 {
			window *= 2
			continue
		}
		if behind(refused[0].err) { // a message of another sender arrived between
			window = 2 * max(len(some)-len(refused), 1)
			continue
		}
		if i.isLost(ctx, refused[0].err) {
			continue
		}
		if !waits {
			waits = true
			i.o.Logger.Warn("the server takes no commands; the carrier waits",
				"inlet", i.name, "commands", len(left), "reason", refused[0].err)
		}
		select {
		case <-time.After(pause):
			window, pause = 1, min(2*pause, longestWait)
		case <-ctx.Done():
			for _, s := range left {
				s.err = context.Cause(ctx)
			}
			return
		}
	}
	if waits {
		i.o.Logger.Info("the server takes commands again", "inlet", i.name)
	}
}

// carryOnce publishes commands. It returns the refused commands that the server
// may take later.
func (i *Inlet[C]) carryOnce(ctx context.Context, some []*outgoing[C]) (refused []*outgoing[C]) {
	ids, cmds, of := make([]string, len(some)), make([]C, len(some)), make([]context.Context, len(some))
	for n, s := range some {
		ids[n], cmds[n], of[n] = s.id, s.cmd, s.of
	}
	errs := i.publishAll(ctx, ids, cmds, of, i.chained())
	for n, s := range some {
		s.err = nil
		if errs == nil || errs[n] == nil {
			continue
		}
		s.err = errs[n]
		_, denied := errors.AsType[*denial](s.err)
		if behind(s.err) {
			s.id = rand.Text() // a cluster remembers the IDs of refused messages
			refused = append(refused, s)
		} else if _, passes := stage.Overloaded(s.err); passes || denied {
			refused = append(refused, s)
		}
	}
	return refused
}
