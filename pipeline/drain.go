package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/need"
)

// ErrReopened is the cause of a [*DrainError] if a stage was reopened while it was drained.
var ErrReopened = errors.New("pipeline: reopened while it was drained")

// Drain closes the entry of stages and waits until they are empty: nothing queued, waiting
// to be tried again, or in hand. The stages are those among the parts, all of a [Group] or
// [Join] included, or the whole pipeline if no parts are given. They stay up, idle and
// closed, until [Pipeline.Reopen] or [Pipeline.Stop].
//
// Nothing is let in from outside at once: a Submit is refused with [stage.ErrDraining]. What
// is inside goes on to the end. What the drained stages forward or emit to each other is
// let in, and so is what their handlers submit. Stages that are not drained are held back:
// what they have for a stage that is waits where it is, so that they fill up as before a
// full stage, and nothing is refused or lost. Only along a back edge, and by shared workers, is
// it still let in, until the stage is empty.
//
// The order is that of the ways between the stages: a stage holds others back when all before
// it are empty, and not earlier; the stages of a loop do so together, and are empty when
// nothing is in flight in any of them. A way that no port declares counts once it was taken.
//
// The error is a [*DrainError] that tells what is where, and who is stuck, if ctx ended first,
// if a stage was reopened meanwhile, or if the pipeline stops hard; it is the reason if the
// pipeline gave up. The stages stay closed then, and Drain may be called again. Any number
// may drain at once. Before the start there is nothing to drain, and nothing is closed. Drain
// must not be called by a handler of these stages, for which it would wait.
func (p *Pipeline) Drain(ctx context.Context, parts ...Part) error {
	need.Context(ctx, "pipeline: Drain")
	d := &drain{p: p, whole: len(parts) == 0}
	if err := d.choose(parts); err != nil {
		return err
	}
	switch {
	case p.in(made), p.in(starting):
		return nil
	case p.in(stopped):
		return d.afterStop()
	}
	return d.run(ctx)
}

// Reopen ends the drain of stages, those among the parts or all: they let commands in again,
// from outside and from those they had held back. It does nothing to stages that are open.
// It is refused with [ErrNotRunning] once the pipeline is told to stop.
func (p *Pipeline) Reopen(parts ...Part) error {
	d := &drain{p: p, whole: len(parts) == 0}
	if err := d.choose(parts); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != running {
		return fmt.Errorf("pipeline %q: reopen: %w", p.name, ErrNotRunning)
	}
	p.host.Draining.Store(false)
	for _, in := range d.all() {
		in.Open()
	}
	p.quiet.ring()
	return nil
}

// empty drains the whole pipeline for good: not even a handler may submit any more.
func (p *Pipeline) empty(ctx context.Context) error {
	d := &drain{p: p, whole: true}
	_ = d.choose(nil) // it fails for parts only
	if err := d.run(ctx); err != nil {
		return err
	}
	for _, in := range d.all() {
		in.EndDrain()
	}
	return d.wait(ctx, d.all) // for what came at the last moment
}

// drain is a drain of some stages, or of all.
type drain struct {
	p      *Pipeline
	whole  bool
	rooms  []*inbox.Inbox        // by place, if it is not the whole pipeline
	warned map[*inbox.Inbox]bool // of those that are paused
}

// all are the stages that are drained. While the whole pipeline is, others may come.
func (d *drain) all() []*inbox.Inbox {
	if d.whole {
		return d.p.stages().all
	}
	return d.rooms
}

// choose finds the stages among parts.
func (d *drain) choose(parts []Part) error {
	err := d.addAll(parts)
	inPlace(d.rooms)
	return err
}

func (d *drain) addAll(parts []Part) error {
	faults := make([]error, len(parts))
	for i, part := range parts {
		faults[i] = d.add(part)
	}
	return errors.Join(faults...)
}

// inPlace sorts inboxes by their places: a snapshot takes their locks in that order.
func inPlace(inboxes []*inbox.Inbox) []*inbox.Inbox {
	slices.SortFunc(inboxes, func(a, b *inbox.Inbox) int { return a.Place - b.Place })
	return inboxes
}

// add finds the stages of one part. Wires and options among the parts of a group mean
// nothing here.
func (d *drain) add(part Part) error {
	var among []Part
	switch part := part.(type) {
	case joined:
		among = part
	case *group:
		among = part.parts
	default:
		c, err := d.p.find(part)
		if err == nil && !slices.Contains(d.rooms, c.Inbox()) {
			d.rooms = append(d.rooms, c.Inbox())
		}
		return err
	}
	return d.addAll(slices.DeleteFunc(slices.Clone(among), func(one Part) bool {
		switch one.(type) {
		case joined, *group, cored:
			return false
		default:
			return true
		}
	}))
}

