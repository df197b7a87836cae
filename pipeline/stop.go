package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

// Stop ends the sources of the pipeline's feeds, drains the pipeline and ends
// it. If ctx ends before it is drained, it stops hard: handlers' contexts end,
// queued commands are dead-lettered, and workers have the [Grace] to finish the
// commands that they have started; they start no others. Then the error is a
// [*StopError], which reports the commands that were not done and the handlers
// that did not return.
//
// Stop may be called before Start, and more than once: later calls wait for the
// first, and the first stops hard when the context of any of them ends. A
// handler must not call Stop, which would wait for the handler.
func (p *Pipeline) Stop(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: Stop")
	if p.life.enterStop() {
		go p.stop() //nolint:gosec // the stop belongs to the pipeline; a caller's ctx only makes it hard
	}
	select {
	case <-p.life.stopped:
	case <-ctx.Done():
		p.life.endSoftStop(context.Cause(ctx))
		<-p.life.stopped
	}
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.life.result
}

// stop ends the sources, drains the pipeline, stops the stages, and finishes.
func (p *Pipeline) stop() {
	p.endKeeping()
	sources := p.feeds.stop(p.grace())
	var feeding []string // sources that did not return
	select {
	case feeding = <-sources:
		sources = nil
	case <-p.life.hard:
	}
	err := p.drainForStop(context.Background())
	var graceEnd time.Time // of a hard stop
	over := func() {}
	if err != nil {
		graceEnd = time.Now().Add(p.grace())
		over = p.halt()
	}
	left := p.stopTrees()
	var stuck []stage.Stuck
	if len(left) > 0 {
		stuck = p.handlers(engine.AtWork)
	}
	p.closeStages(err != nil)
	left = append(left, p.release(left)...)
	if err != nil {
		p.abandonWorkers(graceEnd)
	}
	if sources != nil {
		feeding = <-sources
	}
	p.waitForEnds()
	left = slices.Concat(left, feeding)
	unsaved := p.feeds.save(p.grace())
	if p.keeper != nil && p.keeper.failed.Load() {
		unsaved = append(unsaved, "checkpoint")
	}
	p.life.cancel(ErrStopped)
	p.waitForSubscribers(err != nil, graceEnd)
	over()
	p.logAbandoned()
	p.flight.Stop()
	p.limiter.Flush()
	unwritten, unkept := p.closeLetters()
	p.leaveCheckpoint()
	unheard := p.letters.notifier.Undelivered()
	if err == nil && len(left) == 0 && len(unsaved) == 0 && unheard == 0 && unkept == nil {
		p.life.finish(nil)
		return
	}
	report := &StopError{Pipeline: p.life.name, Left: slices.Concat(left, unsaved), unsaved: len(unsaved), Stuck: stuck, Unheard: unheard, Unwritten: unwritten, unkept: unkept}
	errors.As(err, &report.Drain)
	p.life.finish(report)
}

// closeStages closes the parts of the stages beside their workers. In a hard
// stop it hands over the commands of workers that have no actor.
func (p *Pipeline) closeStages(hard bool) {
	for _, c := range p.stages().stages {
		c.CloseEndpoint()
		c.Clear()
		c.Inbox().Phases().StopTimers()
		if hard {
			c.Sweep()
		}
	}
}

// stopTrees stops the pools, then the control loop and the stages. It returns
// the names of the pools and stages that did not stop within the grace.
func (p *Pipeline) stopTrees() (left []string) {
	end := time.Now().Add(p.grace())
	if len(p.pools.started().StopWithin(p.grace())) > 0 {
		left = []string{poolsChild}
	}
	return append(p.life.tree.StopWithin(time.Until(end)), left...)
}

// logAbandoned logs which stages have abandoned handlers that still run: a
// pipeline may stop without an error and leave goroutines behind all the same.
func (p *Pipeline) logAbandoned() {
	for _, st := range p.Snapshot().Stages {
		if st.Workers.Abandoned > 0 {
			p.log.Warn("stopped, but abandoned handlers still run", "stage", st.Name, "handlers", st.Workers.Abandoned)
		}
	}
}

