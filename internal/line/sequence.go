package line

import (
	"cmp"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
)

// sequence is the line of an ordered stage, and the results of its commands
// until these may leave. Each command has a number from when it is first given
// out, and keeps it until it has ended here: while it waits for its next try,
// is suspended, or returns after a crash. Its results leave when all results of
// smaller numbers have left.
//
// One worker at a time hands over the results that may leave: the leaver. It is
// the leaver until its outboxes are empty and no more may leave. So no two
// workers meet at a stage ahead in the wrong order, and other workers go on:
// they leave their results here. When as many results wait as the stage has
// slots, only commands that have a number are given out. These can always be
// taken, for the results may wait for one of them.
//
// Invariant: pending has an entry for each number from first on that was given.
// Of the commands whose entry has not ended, each is in back, in a worker's
// batch, suspended, or waits for its next try; there is no other. If the first
// entry has ended there is a leaver, or a worker that will ask for results
// before it parks.
type sequence struct {
	Base

	fresh Ring       // commands that have no number yet, in the order of their arrival
	back  []numbered // commands that returned, by number; they are given out first
	given []uint64   // the numbers of the commands that PopInto has taken last

	pending  ring.Ring[pending]
	first    uint64 // the number of the first entry
	results  int    // in all entries
	capacity int    // of the stage
	leaver   *Part  // of the leaver; nil: there is none
}

// numbered is a command with its number.
type numbered struct {
	number uint64
	e      command.Envelope
}

// pending is the results of one command so far.
type pending struct {
	one   Result // most commands have one result at most
	more  []Result
	n     int
	ended bool // there will be no more
}

// mostLeaving is at how many results a leaver hands over before it asks for
// more. The results of one command stay together.
const mostLeaving = 256

// Sequenced returns the line of an ordered stage. The order of a command is its
// number.
func Sequenced() Line { return &sequence{first: 1} } // 0 is no number

// Len returns how many commands wait.
func (q *sequence) Len() int { return len(q.back) + q.fresh.Len() }

// Takeable returns all commands, or the returned ones while as many results
// wait as the stage has slots.
func (q *sequence) Takeable() int {
	if q.results >= q.capacity {
		return len(q.back)
	}
	return q.Len()
}

// Droppable returns the commands without a number.
func (q *sequence) Droppable() int { return q.fresh.Len() }

// Resize bounds the results that wait.
func (q *sequence) Resize(capacity int) { q.capacity = capacity }

// Push queues a command. Commands with a number come before all others.
func (q *sequence) Push(e command.Envelope, r Rank) {
	if r.Order == 0 {
		q.fresh.Push(e)
		return
	}
	number := uint64(r.Order)
	at, _ := slices.BinarySearchFunc(q.back, number, func(o numbered, n uint64) int { return cmp.Compare(o.number, n) })
	q.back = slices.Insert(q.back, at, numbered{number, e})
}

// PushAll queues commands in order.
func (q *sequence) PushAll(es []command.Envelope, ranks []Rank) {
	if len(ranks) == 0 {
		q.fresh.PushAll(es)
		return
	}
	for i := range es {
		q.Push(es[i], rankAt(ranks, i))
	}
}

// Return takes commands back, which have numbers.
func (q *sequence) Return(es []command.Envelope, ranks []Rank) { q.PushAll(es, ranks) }

// PopInto gives commands out. Those without a number get the next ones.
func (q *sequence) PopInto(dst []command.Envelope) (n int) {
	q.given = q.given[:0]
	for ; n < len(dst) && n < len(q.back); n++ {
		dst[n] = q.back[n].e
		q.given = append(q.given, q.back[n].number)
	}
	q.back = slices.Delete(q.back, 0, n)
	if q.results >= q.capacity {
		return n
	}
	for range q.fresh.PopInto(dst[n:]) {
		q.given = append(q.given, q.first+uint64(q.pending.Len()))
		q.pending.Next()
		n++
	}
	return n
}

// Drop removes the first command that has no number. There is one.
func (q *sequence) Drop() command.Envelope { return q.fresh.Pop() }

// At returns the command that comes out after i others.
func (q *sequence) At(i int) *command.Envelope {
	if i < len(q.back) {
		return &q.back[i].e
	}
	return q.fresh.At(i - len(q.back))
}

// Oldest returns the command that comes out next.
func (q *sequence) Oldest() *command.Envelope { return q.At(0) }

// Count counts the commands that match.
func (q *sequence) Count(match func(*command.Envelope) bool) (n int) {
	for i := range q.back {
		if match(&q.back[i].e) {
			n++
		}
	}
	return n + count(&q.fresh, match)
}

