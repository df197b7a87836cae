package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
)

// ErrReopened is the cause of a [*DrainError] if a stage was reopened while it
// was drained.
var ErrReopened = errors.New("pipeline: reopened while it was drained")

// ErrParked is the cause of a [*DrainError] if nothing is left but commands that
// wait for parked keys, see [stage.ParkOnFailure]: a drain refuses the retries
// for which they wait.
var ErrParked = errors.New("pipeline: commands wait for parked keys, whose letters were neither retried nor dropped")

// Drain closes stages to commands from outside and waits until they are empty:
// no command is queued, in hand, or waiting to be retried. It drains the stages
// among the parts, including all stages of a [Group] or [Subgraph], or the
// whole pipeline if no parts are given. The stages keep running, idle and
// closed, until [Pipeline.Reopen] or [Pipeline.Stop].
//
// From the start of the drain a Submit from outside is refused with
// [stage.ErrDraining]. Commands inside are completed: commands that drained
// stages forward or emit to each other are accepted, and so are commands that
// their handlers submit. Stages that are not drained are held back: the
// commands that they have for a drained stage wait where they are, so that
// those stages fill up as they do before a full stage, and nothing is refused
// or lost. Only along a back edge, and by shared workers, is a command still
// handed over, until the stage is empty.
//
// The stages are drained in the order of the graph. A stage holds others back
// when all stages before it are empty, and not earlier; the stages of a loop do
// so together, and are empty when nothing is in flight in any of them. An edge
// that no port declares counts from the first time that it was taken.
//
// The error is a [*DrainError], which reports where commands are left and which
// handlers hold them, if ctx ends first, if a stage is reopened meanwhile, or
// if the pipeline stops hard, or if nothing is left but commands of parked keys
// ([ErrParked]); it is the reason if the pipeline gave up. The
// stages stay closed then, and Drain may be called again. Any number of drains
// may run at once. Before the start there is nothing to drain, and Drain closes
// nothing. A handler must not drain its own stage, which would wait for the
// handler.
func (p *Pipeline) Drain(ctx context.Context, parts ...Part) error {
	link.CheckContext(ctx, "pipeline: Drain")
	d, err := p.newDrain(parts)
	if err != nil {
		return err
	}
	return p.drain(ctx, d)
}

func (p *Pipeline) drain(ctx context.Context, d *drain) error {
	switch {
	case p.life.in(made), p.life.in(starting):
		return nil
	case p.life.in(stopped):
		return d.afterStop()
	}
	return d.run(ctx)
}

// Reopen ends the drain of stages, of those among the parts or of all: they
// accept commands again, from outside and from the stages that were held back.
// It has no effect on stages that are open. The error is [ErrNotRunning] once
// the pipeline is being stopped.
func (p *Pipeline) Reopen(parts ...Part) error {
	d, err := p.newDrain(parts)
	if err != nil {
		return err
	}
	return p.reopen(d)
}

func (p *Pipeline) reopen(d *drain) error {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.state != running {
		return fmt.Errorf("pipeline %q: reopen: %w", p.life.name, ErrNotRunning)
	}
	p.host.Draining.Store(false)
	for _, in := range d.inboxes() {
		in.Phases().Open()
	}
	p.quiet.send()
	return nil
}

// drainForStop drains the whole pipeline for good: afterwards not even a
// handler may submit.
func (p *Pipeline) drainForStop(ctx context.Context) error {
	d := &drain{p: p, whole: true}
	if err := p.park(ctx, d); err != nil {
		return err
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	for _, in := range d.inboxes() {
		in.Phases().EndDrain()
	}
	if err := d.wait(ctx, d.inboxes); err != nil { // for commands that were submitted at the last moment
		return err
	}
	p.saveEnd(ctx)
	return nil
}

// park saves a checkpoint before a stop that comes before the feeds are
// exhausted, and removes the saved commands from the stages. Otherwise the
// drain would pass on windows whose other commands come in the next process.
func (p *Pipeline) park(ctx context.Context, d *drain) error {
	if p.keeper == nil || p.keeper.whole.Load() && p.feeds.allExhausted() {
		return nil
	}
	d.close()
	if p.keeper.whole.Load() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-p.life.hard:
				cancel()
			case <-ctx.Done():
			}
		}()
		for p.saveNow(ctx); p.keeper.failed.Load() && ctx.Err() == nil && p.notAtRest(); {
			p.saveNow(ctx)
		}
		if ctx.Err() != nil {
			return d.unfinished(p.life.hardCause)
		}
	}
	for _, c := range p.stateful() {
		c.Spec().Stateful().Park()
	}
	return nil
}