// release ends the stages' coroutines. It returns the names of the stages whose
// suspended handlers do not end, except those in already.
func (p *Pipeline) release(already []string) (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), p.grace())
	defer cancel()
	for _, c := range p.stages().stages {
		if c.Release(ctx) != nil && !slices.Contains(already, c.Name()) {
			left = append(left, c.Name())
		}
	}
	return left
}

// halt stops hard. First no inbox gives out a command any more; then handlers'
// contexts end; then the callers that wait for queued commands are notified.
// The caller calls over when the stop is complete.
func (p *Pipeline) halt() (over func()) {
	inboxes := p.stages().all
	notify := make([]func(), len(inboxes))
	for i, in := range inboxes {
		notify[i] = in.Phases().Halt()
	}
	p.life.cancel(ErrStopped)
	closed := make(chan struct{})
	grace := time.AfterFunc(p.grace(), func() {
		// Handlers are abandoned at this moment, too: a subscriber that has not
		// taken their letters yet is not behind.
		p.letters.notifier.CloseBehind(time.Now().Add(-p.grace() / 10))
		close(closed)
	})
	for _, f := range notify {
		f()
	}
	return func() {
		if !grace.Stop() {
			<-closed
		}
	}
}

// abandonWorkers abandons the workers whose handlers do not return until the
// end of the grace of a hard stop, and waits until the others have handed over
// what they hold, so that the accounts say how each command ended.
func (p *Pipeline) abandonWorkers(graceEnd time.Time) {
	inboxes := p.stages().all
	for busy(inboxes) && time.Now().Before(graceEnd) {
		time.Sleep(time.Millisecond)
	}
	for late := time.Now().Add(lastMoment); ; time.Sleep(time.Millisecond) {
		for _, in := range inboxes {
			in.Owner.(*worker.Stage).AbandonAll()
		}
		if !busy(inboxes) && !underWay(inbox.Counts(inboxes)) || time.Now().After(late) {
			return
		}
	}
}

// busy reports whether a worker holds commands, or a handler is suspended.
func busy(inboxes []*inbox.Inbox) bool {
	return slices.ContainsFunc(inboxes, func(in *inbox.Inbox) bool { return len(in.Batches().Holders())+in.Batches().Started() > 0 })
}

// waitForSubscribers waits until the subscribers have taken all letters, and
// ends them. Letters that they do not take in time are logged. After a soft
// stop the subscribers have time until the context of Stop ends, and then the
// grace; after a hard stop, until the end of its grace, or for lastMoment if
// they were not behind then.
func (p *Pipeline) waitForSubscribers(hard bool, grace time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if hard {
		defer time.AfterFunc(max(time.Until(grace), lastMoment), cancel).Stop()
	} else {
		go func() {
			select {
			case <-p.life.hard:
				defer time.AfterFunc(p.grace(), cancel).Stop()
				<-ctx.Done()
			case <-ctx.Done():
			}
		}()
	}
	p.letters.notifier.Wait(ctx, p.endsPending, lastMoment)
	p.letters.notifier.Close()
	p.waitForEnds() // letters that come now are counted as unheard
}

// waitForEnds waits until the commands that have ended have done so for their
// feeds and subscribers, too, so that the last checkpoint is behind none of
// them. It takes no longer than lastMoment.
func (p *Pipeline) waitForEnds() {
	for late := time.Now().Add(lastMoment); p.endsPending() && time.Now().Before(late); {
		time.Sleep(100 * time.Microsecond)
	}
}

// endsPending reports whether, for some commands that ended unanswered, ended
// was not called yet or the ticket is not settled yet. Commands are counted
// before that, and some by goroutines that a stop does not wait for: goroutines
// of submitters and timers.
func (p *Pipeline) endsPending() bool {
	var ended uint64
	for _, a := range inbox.Counts(p.stages().all) {
		ended += a.Counts.Shed + a.Counts.DeadLettered
	}
	return p.host.DeadLettered() < ended || p.host.Settles()
}
