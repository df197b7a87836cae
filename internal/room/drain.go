package room

import (
	"context"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
)

// A room is drained in three steps, each at the drain's word. From the first on it takes
// nothing from outside. From the second on, when its turn has come, rooms that are in use
// hand nothing over to it: they keep what they have for it and their workers wait, as for a
// full room. Along a way back they still do, since the room may need them to get empty. From
// the third on, when it was seen to be empty, they do not either.
//
// What rooms that are being drained, or have been, have for it is always let in, and what
// their handlers submit: it was accepted, and has to end somewhere. So an order that is not
// the best, because nobody knew of a way that a handler takes, holds nothing up. Shared
// workers are let in, too, as always; their crew takes nothing from a room in use that
// leads to one whose turn has come.
const (
	inUse   int32 = iota
	closing       // nothing from outside
	turned        // nor, along ways ahead, from rooms in use
	drained       // nor along ways back
)

// Drain begins the room's drain, or begins it anew.
func (r *Room) Drain() {
	r.mu.Lock()
	r.open = false
	r.phase.Store(closing)
	r.dismissWaiters()
	r.stalled = false // it is not barred any more; if the room ahead is full it is told again
	next := r.rouse() // nor does anybody linger
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	r.tellHost()
}

// Bar tells the room that its turn has come: the second step.
func (r *Room) Bar() { r.proceed(turned) }

// Seal tells the room that it was seen to be empty: the third step.
func (r *Room) Seal() { r.proceed(drained) }

// proceed takes a step, unless the drain was ended or begun anew meanwhile.
func (r *Room) proceed(to int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase.Load() == to-1 {
		r.phase.Store(to)
	}
}

// InUse reports whether the room is not being drained, and has not been.
func (r *Room) InUse() bool { return r.phase.Load() == inUse }

// Shut ends the room's drain and leaves it closed. Handlers may not submit to it any more.
func (r *Room) Shut() {
	r.mu.Lock()
	r.open = false
	r.dismissWaiters()
	r.readmit(inUse)
	r.tellHost()
}

// Readmit lets those go on who were kept waiting and need not be any more, because their own
// rooms are being drained now.
func (r *Room) Readmit() {
	r.mu.Lock()
	r.readmit(r.phase.Load())
}

// readmit sets the phase and lets those go on who are not to be kept waiting in it. It is called
// with the lock and lets go of it.
func (r *Room) readmit(in int32) {
	r.phase.Store(in)
	if r.lifted != nil {
		close(r.lifted)
		r.lifted = nil
	}
	var woken []*Seat
	var ahead []parked
	held := r.held[:0]
	for _, p := range r.held {
		switch {
		case r.bars(p.seat.home, p.back):
			held = append(held, p)
		case p.back: // it needs no seat
			p.seat.ready.Store(true)
			woken = append(woken, p.seat)
		default:
			ahead = append(ahead, p)
		}
	}
	clear(r.held[len(held):])
	r.held = held
	r.blocked = append(ahead, r.blocked...)
	next := r.rouse()
	rooms := r.relieve()
	woken = append(woken, r.release()...)
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
}

// bars reports whether a room may hand nothing over now. Nil is that of a shared worker.
func (r *Room) bars(from *Room, back bool) bool {
	switch r.phase.Load() {
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
func (r *Room) holdBack(s *Seat, n int, back, park bool) {
	at := slices.IndexFunc(r.held, func(p parked) bool { return p.seat == s })
	known := at >= 0
	if known {
		r.held = slices.Delete(r.held, at, at+1)
	} else {
		_, known = r.unpark(s) // the seats that it was promised are others' now
		at = len(r.held)
	}
	if park || known {
		r.held = slices.Insert(r.held, at, parked{s, n, back})
		s.ready.Store(!park)
	}
	woken := r.release()
	r.mu.Unlock()
	wakeAll(woken)
}

// awaitUse waits until a handler that emits may do so: it is kept waiting as a worker that
// hands over is. On a way back it is refused instead. It is called with the lock and returns
// with it.
func (r *Room) awaitUse(ctx context.Context, back, shared bool) error {
	from := emitterOf(ctx)
	if from == nil || shared {
		return nil
	}
	for r.bars(from.Room(), back) && !r.halted.Load() {
		if back {
			return fmt.Errorf("stage %q: on a way back: %w", r.cfg.Name, ErrDraining)
		}
		if r.lifted == nil {
			r.lifted = make(chan struct{})
		}
		lifted := r.lifted
		r.mu.Unlock()
		err := Until(ctx, lifted)
		r.mu.Lock()
		if err != nil {
			return r.waited(err)
		}
	}
	return nil
}

// emitter is a worker whose handler runs.
type emitter interface {
	Room() *Room
	Shared() bool
	Attempt() int
}

// emitterOf is the worker whose handler's context it is, nil if it is none's.
func emitterOf(ctx context.Context) emitter {
	m, _ := ctx.Value(behaviour.EmitterKey{}).(emitter)
	return m
}

// admitsHandler reports whether a closed room takes what ctx submits: it does from handlers
// of rooms that are drained with it. It is called with the lock, which it lets go of for a
// moment.
func (r *Room) admitsHandler(ctx context.Context) bool {
	if r.halted.Load() || r.InUse() {
		return false
	}
	r.mu.Unlock()
	from := emitterOf(ctx)
	works := from != nil && from.Attempt() > 0
	r.mu.Lock()
	return r.open || works && !r.halted.Load() && !r.InUse() && !from.Room().InUse()
}

// tellHost tells those who wait at the house's door.
func (r *Room) tellHost() {
	if h := r.Host(); h != nil {
		h.ended()
	}
}
