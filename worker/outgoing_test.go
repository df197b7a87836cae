package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// boxTo returns an outbox to a stage of a name.
func boxTo(name string) *outbox {
	return &outbox{to: inbox.New(inbox.Config{Name: name, Capacity: 1, Batch: 1})}
}

// loads returns what commands carry.
func loads(es []command.Envelope) (all []any) {
	for i := range es {
		all = append(all, es[i].Load)
	}
	return all
}

func pledged(o *outgoing) (all []string) {
	for _, p := range o.pledged {
		all = append(all, fmt.Sprint(p.to.Name(), p.e.Load))
	}
	return all
}

func TestTheLaneGoesBeforeTheOutboxThatItSpillsTo(t *testing.T) {
	a := boxTo("a")
	o := outgoing{lane: noLane, outs: []*outbox{a}}
	batch := []command.Envelope{{Load: 1}, {Load: 2}, {Load: 3}, {Load: 4}}
	o.startLane(a.to.Inlet(), a)
	o.pass(batch, &batch[0], "one")
	o.pass(batch, &batch[2], "three") // command 2 went nowhere
	require.True(t, o.pending())
	require.Equal(t, []any{"one", "three"}, loads(batch[:o.lane.n]))
	o.spill(batch)
	require.Equal(t, []any{nil, nil}, loads(batch[:2]), "they are no longer in the batch")
	o.load(a, nil).Load = "four"
	require.Equal(t, []any{"one", "three", "four"}, loads(a.items))
	require.EqualValues(t, 3, o.loaded)
	require.Same(t, noLane.inlet, o.lane.inlet)

	o.shift(a, 2)
	require.Equal(t, []any{"four"}, loads(a.items))
	o.shift(a, 1)
	require.False(t, o.pending())
}

func TestWhatATargetHasTakenDoesNotSpill(t *testing.T) {
	a := boxTo("a")
	o := outgoing{lane: noLane, outs: []*outbox{a}}
	batch := make([]command.Envelope, 3)
	o.startLane(a.to.Inlet(), a)
	for i := range batch {
		o.pass(batch, &batch[i], i)
	}
	o.endLane(batch, 2)
	require.Equal(t, []any{2}, loads(a.items))
	require.EqualValues(t, 1, o.loaded)
}

func TestEachCommandIsPledgedOnce(t *testing.T) {
	a, b := boxTo("a"), boxTo("b")
	o := outgoing{lane: noLane, outs: []*outbox{a, b}}
	batch := make([]command.Envelope, 3)
	o.startLane(a.to.Inlet(), a)
	o.pass(batch, &batch[0], 1)
	o.pledge(batch)
	o.pass(batch, &batch[1], 2)
	o.pledge(batch)
	o.spill(batch)
	o.load(b, nil).Load = 3
	o.load(a, nil).Load = 4
	o.pledge(batch)
	o.pledge(batch)
	require.Equal(t, []string{"a1", "a2", "a4", "b3"}, pledged(&o))
	o.redeem()
	require.Empty(t, o.pledged)
	o.pledge(batch) // they have not left yet, and the next batch begins
	require.Equal(t, []string{"a1", "a2", "a4", "b3"}, pledged(&o))
}

func TestASuccessorHasAllThatItsPredecessorHadToDeliver(t *testing.T) {
	a, b := boxTo("a"), boxTo("b")
	from := outgoing{lane: noLane, outs: []*outbox{a}}
	from.load(a, nil).Load = 1
	from.store(3)
	require.Nil(t, from.outs)
	from.fetch(7)
	require.Nil(t, from.outs, "the worker has not been there")
	from.outs = []*outbox{b}
	to := outgoing{lane: noLane}
	to.inherit(&from)
	require.False(t, from.pending())
	require.Equal(t, []*outbox{b}, to.outs)
	to.store(7)
	to.fetch(3)
	require.Equal(t, []any{1}, loads(to.outs[0].items))
	require.True(t, to.leadsTo([]*inbox.Inbox{b.to, a.to}))
	require.False(t, to.leadsTo([]*inbox.Inbox{b.to}))
	to.drop()
	require.False(t, to.pending())
}

// Whatever is put on the lane or into outboxes, spilled, and taken from the front leaves for each target in the order in which
// it came, and loaded counts what is in the outboxes.
func TestCommandsForATargetLeaveInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outs := []*outbox{boxTo("a"), boxTo("b")}
		o := outgoing{lane: noLane, outs: outs}
		var batch []command.Envelope
		want, got := [2][]any{}, [2][]any{}
		for n := range rapid.IntRange(0, 60).Draw(t, "commands") {
			to := rapid.IntRange(0, 1).Draw(t, "to")
			batch = append(batch, command.Envelope{})
			e := &batch[len(batch)-1]
			switch {
			case o.lane.out == outs[to]:
				o.pass(batch, e, n)
			case !o.pending():
				o.startLane(outs[to].to.Inlet(), outs[to])
				o.pass(batch, e, n)
			default:
				o.spill(batch)
				o.load(outs[to], nil).Load = n
			}
			want[to] = append(want[to], n)
			if rapid.Bool().Draw(t, "leaves") {
				if o.lane.n > 0 {
					gone := rapid.IntRange(0, int(o.lane.n)).Draw(t, "gone")
					at := 0
					if o.lane.out == outs[1] {
						at = 1
					}
					got[at] = append(got[at], loads(batch[:gone])...)
					o.endLane(batch, gone)
				}
				for i, out := range outs {
					gone := rapid.IntRange(0, len(out.items)).Draw(t, "gone")
					got[i] = append(got[i], loads(out.items[:gone])...)
					o.shift(out, gone)
				}
				batch = batch[:0]
			}
			require.EqualValues(t, len(outs[0].items)+len(outs[1].items), o.loaded)
		}
		o.spill(batch)
		for i, out := range outs {
			require.Equal(t, want[i], append(got[i], loads(out.items)...))
		}
	})
}

func TestWhatIsNotSentIsHeldInOrder(t *testing.T) {
	full := errors.New("full")
	var sent []any
	left := 2
	send := func(_ context.Context, m emission) error {
		if left == 0 {
			return full
		}
		left--
		sent = append(sent, m.load)
		return nil
	}
	var e emits
	for n := range 4 {
		e.hold(emission{load: n})
	}
	require.Equal(t, full, e.send(t.Context(), send))
	require.Equal(t, []any{0, 1}, sent)
	require.Len(t, e.held, 2)
	e.unhold() // the last one was not taken
	left = 9
	require.NoError(t, e.send(t.Context(), send))
	require.Equal(t, []any{0, 1, 2}, sent)
	require.Empty(t, e.held)
	e.hold(emission{load: 5})
	e.recall()
	require.Empty(t, e.held)
}