// Remove removes the commands without a number that match. Results wait for
// the other commands, so they are left to a worker.
func (q *sequence) Remove(match func(*command.Envelope) bool) []command.Envelope {
	return q.fresh.Remove(func(e *command.Envelope) bool { return e.Pack() == 0 && match(e) })
}

// Drain empties the line. The commands are not given out any more, so their
// numbers end.
func (q *sequence) Drain() []command.Envelope {
	es := make([]command.Envelope, q.Len())
	for i := range q.back {
		es[i] = q.back[i].e
		q.end(q.back[i].number)
	}
	q.fresh.PopInto(es[len(q.back):])
	q.back = nil
	return es
}

// Knows returns true: a worker's part has the numbers.
func (q *sequence) Knows() bool { return true }

// Awaited returns true: results wait for each command that has a number.
func (q *sequence) Awaited() bool { return true }

// Give gives a worker the numbers of its batch of n commands. The first ones
// may be commands that were suspended, whose numbers their runs know.
func (q *sequence) Give(p *Part, n int) *Part {
	p = p.orNew()
	p.clear(n)
	for i, number := range q.given {
		p.holds[n-len(q.given)+i] = Hold{rank: Rank{Order: int64(number)}}
	}
	q.given = q.given[:0]
	q.Keep(p)
	return p
}

// Keep copies the numbers of a batch, for when its worker is given up.
func (q *sequence) Keep(p *Part) {
	p.given = p.given[:0]
	for _, h := range p.holds {
		p.given = append(p.given, h.rank)
	}
}

// Book takes the results of a worker's commands.
func (q *sequence) Book(p *Part) {
	if len(p.results)+len(p.ended) == 0 {
		return
	}
	for i := range p.results {
		r := &p.results[i]
		q.of(uint64(r.hold.rank.Order)).add(&r.Result)
	}
	q.results += len(p.results)
	for _, h := range p.ended {
		q.end(uint64(h.rank.Order))
	}
	clear(p.results)
	p.results, p.ended = p.results[:0], p.ended[:0]
}

func (q *sequence) of(number uint64) *pending { return q.pending.At(int(number - q.first)) }

// end notes that a command makes no further results. A command without a number
// is none that was given out.
func (q *sequence) end(number uint64) {
	if number != 0 {
		q.of(number).ended = true
	}
}

// End ends the number of a command in a worker's batch.
func (q *sequence) End(p *Part, last int) { q.Release(p.Before(last)) }

// Release ends the numbers of commands.
func (q *sequence) Release(ranks ...Rank) {
	for _, r := range ranks {
		q.end(uint64(r.Order))
	}
}

// Abandon ends the numbers of the last n commands of a batch.
func (q *sequence) Abandon(p *Part, n int) {
	q.Release(p.given[max(len(p.given)-n, 0):]...)
	q.Succeed(p, nil)
}

// Succeed makes another worker the leaver if one is.
func (q *sequence) Succeed(from, to *Part) {
	if from != nil && q.leaver == from {
		q.leaver = to
	}
}

// Leave moves the results that may leave to the end of a slice, and makes the
// worker the leaver if there are any. If another worker is the leaver there are
// none.
func (q *sequence) Leave(p *Part, into []Result) []Result {
	if q.leaver != nil && q.leaver != p {
		return into
	}
	before := len(into)
	for len(into)-before < mostLeaving && q.pending.Len() > 0 && q.pending.At(0).ended {
		into = q.pending.At(0).appendTo(into)
		q.pending.Pop()
		q.first++
	}
	q.leaver = nil
	if len(into) > before {
		q.leaver = p
	}
	q.results -= len(into) - before
	return into
}

// LeadsTo reports whether a result that has not left leads to an inlet.
func (q *sequence) LeadsTo(to *behaviour.Inlet) bool {
	for i := range q.pending.Len() {
		p := q.pending.At(i)
		if p.n > 0 && p.one.To == to || slices.ContainsFunc(p.more, func(r Result) bool { return r.To == to }) {
			return true
		}
	}
	return false
}

// Account counts the results that wait.
func (q *sequence) Account(_ int64, a *Accounts) { a.Results = q.results }

func (p *pending) add(r *Result) {
	if p.n == 0 {
		p.one = *r
	} else {
		p.more = append(p.more, *r)
	}
	p.n++
}

func (p *pending) appendTo(all []Result) []Result {
	if p.n > 0 {
		all = append(all, p.one)
	}
	return append(all, p.more...)
}
