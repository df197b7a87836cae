package worker

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/trial"
)

// pair is an instance that is two, one of each version, while a canary is on trial. Its worker aims it at one of them before
// each command. So one worker keeps the order of its commands, whichever version handles them.
type pair struct {
	rollout *Rollout
	parts   [2]Instance // the canary's is made when it is first needed
	side    int         // which part handles the present command
	aiming  bool        // that is being decided; it stays true if the key function of the trial does not return
	picks   []bool      // which commands of a batch the canary gets
	answers []answer    // of the same batch, while its parts are handled
}

// answer is what a version returned for one command of a batch.
type answer struct {
	outcome behaviour.Outcome
	given   bool
}

// extract takes the part of a version out and stops the other one, whose state is lost. It returns nil if there is no such
// part; then the other one leaves its state.
func (p *pair) extract(want *Version) (kept Instance) {
	for i, part := range p.parts {
		if part != nil && part.Of() == want {
			kept, p.parts[i] = part, nil
		}
	}
	if kept != nil {
		dropState(p)
	}
	StopInstance(p.rollout.stage, p)
	return kept
}

// copyState begins the instance of a canary with the state of the old version's, unless it has one.
func (p *pair) copyState(to Instance) error {
	from, into := p.parts[trial.Before].Saved(), to.Saved()
	if from == nil || into == nil || into.state != nil {
		return nil
	}
	return Guard(p.rollout.stage.Inbox.Name(), func() error {
		state := from.snapshot()
		if state == nil {
			return nil
		}
		return into.Restore(state)
	})
}

// keepState keeps the saved state of an instance whose handler crashed for the next instance.
func keepState(inst Instance) {
	if p, two := inst.(*pair); two {
		inst = p.parts[p.side]
	}
	if inst == nil {
		return
	}
	if saved := inst.Saved(); saved != nil {
		inst.Of().keep(saved.take())
	}
}

// dropState discards the saved state of an instance.
func dropState(inst Instance) {
	if p, two := inst.(*pair); two {
		dropState(p.parts[0])
		dropState(p.parts[1])
		return
	}
	if inst == nil {
		return
	}
	if saved := inst.Saved(); saved != nil {
		saved.take()
	}
}

// split leaves only the part that crashed, and returns a pair with the other part; nil if there is none.
func (p *pair) split() Instance {
	other := 1 - p.side
	if p.parts[other] == nil {
		return nil
	}
	rest := &pair{rollout: p.rollout}
	rest.parts[other], p.parts[other] = p.parts[other], nil
	p.rollout.of.retain()
	return rest
}

// ensureOld ensures that there is an instance of the old version.
func (p *pair) ensureOld(ctx context.Context) error {
	if p.parts[trial.Before] != nil {
		return nil
	}
	inst, err := p.rollout.versions[trial.Before].acquire(ctx)
	if err == nil {
		p.parts[trial.Before] = inst
	}
	return err
}

// aim decides which version handles a command. Until that is decided, whatever goes wrong is charged to the canary: a key
// function that panics, too.
func (p *pair) aim(e *command.Envelope) {
	p.side, p.aiming = trial.Before, false
	if e.Proven() || !p.rollout.OnTrial() {
		return
	}
	p.side, p.aiming = trial.After, true
	e.Prove(true)
	if !p.rollout.trial.PicksNew(e.Command()) || !p.ensureCanary() {
		p.side = trial.Before
		e.Prove(false)
	}
	p.aiming = false
}

// ensureCanary makes the canary's instance, if there is none. If it cannot be made, the trial is over.
func (p *pair) ensureCanary() bool {
	if p.parts[trial.After] != nil {
		return true
	}
	inst, err := p.rollout.versions[trial.After].acquire(p.rollout.stage.Context)
	if err == nil {
		if err = p.copyState(inst); err != nil {
			StopInstance(p.rollout.stage, inst)
		}
	}
	if err != nil {
		p.rollout.failed(err)
		return false
	}
	p.parts[trial.After] = inst
	return true
}

// aimAll aims at each command of a batch.
func (p *pair) aimAll(batch []command.Envelope) {
	p.picks = p.picks[:0]
	for i := range batch {
		p.aim(&batch[i])
		p.picks = append(p.picks, p.side == trial.After)
	}
}

// Of returns the rollout as a version.
func (p *pair) Of() *Version { return p.rollout.of }

// Start does nothing: the parts have been started.
func (p *pair) Start(context.Context) error { return nil }

// Stop stops the parts.
func (p *pair) Stop() {
	for i, part := range p.parts {
		if part != nil {
			p.parts[i] = nil
			StopInstance(p.rollout.stage, part)
		}
	}
}

// Stops returns true: the parts leave their versions when they are stopped.
func (p *pair) Stops() bool { return true }

// Version returns the version of the part that handles the present command.
func (p *pair) Version() string { return p.rollout.versions[p.side].Name() }

// Saved returns nil: the parts have a state each.
func (p *pair) Saved() *Saved { return nil }

// Suspends reports whether the versions suspend: either both do, or none.
func (p *pair) Suspends() bool { return p.parts[p.side].Suspends() }

// Many reports whether both versions are Batchers. If only one is, it is given batches of one command.
func (p *pair) Many() bool {
	return p.rollout.versions[trial.Before].batches() && p.rollout.versions[trial.After].batches()
}

// Handle handles one command.
func (p *pair) Handle(ctx context.Context, load any) behaviour.Outcome {
	part := p.parts[p.side]
	if !part.Many() {
		return part.Handle(ctx, load)
	}
	return checked(part.HandleMany(ctx, []command.Envelope{{Load: load}}), 1)[0]
}

// HandleEach implements [Instance]. The worker does not call it, because it aims a pair before each command.
func (p *pair) HandleEach(ctx context.Context, w *Worker, batch Batch) {
	halted := w.Halts()
	for i := range batch {
		if halted.Load() {
			return
		}
		w.Settle(p.Handle(ctx, batch[i].Load))
	}
}

// HandleMany implements [Instance]. The worker does not call it, because it has each version handle its part.
func (p *pair) HandleMany(ctx context.Context, batch Batch) []behaviour.Outcome {
	return p.parts[p.side].HandleMany(ctx, batch)
}

// part returns what one side gets of a batch that was aimed at.
func (p *pair) part(side int, batch []command.Envelope) (part []command.Envelope) {
	for i := range batch {
		if p.picks[i] == (side == trial.After) {
			part = append(part, batch[i])
		}
	}
	return part
}

// note keeps the outcomes of one side's part of a batch until the other part has been handled too.
func (p *pair) note(side int, outcomes []behaviour.Outcome) {
	for i := range p.answers {
		if p.picks[i] == (side == trial.After) {
			p.rollout.note(side, outcomes[0].Err() != nil)
			p.answers[i], outcomes = answer{outcomes[0], true}, outcomes[1:]
		}
	}
}

// given returns the outcomes that were noted, and moves their commands to the front of the batch. The order within either
// group stays.
func (p *pair) given(batch []command.Envelope) (outcomes []behaviour.Outcome) {
	var rest []command.Envelope
	for i, a := range p.answers {
		if a.given {
			batch[len(outcomes)] = batch[i]
			outcomes = append(outcomes, a.outcome)
		} else {
			rest = append(rest, batch[i])
		}
	}
	copy(batch[len(outcomes):], rest)
	p.answers = nil
	return outcomes
}
