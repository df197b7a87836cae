package worker

import (
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// The two sides of a rollout.
const (
	before = 0
	after  = 1
)

// Both is an instance that is two, one of each version, while a canary is on trial. Its
// worker aims it at one of them before each command. That is how one worker keeps the
// order of its commands, whichever version handles them.
type Both struct {
	rollout *Rollout
	parts   [2]Instance // that of the canary is made when it is first needed
	side    int         // whose turn it is
	picks   []bool      // of a batch, what the canary gets
	answers []answer    // of the same batch, while its parts are handled
}

// answer is what a version returned for one command of a batch.
type answer struct {
	outcome behaviour.Outcome
	given   bool
}

// keep takes the part of a version out; all others are stopped. It returns nil if there is
// no such part.
func (b *Both) keep(want *Version) (kept Instance) {
	for i, p := range b.parts {
		if p != nil && p.Of() == want {
			kept, b.parts[i] = p, nil
		}
	}
	StopInstance(b.rollout.stage, b)
	return kept
}

// split leaves only the part that crashed, and returns one with the other part; nil if
// there is none.
func (b *Both) split() Instance {
	other := 1 - b.side
	if b.parts[other] == nil {
		return nil
	}
	rest := &Both{rollout: b.rollout}
	rest.parts[other], b.parts[other] = b.parts[other], nil
	b.rollout.of.another()
	return rest
}

// complete sees to it that there is an instance of the version before the canary.
func (b *Both) complete(ctx Context) error {
	if b.parts[before] != nil {
		return nil
	}
	inst, err := b.rollout.versions[before].start(ctx)
	if err == nil {
		b.parts[before] = inst
	}
	return err
}

// aim says which version handles a command. Until that is known, whatever goes wrong is
// the canary's affair: a key that panics, too.
func (b *Both) aim(e *command.Envelope) {
	b.side = before
	if e.Proven() || !b.rollout.OnTrial() {
		return
	}
	b.side = after
	e.Prove(true)
	if !b.rollout.picksNew(e.Cmd) || !b.ready() {
		b.side = before
		e.Prove(false)
	}
}

// ready makes the canary's instance, if there is none. If it cannot be made the trial is
// over.
func (b *Both) ready() bool {
	if b.parts[after] != nil {
		return true
	}
	inst, err := b.rollout.versions[after].start(b.rollout.stage.Context)
	if err != nil {
		b.rollout.failed(err)
		return false
	}
	b.parts[after] = inst
	return true
}

// aimAll aims at each command of a batch.
func (b *Both) aimAll(batch []command.Envelope) {
	b.picks = b.picks[:0]
	for i := range batch {
		b.aim(&batch[i])
		b.picks = append(b.picks, b.side == after)
	}
}

// Of is the rollout, as a version.
func (b *Both) Of() *Version { return b.rollout.of }

// Start does nothing: the parts have been started.
func (b *Both) Start(Context) error { return nil }

// Stop stops the parts.
func (b *Both) Stop() {
	for i, p := range b.parts {
		if p != nil {
			b.parts[i] = nil
			StopInstance(b.rollout.stage, p)
		}
	}
}

// Stops returns true: the parts leave their versions when they are stopped.
func (b *Both) Stops() bool { return true }

// Version is that of the part whose turn it is.
func (b *Both) Version() string { return b.rollout.versions[b.side].Name() }

// Suspends reports whether both versions suspend: either both do, or none.
func (b *Both) Suspends() bool { return b.parts[b.side].Suspends() }

// Many reports whether both versions are Batchers. If only one is, it is given batches of
// one.
func (b *Both) Many() bool {
	return b.rollout.versions[before].batches() && b.rollout.versions[after].batches()
}

// Handle handles one command.
func (b *Both) Handle(ctx Context, cmd any) behaviour.Outcome {
	p := b.parts[b.side]
	if !p.Many() {
		return p.Handle(ctx, cmd)
	}
	return checked(p.HandleMany(ctx, []command.Envelope{{Cmd: cmd}}), 1)[0]
}

// HandleEach is for an instance that is one; the worker aims a Both before each command.
func (b *Both) HandleEach(ctx Context, w *Worker, batch []command.Envelope) {
	halted := w.Halts()
	for i := range batch {
		if halted.Load() {
			return
		}
		w.Settle(b.Handle(ctx, batch[i].Cmd))
	}
}

// HandleMany is for an instance that is one; the worker has each version handle its part.
func (b *Both) HandleMany(ctx Context, batch []command.Envelope) []behaviour.Outcome {
	return b.parts[b.side].HandleMany(ctx, batch)
}

// part is what one side gets of a batch that was aimed at.
func (b *Both) part(side int, batch []command.Envelope) (part []command.Envelope) {
	for i := range batch {
		if b.picks[i] == (side == after) {
			part = append(part, batch[i])
		}
	}
	return part
}

// note keeps the outcomes of one side's part of a batch until the other part has been handled too.
func (b *Both) note(side int, outcomes []behaviour.Outcome) {
	for i := range b.answers {
		if b.picks[i] == (side == after) {
			b.rollout.note(side, outcomes[0].Err() != nil)
			b.answers[i], outcomes = answer{outcomes[0], true}, outcomes[1:]
		}
	}
}

// given returns the outcomes that are there, and moves their commands to the front of the batch. The order within
// either group stays.
func (b *Both) given(batch []command.Envelope) (outcomes []behaviour.Outcome) {
	var rest []command.Envelope
	for i, a := range b.answers {
		if a.given {
			batch[len(outcomes)] = batch[i]
			outcomes = append(outcomes, a.outcome)
		} else {
			rest = append(rest, batch[i])
		}
	}
	copy(batch[len(outcomes):], rest)
	b.answers = nil
	return outcomes
}

// checked panics if a Batcher has not returned an outcome for each command.
func checked(outcomes []behaviour.Outcome, n int) []behaviour.Outcome {
	if len(outcomes) != n {
		panic(fmt.Sprintf("HandleBatch was given %d commands and returned %d outcomes", n, len(outcomes)))
	}
	return outcomes
}