// run drains the stages.
func (d *drain) run(ctx context.Context) error {
	d.begin()
	for _, loop := range d.order() {
		for _, in := range loop {
			in.BlockUpstream()
		}
		if err := d.wait(ctx, func() []*inbox.Inbox { return loop }); err != nil {
			return err
		}
		d.p.set.log.Info("drained", "stages", names(loop))
	}
	if err := d.wait(ctx, d.all); err != nil {
		return err
	}
	for _, in := range d.all() {
		in.BlockBackEdges()
	}
	return nil
}

// begin closes the stages to those outside, and lets their workers go on that other stages
// had kept waiting.
func (d *drain) begin() {
	if d.whole {
		d.p.host.Draining.Store(true) // before we ask who is there: who comes later sees it
	}
	for _, in := range d.all() {
		in.Drain()
	}
	for _, in := range d.p.stages().all {
		in.UnblockSenders()
	}
}

// order is the stages as commands pass them, those of a loop together.
func (d *drain) order() (all [][]*inbox.Inbox) {
	byPlace := map[int]*inbox.Inbox{}
	for _, in := range d.all() {
		byPlace[in.Place] = in
	}
	for _, places := range d.p.graph.Order() {
		var loop []*inbox.Inbox
		for _, place := range places {
			if in := byPlace[place]; in != nil {
				loop = append(loop, in)
			}
		}
		if len(loop) > 0 {
			all = append(all, inPlace(loop))
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

// wait waits until nothing is in some of the stages any more.
func (d *drain) wait(ctx context.Context, of func() []*inbox.Inbox) error {
	p := d.p
	for {
		bell := p.quiet.next() // before we look, so that nothing is missed
		inboxes := of()
		sheets := inbox.Counts(inboxes)
		switch {
		case d.reopened(sheets):
			return d.unfinished(ErrReopened)
		case d.rested(sheets):
			return nil
		}
		d.warn(sheets, inboxes)
		select {
		case <-bell:
		case <-p.host.Quiet:
			p.quiet.ring()
		case <-p.stopped:
			return d.afterStop()
		case <-ctx.Done():
			return d.unfinished(context.Cause(ctx))
		case <-p.hurry:
			return d.unfinished(p.haste)
		}
	}
}

// afterStop is what a drain comes to when the pipeline has stopped.
func (d *drain) afterStop() error {
	switch {
	case d.rested(inbox.Counts(d.all())):
		return nil
	case d.p.Err() != nil:
		return d.p.Err()
	default:
		return d.unfinished(ErrStopped)
	}
}

// reopened reports whether one of the stages was reopened. Of the whole pipeline, a stage that
// has just come is open for a moment.
func (d *drain) reopened(sheets []inbox.Accounts) bool {
	if d.whole {
		return !d.p.host.Draining.Load()
	}
	return slices.ContainsFunc(sheets, func(s inbox.Accounts) bool { return s.Open })
}

// rested reports whether nothing is in some stages, nor on its way between two if they are all.
// Else a worker that has not handed over yet is still at its stage.
func (d *drain) rested(sheets []inbox.Accounts) bool {
	if len(sheets) == len(d.p.stages().all) {
		return rested(sheets)
	}
	return !slices.ContainsFunc(sheets, func(s inbox.Accounts) bool { return loaded(s) || s.Out+s.Carried > 0 })
}

func loaded(s inbox.Accounts) bool { return s.Queued+s.InHand+s.Delayed > 0 }

// warn tells the log, once, of a stage that cannot get empty because it is paused.
func (d *drain) warn(sheets []inbox.Accounts, inboxes []*inbox.Inbox) {
	for i, in := range inboxes {
		if !sheets[i].Knobs.Paused || sheets[i].Queued+sheets[i].Delayed == 0 || d.warned[in] {
			continue
		}
		if d.warned == nil {
			d.warned = map[*inbox.Inbox]bool{}
		}
		d.warned[in] = true
		d.p.set.log.Warn("a drain waits for a stage that is paused", "stage", in.Name(), "queued", sheets[i].Queued)
	}
}

// unfinished reports what is left.
func (d *drain) unfinished(cause error) *DrainError {
	among := map[string]bool{}
	for _, in := range d.all() {
		among[in.Name()] = true
	}
	e := d.p.unfinished(cause, func(name string) bool { return among[name] })
	if d.whole {
		return e
	}
	e.InFlight = 0
	for i := range e.Where {
		e.InFlight += uint64(e.Where[i].load())
	}
	return e
}

// broadcast wakes all who wait at once.
type broadcast struct {
	mu   sync.Mutex // guards bell
	bell chan struct{}
}

// next is closed when it is rung next.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bell == nil {
		b.bell = make(chan struct{})
	}
	return b.bell
}

func (b *broadcast) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bell != nil {
		close(b.bell)
		b.bell = nil
	}
}
