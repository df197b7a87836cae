// Package operate has the verbs of an operator: a person, or a program, that
// changes how a pipeline runs while it runs.
//
//	op := operate.New(p, "ann")
//	_, err := op.Resize("resize", 2, 8)                              // policies decide within these bounds
//	_, err = op.Policy(policy.SEDA{}, time.Minute)                   // then back
//	n, _, err := op.RetryAll(ctx, operate.Failures, letters.Filter{Stage: "save"})
//
// Each verb that changes something has an entry in [pipeline.Pipeline.Journal],
// whose Policy is "operator:" and the operator's name, and whose number it
// returns. An error means that nothing has changed, unless the verb says
// otherwise.
//
// # Operators and policies
//
// The operator wins. A policy sees the bounds of [Operator.Resize] and decides
// within them. The rate of [Operator.Rate] and the capacity of
// [Operator.Capacity] are held: a decision of a policy about that knob of that
// stage has no effect until the operator gives the knob back. Bounds and held
// knobs outlive a change of policies; they end with the pipeline.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
)

// Store names one of the stores of letters of a pipeline.
type Store string

// The stores.
const (
	Dead       Store = "dead"       // see pipeline.Pipeline.DeadLetters
	Quarantine Store = "quarantine" // see pipeline.Pipeline.Quarantine
	Failures   Store = "failures"   // see pipeline.Pipeline.Failures
)

// ErrStore reports that there is no store of a name.
var ErrStore = errors.New("no store of letters: use dead, quarantine or failures")

// ErrFailedAgain reports that the first of several letters has failed again, so
// that the others were not tried.
var ErrFailedAgain = errors.New("the first letter failed again, and the others were not tried")

// Operator has the verbs. Any goroutine may call its methods at any time.
type Operator struct {
	p   *pipeline.Pipeline
	of  link.Operated
	who string
}

// New returns an operator. The journal has the name.
func New(p *pipeline.Pipeline, name string) *Operator {
	return &Operator{p: p, of: link.Operate(p), who: "operator:" + cmp.Or(name, "unknown")}
}

// Pause stops workers from taking commands from a stage's queue: see
// [pipeline.Pipeline.Pause].
func (o *Operator) Pause(stage string) (entry uint64, err error) {
	return o.of.Pause(o.who, stage, true)
}

// Resume ends a pause.
func (o *Operator) Resume(stage string) (entry uint64, err error) {
	return o.of.Pause(o.who, stage, false)
}

// Drain drains stages, or the whole pipeline if none is given, and waits until
// they are empty: see [pipeline.Pipeline.Drain]. If the error is a
// [*pipeline.DrainError], the stages stay closed.
func (o *Operator) Drain(ctx context.Context, stages ...string) (entry uint64, err error) {
	link.CheckContext(ctx, "operate: Drain")
	return o.of.Drain(ctx, o.who, stages)
}

// Reopen ends a drain.
func (o *Operator) Reopen(stages ...string) (entry uint64, err error) {
	return o.of.Reopen(o.who, stages)
}

// Resize sets the fewest and the most workers of a stage with workers of its
// own, or of a group. The policy decides within these bounds from now on. With
// most 0 the bounds are the declared ones again. Workers that are too many
// finish the commands that they hold.
func (o *Operator) Resize(name string, fewest, most int) (entry uint64, err error) {
	return o.of.Resize(o.who, name, fewest, most)
}

// Rate holds the rate at which a stage admits commands from outside; with an
// empty name, the whole pipeline. Feeds wait for the rate; Submit, Ask and Call
// return stage.ErrRate, which says when to try again. The zero Rate is no
// limit, and gives the knob back to the policy.
func (o *Operator) Rate(stage string, r controller.Rate) (entry uint64, err error) {
	return o.of.Rate(o.who, stage, r.PerSecond, r.Burst)
}

// Capacity holds the number of slots of a stage's queue. 0 is the number that
// the stage's options set, and gives the knob back to the policy. Commands that
// the queue has beyond it stay.
func (o *Operator) Capacity(stage string, slots int) (entry uint64, err error) {
	return o.of.Capacity(o.who, stage, slots)
}

// Policy replaces the policy that controls the pipeline, as
// [pipeline.Pipeline.SetPolicy] does, for a time; then the policies from before
// are back. 0 is for good. If the policy is replaced meanwhile, the time has
// no effect. If it is replaced for a time again, the policies that come back are
// the ones from before the first time.
func (o *Operator) Policy(p controller.Policy, d time.Duration) (entry uint64, err error) {
	return o.of.Policy(o.who, []controller.Policy{p}, d)
}

// letters returns a store.
func (o *Operator) letters(s Store) (*letters.Store, error) {
	switch s {
	case Dead:
		return o.p.DeadLetters(), nil
	case Quarantine:
		return o.p.Quarantine(), nil
	case Failures:
		return o.p.Failures(), nil
	default:
		return nil, fmt.Errorf("%q: %w", string(s), ErrStore)
	}
}

