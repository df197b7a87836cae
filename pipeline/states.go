package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/lockfile"
	"github.com/golda-dev/golda/internal/states"
	"github.com/golda-dev/golda/stage"
)

// patience is how long the feeds are held back to save a checkpoint. It is as
// long as a feed waits before that is logged.
const patience = time.Minute

// restore gives the feeds and the stages what the checkpoint has, before the
// stages start.
func (p *Pipeline) restore() error {
	c := p.keeper
	if c == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(c.file)); err != nil {
		return c.fault("", err)
	}
	var err error
	if c.lock, err = lockfile.Take(c.file + ".lock"); err != nil {
		return c.fault("", err)
	}
	k, err := c.read()
	if k == nil || err != nil {
		return err
	}
	if k.Pipeline != p.life.name {
		return c.fault("", fmt.Errorf("it is of the pipeline %q", k.Pipeline))
	}
	return errors.Join(p.restoreFeeds(k), p.restoreStages(k))
}

func (p *Pipeline) restoreFeeds(k *kept) (err error) {
	feeds := p.feeds.list()
	for _, f := range feeds {
		i := slices.IndexFunc(k.Feeds, func(of keptFeed) bool { return of.Name == f.name })
		if i < 0 {
			err = errors.Join(err, p.keeper.fault("", fmt.Errorf("it has no position of feed %q", f.name)))
			continue
		}
		f.cursor.Start(k.Feeds[i].Position)
		f.kept.Store(k.Feeds[i].Position)
	}
	for _, of := range k.Feeds {
		if !slices.ContainsFunc(feeds, func(f *feeding) bool { return f.name == of.Name }) {
			err = errors.Join(err, p.keeper.fault("", fmt.Errorf("it has the position of feed %q, and the pipeline has no such feed", of.Name)))
		}
	}
	return err
}

func (p *Pipeline) restoreStages(k *kept) (err error) {
	stages := p.stateful()
	for _, c := range stages {
		i := slices.IndexFunc(k.Stages, func(of keptStage) bool { return of.Name == c.Name() })
		if i < 0 {
			err = errors.Join(err, p.keeper.fault(c.Name(), errors.New("there is none: the stage is new, or had another name")))
			continue
		}
		loads, failed := c.Spec().Stateful().Restore(k.Stages[i].State)
		if failed != nil {
			err = errors.Join(err, p.keeper.fault(c.Name(), failed))
		}
		p.keeper.loads[c.Inbox()] = loads
	}
	for _, of := range k.Stages {
		if !slices.ContainsFunc(stages, func(c *engine.Core) bool { return c.Name() == of.Name }) {
			err = errors.Join(err, p.keeper.fault(of.Name, errors.New("the pipeline has no such stage, or the stage has no state")))
		}
	}
	return err
}

// stateful returns the stages with states.
func (p *Pipeline) stateful() []*engine.Core {
	return slices.DeleteFunc(slices.Clone(p.stages().stages), func(c *engine.Core) bool { return c.Spec().Stateful() == nil })
}

// resume gives the stages the commands that hold restored states, and then
// begins to save checkpoints. It returns false if the pipeline stops meanwhile.
func (p *Pipeline) resume() bool {
	c := p.keeper
	if c == nil {
		return true
	}
	from := command.Submitted(c.mark(context.Background(), p.host), p.host)
	for in, loads := range c.loads {
		for _, load := range loads {
			for {
				err := in.Submit(c.ctx, &command.Envelope{Load: load, From: from})
				if err == nil {
					break
				}
				if _, later := stage.Overloaded(err); !later || !pauseFor(c.ctx, firstPause) {
					return false
				}
			}
		}
	}
	c.loads = nil
	c.whole.Store(true)
	c.ended.Go(p.keepSaving)
	return true
}

// pauseFor waits, and returns false if ctx ends.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// keepSaving saves a checkpoint in each period.
func (p *Pipeline) keepSaving() {
	for pauseFor(p.keeper.ctx, p.keeper.period) {
		p.saveNow(p.keeper.ctx)
	}
}