// drain is one drain, of some stages or of all. It walks the graph from the
// sources on, loop by loop.
type drain struct {
	p      *Pipeline
	whole  bool
	chosen []*inbox.Inbox        // by place, unless the whole pipeline is drained
	warned map[*inbox.Inbox]bool // paused stages that the log has a line about
	moved  uint64                // what the stages had done when parked looked last; 0: they were not at rest
}

// newDrain returns a drain of the stages among parts, or of the whole pipeline
// if there are none.
func (p *Pipeline) newDrain(parts []Part) (*drain, error) {
	d := &drain{p: p, whole: len(parts) == 0}
	err := d.addAll(parts)
	byPlace(d.chosen)
	return d, err
}

func (d *drain) addAll(parts []Part) error {
	faults := make([]error, len(parts))
	for i, part := range parts {
		faults[i] = d.add(part)
	}
	return errors.Join(faults...)
}

// add adds the stages of one part. Wires and options among the parts of a group
// are ignored.
func (d *drain) add(part Part) error {
	var among []Part
	switch part := part.(type) {
	case joined:
		among = part
	case *group:
		among = part.parts
	default:
		c, err := d.p.find(part)
		if err == nil && !slices.Contains(d.chosen, c.Inbox()) {
			d.chosen = append(d.chosen, c.Inbox())
		}
		return err
	}
	return d.addAll(slices.DeleteFunc(slices.Clone(among), func(one Part) bool {
		switch one.(type) {
		case joined, *group, engine.Staged:
			return false
		default:
			return true
		}
	}))
}

// byPlace sorts inboxes by their places: a snapshot takes their locks in that
// order.
func byPlace(inboxes []*inbox.Inbox) []*inbox.Inbox {
	slices.SortFunc(inboxes, func(a, b *inbox.Inbox) int { return a.Place - b.Place })
	return inboxes
}

// inboxes returns the inboxes that are drained. While the whole pipeline is
// drained, stages may be added.
func (d *drain) inboxes() []*inbox.Inbox {
	if d.whole {
		return d.p.stages().all
	}
	return d.chosen
}

// run drains the stages.
func (d *drain) run(ctx context.Context) error {
	d.close()
	for _, loop := range d.order() {
		for _, in := range loop {
			in.Phases().BlockUpstream()
		}
		if err := d.wait(ctx, func() []*inbox.Inbox { return loop }); err != nil {
			return err
		}
		d.p.log.Info("drained", "stages", names(loop))
	}
	if err := d.wait(ctx, d.inboxes); err != nil {
		return err
	}
	for _, in := range d.inboxes() {
		in.Phases().BlockBackEdges()
	}
	return nil
}

// close closes the stages to commands from outside, and unblocks their workers
// that wait for other stages. It holds the pipeline's lock, so that a Reopen
// comes before it or after it for all stages.
func (d *drain) close() {
	d.p.life.mu.Lock()
	defer d.p.life.mu.Unlock()
	if d.whole {
		d.p.host.Draining.Store(true) // before the inboxes are read: a stage that is added later sees it
	}
	for _, in := range d.inboxes() {
		in.Phases().Drain()
	}
	for _, in := range d.p.stages().all {
		in.Phases().UnblockSenders()
	}
}

// order returns the inboxes in the order in which commands pass them; the
// inboxes of a loop are one element.
func (d *drain) order() (all [][]*inbox.Inbox) {
	at := map[int]*inbox.Inbox{}
	for _, in := range d.inboxes() {
		at[in.Place] = in
	}
	for _, places := range d.p.graph.Order() {
		var loop []*inbox.Inbox
		for _, place := range places {
			if in := at[place]; in != nil {
				loop = append(loop, in)
			}
		}
		if len(loop) > 0 {
			all = append(all, byPlace(loop))
		}
	}
	return all
}