// letter returns a letter of a store.
func (o *Operator) letter(s Store, id uint64) (*letters.Store, letters.Letter, error) {
	all, err := o.letters(s)
	if err != nil {
		return nil, letters.Letter{}, err
	}
	letter, ok := all.Get(id)
	if !ok {
		return nil, letters.Letter{}, fmt.Errorf("letter %d: %w", id, letters.ErrNotFound)
	}
	return all, letter, nil
}

// note writes into the journal what became of letters.
func (o *Operator) note(s Store, stage, fate, why string) uint64 {
	return o.of.Note(o.who, "letters", stage, string(s), fate, why)
}

// Retry submits the command of a letter again: see [letters.Store.Retry].
func (o *Operator) Retry(ctx context.Context, s Store, id uint64) (entry uint64, err error) {
	link.CheckContext(ctx, "operate: Retry")
	all, letter, err := o.letter(s, id)
	if err == nil {
		err = all.Retry(ctx, id)
	}
	if err != nil {
		return 0, err
	}
	return o.note(s, letter.Stage, "retried", fmt.Sprintf("letter %d", id)), nil
}

// RetryAll retries the letters that a filter selects, the oldest first: one
// letter alone, and the others when its command has ended with all that follows
// from it. If that has failed, the error is [ErrFailedAgain] with the reason, the
// first letter was retried, and the others stay. RetryAll returns how many were
// retried. Limit of the filter has no effect.
func (o *Operator) RetryAll(ctx context.Context, s Store, f letters.Filter) (n int, entry uint64, err error) {
	link.CheckContext(ctx, "operate: RetryAll")
	all, err := o.letters(s)
	if err != nil {
		return 0, 0, err
	}
	f.OldestFirst, f.Limit = true, 1
	list := all.List(f)
	if len(list) == 0 {
		return 0, 0, fmt.Errorf("store %q: %w", string(s), letters.ErrNotFound)
	}
	first := list[0]
	failed, err := o.probe(ctx, all, first.ID)
	if err != nil {
		return 0, 0, err
	}
	if failed != nil {
		entry = o.note(s, first.Stage, "retried", fmt.Sprintf("letter %d failed again", first.ID))
		return 1, entry, fmt.Errorf("%w: %s", ErrFailedAgain, plain.Text(failed))
	}
	f.Limit = 0
	n, err = all.RetryAll(ctx, f)
	n++
	return n, o.note(s, first.Stage, "retried", fmt.Sprintf("%d letters, after one that did not fail", n)), err
}

// probe retries a letter, waits until its command has ended, and returns its
// error.
func (o *Operator) probe(ctx context.Context, all *letters.Store, id uint64) (failed, err error) {
	ended := make(chan error, 1)
	if err := o.of.Retry(ctx, all, id, func(err error) { ended <- err }); err != nil {
		return nil, err
	}
	select {
	case err := <-ended:
		return err, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("letter %d was retried and has not ended, and the others were not tried: %w", id, context.Cause(ctx))
	case <-o.p.Done():
		return nil, fmt.Errorf("letter %d was retried, and the others were not tried: %w", id, pipeline.ErrStopped)
	}
}

// Edit submits another command in place of a letter's own, which is removed:
// see [letters.Store.RetryAs]. The command is text in JSON, or as the
// [letters.Type] of its commands writes it. A member that the type does not
// have is an error.
func (o *Operator) Edit(ctx context.Context, s Store, id uint64, text []byte) (entry uint64, err error) {
	link.CheckContext(ctx, "operate: Edit")
	all, letter, err := o.letter(s, id)
	if err != nil {
		return 0, err
	}
	cmd, err := o.of.Decode(letter.Stage, text)
	if err == nil {
		err = all.RetryAs(ctx, id, cmd)
	}
	if err != nil {
		return 0, fmt.Errorf("letter %d: %w", id, err)
	}
	return o.note(s, letter.Stage, "edited and retried", fmt.Sprintf("letter %d", id)), nil
}

// Drop removes a letter for good.
func (o *Operator) Drop(s Store, id uint64) (entry uint64, err error) {
	all, letter, err := o.letter(s, id)
	if err == nil && !all.Drop(id) {
		err = fmt.Errorf("letter %d: %w, or its file is closed", id, letters.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	return o.note(s, letter.Stage, "dropped", fmt.Sprintf("letter %d", id)), nil
}

// DropAll removes the letters that a filter selects for good, and returns how
// many.
func (o *Operator) DropAll(s Store, f letters.Filter) (n int, entry uint64, err error) {
	all, err := o.letters(s)
	if err != nil {
		return 0, 0, err
	}
	if n = all.Clear(f); n == 0 {
		return 0, 0, fmt.Errorf("store %q: %w", string(s), letters.ErrNotFound)
	}
	return n, o.note(s, f.Stage, "dropped", fmt.Sprintf("%d letters", n)), nil
}

// Export writes the letters of a store: see [letters.Store.Export].
func (o *Operator) Export(s Store, w io.Writer) error {
	all, err := o.letters(s)
	if err != nil {
		return err
	}
	return all.Export(w)
}