// leaveCheckpoint lets other processes have the file.
func (p *Pipeline) leaveCheckpoint() {
	if p.keeper != nil && p.keeper.lock != nil {
		_ = p.keeper.lock.Close() // nothing was written that matters
	}
}

// endKeeping ends the loop, and waits until it has written its last checkpoint.
func (p *Pipeline) endKeeping() {
	if p.keeper != nil {
		p.keeper.cancel()
		p.keeper.ended.Wait()
	}
}

// saveNow saves a checkpoint, and reports whether that succeeded. A state that
// cannot be saved ends the pipeline.
func (p *Pipeline) saveNow(ctx context.Context) {
	c := p.keeper
	k, err := p.freeze(ctx)
	if err == nil {
		err = c.write(k)
	}
	switch fault, is := errors.AsType[*CheckpointError](err); {
	case err == nil:
		p.saved(k)
	case ctx.Err() != nil:
		return
	case is && fault.Stage != "":
		c.gaveUp(err)
	default:
		p.log.Error("the checkpoint is not saved", "file", c.file, "reason", err)
	}
	c.failed.Store(err != nil)
}

// saved notes that a checkpoint is saved.
func (p *Pipeline) saved(k *kept) {
	for _, f := range p.feeds.list() {
		for _, of := range k.Feeds {
			if of.Name == f.name {
				f.kept.Store(of.Position)
			}
		}
	}
}

// freeze holds the feeds back until no stage has commands except commands that
// it holds in windows, and returns the content of a checkpoint at that time.
func (p *Pipeline) freeze(ctx context.Context) (*kept, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoRest)
	defer cancel()
	feeds := p.feeds.list()
	for _, f := range feeds {
		defer f.cursor.Hold()()
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if !slices.ContainsFunc(feeds, func(f *feeding) bool { return !f.cursor.Still() }) {
			k, err := p.collect(feeds)
			if !errors.Is(err, states.ErrBusy) {
				return k, err
			}
		}
		if !pauseFor(ctx, pause) {
			return nil, p.noRest(context.Cause(ctx))
		}
	}
}

var errNoRest = errors.New("the commands have not ended within a minute; the feeds go on")

// noRest returns why the pipeline does not come to rest, and where.
func (p *Pipeline) noRest(cause error) error {
	if errors.Is(cause, errNoRest) {
		return fmt.Errorf("%w: there are some in %s", cause, p.loads(func(int) bool { return true }))
	}
	return cause
}

// collect returns what a checkpoint has now. The error is [states.ErrBusy] if a
// command was or came on its way meanwhile.
func (p *Pipeline) collect(feeds []*feeding) (*kept, error) {
	before, ok := p.atRest()
	if !ok {
		return nil, states.ErrBusy
	}
	k := &kept{Pipeline: p.life.name}
	for _, f := range feeds {
		k.Feeds = append(k.Feeds, keptFeed{f.name, f.cursor.Position()})
	}
	for _, c := range p.stateful() {
		state, err := c.Spec().Stateful().Save()
		if err != nil {
			return nil, p.keeper.fault(c.Name(), err)
		}
		k.Stages = append(k.Stages, keptStage{c.Name(), state})
	}
	after, ok := p.atRest()
	select {
	case <-p.life.hard: // commands that a hard stop ends are not done
		return nil, p.life.hardCause
	default:
	}
	if !ok || before != after {
		return nil, states.ErrBusy
	}
	return k, nil
}

func (p *Pipeline) notAtRest() bool {
	_, ok := p.atRest()
	return !ok
}

// saveEnd saves the last checkpoint of a pipeline whose feeds are exhausted,
// when it has drained.
func (p *Pipeline) saveEnd(ctx context.Context) {
	if p.keeper != nil && p.feeds.allExhausted() {
		p.saveNow(ctx)
	}
}
