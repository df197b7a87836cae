package line

import (
	"cmp"
	"math"
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// fair is the line of a stage that keys share by their weights, say the tenants
// of a service. It has a lane for each key of which commands are here. The
// lanes take turns: a turn of a lane is as many commands as its weight says.
// So a key with many commands delays one with few by its turn, and no more.
// Within a lane commands are first in, first out.
//
// This is the deficit round robin of Shreedhar and Varghese, "Efficient Fair
// Queueing using Deficit Round Robin" (SIGCOMM 1995), where each command costs
// 1. A lane whose turn begins gets a quantum of commands, its weight divided by
// the unit; what is left of it, if that is less than a command, stays for the
// next turn. A lane without commands has no deficit: a key saves nothing while
// it is idle. The unit is the least weight of late, so that turns are as short
// as the weights allow: weights of 70 and 30 have turns of two or three
// commands and one. It falls at once, so that each turn has a command, and
// rises after some rounds without a turn of that weight: a change of the unit
// may cost a lane a turn.
//
// The handlers of one key may be bounded, too. A lane whose key has as many
// handlers as it may have gives out nothing, and then its turn goes on. A
// worker that has taken commands counts as a handler of each of their keys
// until all of them are done and their results have been handed over. If
// handlers may suspend, each command counts for itself; see lane_holds.go.
//
// Commands that return unhandled come before all others, and are not charged to
// their lanes again. A command that is tried again is. While it waits for that
// it has a place of its key, as it has a slot.
//
// Commands without a key, see [NoKey], have one lane together, with the weight 1
// and without bounds.
//
// Invariant: a lane is ready if it has commands that may be given out, and busy
// if it has commands and none may. Ready lanes are listed in the order of their
// turns, and of them only the first has begun its turn, or such whose turns
// have been interrupted. A lane without commands is kept as long as commands of
// its key are elsewhere in the stage, or about to come. Then it is empty, and
// soon forgotten. n counts the commands of all lanes, takeable those that may
// be given out.
type fair struct {
	laneSet
	handedOut

	atOnce int // handlers of one key; 0: any number

	ready, busy laneList
	n, takeable int

	unit  int64  // the weight of which a turn is one command
	least int64  // the least weight of turns that have begun since the unit was set
	turns int    // until it is set anew
	begun uint64 // turns so far
}

// Shares says how keys share a line.
type Shares struct {
	// Rank returns the key of a command, as envelopes have it, and as its order
	// the weight of the key, at least 1. It calls code of users.
	Rank func(load any) Rank
	// AtOnce bounds how many handlers have commands of one key; 0: any number.
	AtOnce int
	// Most bounds how many commands of a key may hold slots, or it is
	// [QuarterOfCapacity].
	Most int
}

// mostRounds is for how many rounds the unit stays that no lane has as weight.
const mostRounds = 16

// mostLooked is among how many lanes the fullest is searched for: a stage that
// drops may do so for each command, and each reading of the accounts does.
const mostLooked = 256

// Fair returns the line of a stage that keys share by their weights.
func Fair(s Shares) Line {
	return &fair{laneSet: laneSet{rank: s.Rank, bound: s.Most}, atOnce: s.AtOnce}
}

// Len returns how many commands wait.
func (f *fair) Len() int { return f.n }

// Takeable returns the commands of ready lanes that may be given out.
func (f *fair) Takeable() int { return f.takeable }

// Droppable returns all.
func (f *fair) Droppable() int { return f.n }

// Resize fits the bound of each key to the capacity.
func (f *fair) Resize(capacity int) { f.resize(capacity) }

func (f *fair) boundsKeys() bool { return true }

// Of returns the lane of a key, which has from now on the weight of the rank.
func (f *fair) Of(r Rank) *Lane {
	ln := f.byKey.get(r.Key)
	switch {
	case ln == nil:
		ln = f.fresh()
		ln.key, ln.weight = r.Key, 1
		f.byKey.add(ln)
	case ln.in == &f.empty:
		f.reuse(ln)
	}
	if r.Order > 0 {
		ln.weight = r.Order
	}
	return ln
}

// fresh returns a lane for another key.
func (f *fair) fresh() *Lane {
	if f.empty.n >= mostEmpty/2 {
		return f.forget()
	}
	return new(Lane)
}

// allowed is how many commands of a lane may be given out.
func (f *fair) allowed(ln *Lane) int {
	n, free := ln.ring.Len(), f.atOnce-int(ln.handlers)
	switch {
	case f.atOnce == 0 || ln.key == NoKey:
		return n
	case f.byOne:
		return max(min(n, free), 0)
	case free > 0:
		return n // one handler may have all of them
	default:
		return 0
	}
}

// update lists a lane, and counts its commands, after either may have changed.
func (f *fair) update(ln *Lane) {
	n := f.allowed(ln)
	f.takeable += n - ln.counted
	ln.counted = n
	if ln.ring.Len() == 0 {
		ln.deficit = 0
	}
	to := f.listOf(ln)
	if ln.in == to && to != nil {
		return
	}
	if ln.in != nil {
		ln.in.remove(ln)
	}
	if to == &f.ready && f.ready.n+f.busy.n == 0 {
		f.unit, f.least, f.turns = math.MaxInt64, math.MaxInt64, 0
	}
	switch {
	case to == nil:
	case to == &f.ready && ln.deficit >= 1: // its turn goes on
		to.addFirst(ln)
	case to != &f.empty:
		to.add(ln)
	case f.hasRoom(ln):
		f.keep(ln)
	default:
		f.byKey.delete(ln.key)
	}
}

// listOf returns the list for a lane whose commands have been counted.
func (f *fair) listOf(ln *Lane) *laneList {
	switch {
	case ln.counted > 0:
		return &f.ready
	case ln.ring.Len() > 0:
		return &f.busy
	case ln.handlers > 0 || ln.delayed > 0 || ln.reserved > 0 || ln.waited:
		return nil
	default:
		return &f.empty
	}
}

// Push queues a command behind all others of its key.
func (f *fair) Push(e command.Envelope, r Rank) { f.PushTo(f.Of(r), e) }

// PushTo adds a command to a lane.
func (f *fair) PushTo(ln *Lane, e command.Envelope) {
	ln.ring.Push(e)
	f.n++
	f.update(ln)
}

// PushAll queues commands in order.
func (f *fair) PushAll(es []command.Envelope, ranks []Rank) {
	for i := range es {
		f.Push(es[i], rankAt(ranks, i))
	}
}

// Return puts commands back before all others, and gives their lanes back what
// they were charged.
func (f *fair) Return(es []command.Envelope, ranks []Rank) {
	for i := range slices.Backward(es) {
		ln := f.Of(rankAt(ranks, i))
		if f.byOne {
			ln.handlers--
		}
		ln.ring.PushFront(es[i : i+1])
		f.n++
		if ln.deficit++; ln.in == &f.ready {
			f.ready.remove(ln)
		}
		f.update(ln)
	}
}

// PopInto gives out commands of ready lanes, turn by turn.
func (f *fair) PopInto(dst []command.Envelope) (n int) {
	for n < len(dst) && f.ready.n > 0 {
		ln := f.ready.first
		if ln.deficit < 1 {
			f.begin(ln)
		}
		some := ln.ring.PopInto(dst[n : n+min(len(dst)-n, ln.counted, turnOf(ln))])
		n += some
		f.n -= some
		f.takeable -= some
		ln.counted -= some
		ln.deficit -= float64(some)
		f.Vacate(ln)
		f.take(ln, some)
		switch {
		case ln.counted == 0:
			f.update(ln)
		case ln.deficit < 1:
			f.endTurn(ln)
		}
	}
	f.endBatch()
	return n
}

// turnOf is how many commands the turn of a lane has left.
func turnOf(ln *Lane) int { return int(min(ln.deficit, math.MaxInt32)) }

// begin begins the turn of the first lane.
func (f *fair) begin(ln *Lane) {
	if f.turns == 0 {
		f.unit, f.least, f.turns = f.least, math.MaxInt64, mostRounds*(f.ready.n+f.busy.n)
	}
	f.turns--
	f.begun++
	f.least, f.unit = min(f.least, ln.weight), min(f.unit, ln.weight)
	ln.turn = f.begun
	ln.deficit += float64(ln.weight) / float64(f.unit)
}

// endTurn puts the first lane behind all others.
func (f *fair) endTurn(ln *Lane) {
	f.ready.remove(ln)
	f.ready.add(ln)
}

// take counts the handler, or handlers, that some commands of a lane are for.
func (f *fair) take(ln *Lane, some int) {
	switch {
	case f.atOnce == 0:
	case f.byOne:
		ln.handlers += int32(some)
		for range some {
			f.taken = append(f.taken, ln)
		}
	case !ln.inBatch: // one worker has the whole batch
		ln.inBatch = true
		ln.handlers++
		f.taken = append(f.taken, ln)
	}
}

// endBatch lists lanes as busy of which no other worker may take commands. When
// the worker frees them they wait in the order of their turns: otherwise the
// first of them would have the last turn of each batch, too.
func (f *fair) endBatch() {
	if f.byOne || f.atOnce == 0 {
		return
	}
	slices.SortFunc(f.taken, func(a, b *Lane) int { return cmp.Compare(a.turn, b.turn) })
	for _, ln := range f.taken {
		ln.inBatch = false
		f.update(ln)
	}
}

// Drop removes the first command of the lane with the most commands for its
// weight: so keys with few commands lose none.
func (f *fair) Drop() command.Envelope { return f.dropOf(f.fullest()) }

// fullest returns the lane with the most commands for its weight, of the ones
// that are looked at. There is a command.
func (f *fair) fullest() (fullest *Lane) {
	looked := 0
	for _, list := range []*laneList{&f.busy, &f.ready} {
		for ln := list.first; ln != nil && looked < mostLooked; ln = ln.next {
			if looked++; fullest == nil || ln.load() > fullest.load() {
				fullest = ln
			}
		}
	}
	return fullest
}

// load is how many commands wait in a lane, for its weight.
func (ln *Lane) load() float64 { return float64(ln.ring.Len()) / float64(ln.weight) }

// DropOf removes the first command of a lane.
func (f *fair) DropOf(ln *Lane) (e command.Envelope, ok bool) {
	if ln.ring.Len() == 0 {
		return e, false
	}
	return f.dropOf(ln), true
}

func (f *fair) dropOf(ln *Lane) command.Envelope {
	e := ln.ring.Pop()
	f.n--
	f.Vacate(ln)
	f.update(ln)
	return e
}

// At returns the next commands of the present turn, and nil for others.
func (f *fair) At(i int) *command.Envelope {
	ln := f.ready.first
	if ln == nil {
		ln = f.busy.first
	}
	if ln == nil || i > 0 && i >= min(turnOf(ln), ln.counted) {
		return nil
	}
	return ln.ring.At(i)
}

// Oldest returns the command that comes out next. Other lanes may have an older
// one.
func (f *fair) Oldest() *command.Envelope { return f.At(0) }

// Count counts the commands that match.
func (f *fair) Count(match func(*command.Envelope) bool) (n int) {
	for _, list := range []*laneList{&f.ready, &f.busy} {
		for ln := list.first; ln != nil; ln = ln.next {
			n += count(&ln.ring, match)
		}
	}
	return n
}

// Remove removes the commands that match.
func (f *fair) Remove(match func(*command.Envelope) bool) (es []command.Envelope) {
	f.each(func(ln *Lane) { es = append(es, ln.ring.Remove(match)...) })
	f.n -= len(es)
	return es
}

// Drain empties all lanes.
func (f *fair) Drain() []command.Envelope {
	es := make([]command.Envelope, f.n)
	n := 0
	f.each(func(ln *Lane) { n += ln.ring.PopInto(es[n:]) })
	f.n = 0
	return es
}

// each calls a function with each lane that has commands, some of which it may
// remove.
func (f *fair) each(remove func(*Lane)) {
	for _, list := range []*laneList{&f.ready, &f.busy} {
		for ln := list.first; ln != nil; {
			next := ln.next
			remove(ln)
			f.Vacate(ln)
			f.update(ln)
			ln = next
		}
	}
}

// Unreserve gives places back.
func (f *fair) Unreserve(ln *Lane, n int) {
	ln.reserved -= int32(n)
	f.Vacate(ln)
	f.update(ln)
}

// Waits notes whether something waits.
func (f *fair) Waits(ln *Lane, yes bool) {
	ln.waited = yes
	if !yes {
		f.update(ln)
	}
}

// Account counts the keys with commands.
func (f *fair) Account(_ int64, a *Accounts) {
	a.Keys = f.ready.n + f.busy.n
	if ln := f.fullest(); ln != nil {
		a.OfOneKey = ln.ring.Len()
	}
}