func names(inboxes []*inbox.Inbox) string {
	all := make([]string, len(inboxes))
	for i, in := range inboxes {
		all[i] = in.Name()
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// wait waits until some of the stages are empty.
func (d *drain) wait(ctx context.Context, of func() []*inbox.Inbox) error {
	p := d.p
	var again <-chan time.Time
	for {
		changed := p.quiet.next() // before the accounts are read, so that no change is missed
		inboxes := of()
		accounts := inbox.Counts(inboxes)
		if slices.ContainsFunc(accounts, hasParked) {
			if again != nil && d.parked() {
				return d.unfinished(ErrParked)
			}
			again = time.After(parkedLook)
		}
		switch {
		case d.reopened(accounts):
			return d.unfinished(ErrReopened)
		case d.empty(accounts):
			return nil
		}
		d.warn(accounts, inboxes)
		releaseHeld(accounts, inboxes)
		select {
		case <-changed:
		case <-again:
		case <-p.host.Quiet:
			p.quiet.send() // one drain receives it from the host, and wakes the others
		case <-p.life.stopped:
			return d.afterStop()
		case <-ctx.Done():
			return d.unfinished(context.Cause(ctx))
		case <-p.life.hard:
			return d.unfinished(p.life.hardCause)
		}
	}
}

// parkedLook is how often a drain looks whether only commands of parked keys are
// left.
const parkedLook = 20 * time.Millisecond

func hasParked(a inbox.Accounts) bool { return a.Queue.ParkedKeys > 0 && a.Queue.Held > 0 }

// parked reports whether nothing is left in the stages that are drained but
// commands of parked keys, and of workers that have commands for these. It must
// have been so when it was called last, too, and nothing must have moved in
// between: a worker may be on its way from one stage to the next.
func (d *drain) parked() bool {
	moved := uint64(1)
	waits := false
	for _, a := range inbox.Counts(d.inboxes()) {
		if rests := a.Workers.Busy == 0 && a.Queue.Delayed == 0 && a.Queue.Suspended == 0 && (a.Due == 0 || a.Workers.Blocked > 0 && a.Workers.Idle == 0); !rests {
			d.moved = 0
			return false
		}
		waits = waits || hasParked(a)
		moved += a.Counts.Accepted + a.Counts.Ended() + a.Counts.Crashes
	}
	was := d.moved
	d.moved = moved
	return waits && was == moved
}

// releaseHeld releases commands that wait for others of their stages, if some
// stages have nothing else: the others do not come any more.
func releaseHeld(accounts []inbox.Accounts, inboxes []*inbox.Inbox) {
	var holders []link.Holder
	for i := range accounts {
		holder, ok := rests(inboxes[i], &accounts[i])
		if !ok {
			return
		}
		if holder != nil {
			holders = append(holders, holder)
		}
	}
	for _, h := range holders {
		h.ReleaseHeld()
	}
}

// afterStop returns the result of a drain when the pipeline has stopped.
func (d *drain) afterStop() error {
	switch {
	case d.empty(inbox.Counts(d.inboxes())):
		return nil
	case d.p.Err() != nil:
		return d.p.Err()
	default:
		return d.unfinished(ErrStopped)
	}
}

// reopened reports whether one of the stages was reopened. When the whole
// pipeline is drained, a stage that has just been added is open for a moment
// and does not count.
func (d *drain) reopened(accounts []inbox.Accounts) bool {
	if d.whole {
		return !d.p.host.Draining.Load()
	}
	return slices.ContainsFunc(accounts, func(a inbox.Accounts) bool { return a.Open })
}

// empty reports whether some of the stages have no commands. If they are all
// stages, there is none between two stages either; else a worker that has not
// handed over yet is still at its stage.
func (d *drain) empty(accounts []inbox.Accounts) bool {
	if len(accounts) == len(d.p.stages().all) {
		return empty(accounts)
	}
	return !slices.ContainsFunc(accounts, func(a inbox.Accounts) bool { return loaded(a) || a.Out+a.Queue.Carried > 0 })
}

// warn logs, once, that a stage cannot become empty because it is paused.
func (d *drain) warn(accounts []inbox.Accounts, inboxes []*inbox.Inbox) {
	for i, in := range inboxes {
		if !accounts[i].Knobs.Paused || accounts[i].Queue.Queued+accounts[i].Queue.Delayed == 0 || d.warned[in] {
			continue
		}
		if d.warned == nil {
			d.warned = map[*inbox.Inbox]bool{}
		}
		d.warned[in] = true
		d.p.log.Warn("a drain waits for a stage that is paused", "stage", in.Name(), "queued", accounts[i].Queue.Queued)
	}
}

// unfinished returns the report of the commands that are left.
func (d *drain) unfinished(cause error) *DrainError {
	among := map[string]bool{}
	for _, in := range d.inboxes() {
		among[in.Name()] = true
	}
	e := d.p.unfinished(cause, func(name string) bool { return among[name] })
	if d.whole {
		return e
	}
	e.InFlight = 0
	for i := range e.Where {
		e.InFlight += uint64(e.Where[i].Queue.Load())
	}
	return e
}
