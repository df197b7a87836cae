package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
)

// An inbox is drained in three steps, each at the drain's word. From the first on it takes
// nothing from outside. From the second on, when its turn has come, inboxes that are in use
// hand nothing over to it: they keep what they have for it and their workers wait, as for a
// full room. Along a back edge they still do, since the inbox may need them to get empty. From
// the third on, when it was seen to be empty, they do not either.
//
// What inboxes that are being drained, or have been, have for it is always let in, and what
// their handlers submit: it was accepted, and has to end somewhere. So an order that is not
// the best, because nobody knew of a way that a handler takes, holds nothing up. Shared
// workers are let in, too, as always; their shared pool takes nothing from an inbox in use that
// leads to one whose turn has come.
const (
	inUse   int32 = iota
	closing       // nothing from outside
	turned        // nor, along ways ahead, from inboxes in use
	drained       // nor along back edges
)

// Drain begins the inbox's drain, or begins it anew.
func (in *Inbox) Drain() {
	in.mu.Lock()
	in.open = false
	in.phase.Store(closing)
	in.dismissWaiters()
	in.stalled = false   // it is not barred any more; if the inbox ahead is full it is told again
	next := in.wakeOne() // nor does anybody linger
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	in.notifyEntries()
}

// BlockUpstream tells the inbox that its turn has come: the second step.
func (in *Inbox) BlockUpstream() { in.proceed(turned) }

// BlockBackEdges tells the inbox that it was seen to be empty: the third step.
func (in *Inbox) BlockBackEdges() { in.proceed(drained) }

// proceed takes a step, unless the drain was ended or begun anew meanwhile.
func (in *Inbox) proceed(to int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.phase.Load() == to-1 {
		in.phase.Store(to)
	}
}

// InUse reports whether the inbox is not being drained, and has not been.
func (in *Inbox) InUse() bool { return in.phase.Load() == inUse }

// EndDrain ends the inbox's drain and leaves it closed. Handlers may not submit to it any more.
func (in *Inbox) EndDrain() {
	in.mu.Lock()
	in.open = false
	in.dismissWaiters()
	in.unblockSenders(inUse)
	in.notifyEntries()
}

// UnblockSenders lets those go on who were kept waiting and need not be any more, because their own
// inboxes are being drained now.
func (in *Inbox) UnblockSenders() {
	in.mu.Lock()
	in.unblockSenders(in.phase.Load())
}

// unblockSenders sets the phase and lets those go on who are not to be kept waiting in it. It is called
// with the lock and lets go of it.
func (in *Inbox) unblockSenders(phase int32) {
	in.phase.Store(phase)
	if in.unbarred != nil {
		close(in.unbarred)
		in.unbarred = nil
	}
	var woken []*Member
	var ahead []parked
	held := in.held[:0]
	for _, p := range in.held {
		switch {
		case in.blocks(p.seat.own, p.back):
			held = append(held, p)
		case p.back: // it needs no seat
			p.seat.ready.Store(true)
			woken = append(woken, p.seat)
		default:
			ahead = append(ahead, p)
		}
	}
	clear(in.held[len(held):])
	in.held = held
	in.blocked = append(ahead, in.blocked...)
	next := in.wakeOne()
	inboxes := in.unstallBehind()
	woken = append(woken, in.grantSlots()...)
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
}

// blocks reports whether an inbox may hand nothing over now. Nil is that of a shared worker.
func (in *Inbox) blocks(from *Inbox, back bool) bool {
	switch in.phase.Load() {
	case turned:
		return from != nil && !back && from.InUse()
	case drained:
		return from != nil && from.InUse()
	default:
		return false
	}
}

// holdBack keeps a worker waiting that may hand nothing over. It is called with the lock and
// lets go of it.
func (in *Inbox) holdBack(m *Member, n int, back, park bool) {
	at := slices.IndexFunc(in.held, func(p parked) bool { return p.seat == m })
	known := at >= 0
	if known {
		in.held = slices.Delete(in.held, at, at+1)
	} else {
		_, known = in.unpark(m) // the seats that it was promised are others' now
		at = len(in.held)
	}
	if park || known {
		in.held = slices.Insert(in.held, at, parked{m, n, back})
		m.ready.Store(!park)
	}
	woken := in.grantSlots()
	in.mu.Unlock()
	wakeAll(woken)
}

// awaitUse waits until a handler that emits may do so: it is kept waiting as a worker that
// hands over is. On a back edge it is refused instead. It is called with the lock and returns
// with it.
func (in *Inbox) awaitUse(ctx context.Context, back, shared bool) error {
	from := emitterOf(ctx)
	if from == nil || shared {
		return nil
	}
	for in.blocks(from.Inbox(), back) && !in.halted.Load() {
		if back {
			return fmt.Errorf("stage %q: on a way back: %w", in.cfg.Name, ErrDraining)
		}
		if in.unbarred == nil {
			in.unbarred = make(chan struct{})
		}
		lifted := in.unbarred
		in.mu.Unlock()
		err := Until(ctx, lifted)
		in.mu.Lock()
		if err != nil {
			return in.waitError(err)
		}
	}
	return nil
}

// emitter is a worker whose handler runs.
type emitter interface {
	Inbox() *Inbox
	Shared() bool
	Attempt() int
}

// emitterOf is the worker whose handler's context it is, nil if it is none's.
func emitterOf(ctx context.Context) emitter {
	m, _ := ctx.Value(behaviour.EmitterKey{}).(emitter)
	return m
}

// admitsHandler reports whether a closed inbox takes what ctx submits: it does from handlers
// of inboxes that are drained with it. It is called with the lock, which it lets go of for a
// moment.
func (in *Inbox) admitsHandler(ctx context.Context) bool {
	if in.halted.Load() || in.InUse() {
		return false
	}
	in.mu.Unlock()
	from := emitterOf(ctx)
	works := from != nil && from.Attempt() > 0
	in.mu.Lock()
	return in.open || works && !in.halted.Load() && !in.InUse() && !from.Inbox().InUse()
}

// notifyEntries tells those who wait at the pipeline's door.
func (in *Inbox) notifyEntries() {
	if pl := in.Pipeline(); pl != nil {
		pl.notifyEntries()
	}
}
