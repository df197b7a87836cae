package worker

import (
	"errors"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// Present is the version of which new instances are.
func (s *Stage) Present() *Version { return s.present.Load() }

// Install makes a version the present one. It is for the first.
func (s *Stage) Install(v *Version) { s.present.Store(v) }

// start makes an instance and starts it.
func (s *Stage) start(ctx Context) (Instance, error) {
	for {
		inst, err := s.Present().start(ctx)
		if !errors.Is(err, errRetired) {
			return inst, err
		}
	}
}

// renew has an instance follow the stage's versions. It returns nil if it was stopped.
func (s *Stage) renew(inst Instance) Instance {
	for inst != nil {
		now := s.Present()
		if inst.Of() == now {
			break
		}
		inst = now.adopt(inst)
	}
	return inst
}

// sweep renews the instances that nobody uses.
func (s *Stage) sweep() {
	stale := func(inst any) bool { return inst.(Instance).Of() != s.Present() }
	for {
		var seat inbox.Member
		if !s.Inbox.Borrow(&seat, stale) {
			return
		}
		seat.Instance = nilOr(s.renew(seat.Instance.(Instance)))
		s.Inbox.ReturnInstance(&seat)
		if inst, ok := seat.Surplus.(Instance); ok {
			StopInstance(s, inst)
		}
	}
}

// nilOr is an instance as the inbox knows it: none is nil.
func nilOr(inst Instance) any {
	if inst == nil {
		return nil
	}
	return inst
}

// StopInstance gives an instance of a stage its last word. It may panic for all the
// caller cares.
func StopInstance(s *Stage, inst Instance) {
	s.lastWord(inst)
	inst.Of().left()
}

// lastWord stops an instance. One without code of the user's needs no goroutine to run that in.
func (s *Stage) lastWord(inst Instance) {
	if !inst.Stops() {
		return
	}
	if err := Guard(s.Inbox.Name(), func() error { inst.Stop(); return nil }); err != nil {
		s.logPanic("instance did not stop well", err)
	}
}

// lent is a shared instance in the hand of one worker, who must neither start
// nor stop it.
type lent struct{ Instance }

func (lent) Start(Context) error { return nil }
func (lent) Stop()               {}
func (lent) Stops() bool         { return false }

// fit sees to it that the worker has an instance of the present version. It stops what is
// not of it before it makes what is.
func (w *Worker) fit() error {
	if w.instance == nil {
		w.instance, _ = w.Member.Instance.(Instance)
	}
	for {
		if w.stage.moving.Load() > 0 {
			w.renew()
		}
		if w.instance == nil {
			if err := w.start(); err != nil {
				return err
			}
		}
		b, ok := w.instance.(*Both)
		if !ok {
			return nil
		}
		err := b.complete(w.handling())
		if err == nil {
			w.both = b
		}
		if !errors.Is(err, errRetired) {
			return err
		}
	}
}

// renew has the worker's instance follow the stage's versions.
func (w *Worker) renew() {
	w.instance = w.stage.renew(w.instance)
	w.Member.Instance = nilOr(w.instance)
}

// refresh is for a worker of the stage's own that has nothing to do: it holds on to no
// instance that is out of date.
func (w *Worker) refresh() {
	if w.instance == nil || w.stage.moving.Load() == 0 {
		return
	}
	w.renew()
	if w.instance == nil {
		w.stage.Inbox.ReturnInstance(&w.Member)
	}
}

// handleBoth runs two versions of the behaviour on the batch.
func (w *Worker) handleBoth(b *Both, n int) {
	batch := w.Batch[:n]
	if b.Many() {
		batch = w.sift(batch)
		b.aimAll(batch)
		w.handleParts(b, batch)
	} else {
		w.handleEither(b, batch)
	}
	w.both = nil
}

// handleParts has each version handle its part of the batch, the canary first: if it crashes
// the other has not begun. If the other crashes, [Worker.settleGiven] settles what the canary has answered. Each part
// is watched by itself, so that whose turn it is does not change under the watch: a worker that was given up comes no
// further than its handler.
func (w *Worker) handleParts(b *Both, batch []command.Envelope) {
	b.answers = make([]answer, len(batch))
	for _, side := range []int{after, before} {
		b.side = side
		part := b.part(side, batch)
		if len(part) == 0 || w.Halted() {
			continue
		}
		b.note(side, w.many(b.parts[side], part))
	}
	answers := b.answers
	b.answers = nil
	for _, a := range answers {
		if a.given {
			w.Settle(a.outcome)
		} else {
			w.skip(w.cur + 1)
		}
	}
}

// settleGiven settles the commands of a batch that the canary has answered before the old version crashed with its part
// of the batch. What remains from the present command on is that part. It reports false if the worker was abandoned.
func (w *Worker) settleGiven() (ours bool) {
	b := w.both
	if b == nil || b.answers == nil {
		return true
	}
	defer func() {
		if v := recover(); v != nil {
			if _, gone := v.(abandoned); !gone {
				panic(v)
			}
		}
	}()
	batch := w.Batch[:w.n]
	outcomes := b.given(batch)
	if len(outcomes) == 0 {
		return true
	}
	if !w.stage.Inbox.Unbegun(&w.Member, &w.tally, 0, batch) {
		return false
	}
	for _, o := range outcomes {
		w.Settle(o)
	}
	return true
}

// handleEither runs one version or the other on one command after the other.
func (w *Worker) handleEither(b *Both, batch []command.Envelope) {
	for i := range batch {
		if w.Halted() {
			break
		}
		e := &batch[i]
		ctx := w.Begin(e)
		if ctx == nil {
			continue
		}
		b.aim(e)
		o := w.one(ctx, b, e)
		b.rollout.note(b.side, o.Err() != nil)
		w.Settle(o)
	}
}

// one runs an instance on one command.
func (w *Worker) one(ctx Context, inst Instance, e *command.Envelope) behaviour.Outcome {
	if w.stage.Timeout > 0 {
		return w.limited(ctx, e)
	}
	o := inst.Handle(ctx, e.Cmd)
	w.End()
	return o
}

// spare keeps what of the worker's instance did not crash, for those who come after. The
// crash is the canary's, or the version's before it.
func (w *Worker) spare(crash *CrashError) {
	w.both = nil
	if run := w.blame; run != nil { // what it had is shared, and not the worker's
		w.blame = nil
		if run.trial != nil {
			run.trial.crashed(run.side, crash)
		}
		return
	}
	if b, ok := w.instance.(*Both); ok {
		b.rollout.crashed(b.side, crash)
		w.kept = b.split()
	}
}

// crashed is the instance whose handler crashed.
func (w *Worker) crashed() Instance {
	if w.blame != nil {
		return w.blame.instance
	}
	return w.instance
}

// byCanary reports whether it was a canary's handler that crashed.
func (w *Worker) byCanary() bool {
	if w.blame != nil {
		return w.blame.trial != nil && w.blame.side == after
	}
	return w.both != nil && w.both.side == after
}
