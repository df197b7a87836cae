package inbox

import (
	"cmp"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// sequence is the queue of an ordered stage, and what came of its commands until that may leave. Each command has a number
// from when it is first given out, and keeps it until it has ended here: while it waits for its next try, is suspended, or
// comes back after a crash. What came of it leaves when everything of smaller numbers has.
//
// One worker at a time hands over what may leave: the leaver. It is the leaver until its outboxes are empty and no more may
// leave. So no two workers meet at a stage ahead in the wrong order, and other workers go on: they leave their results here.
// When as many results wait as the stage has slots, only commands that have a number are given out. These can always be
// taken, for the results may wait for one of them.
//
// Invariant: pending has an entry for each number from first on that was given. Of the commands whose entry has not ended,
// each is in back, in a worker's batch, suspended, or waits for its next try; there is no other. If the first entry has
// ended there is a leaver, or a worker that will ask for results before it parks.
type sequence struct {
	fresh ring.Ring[command.Envelope] // commands that have no number yet, in the order of their arrival
	back  []numbered                  // commands that came back, by number; they are given out first
	given []uint64                    // the numbers of those that PopInto has taken last

	pending ring.Ring[pending]
	first   uint64   // the number of the first entry
	results int      // in all entries
	leaver  *Numbers // of the leaver; nil: there is none
}

// numbered is a command with its number.
type numbered struct {
	number uint64
	e      command.Envelope
}

// pending is what came of one command so far.
type pending struct {
	one   Result // most commands have one result at most
	more  []Result
	n     int
	ended bool // there will be no more
}

// Result is a command that is to leave an ordered stage.
type Result struct {
	To       *behaviour.Inlet
	Envelope command.Envelope
}

// mostLeaving is at how many results a leaver hands over before it asks for more. Those of one command stay together.
const mostLeaving = 256

func newSequence() *sequence { return &sequence{first: 1} } // 0 is no number

// Len returns how many commands wait.
func (q *sequence) Len() int { return len(q.back) + q.fresh.Len() }

// Push queues a command. One that has a number comes before those that have none.
func (q *sequence) Push(e command.Envelope, number queue.Key) {
	if number == 0 {
		q.fresh.Push(e)
		return
	}
	at, _ := slices.BinarySearchFunc(q.back, uint64(number), func(o numbered, n uint64) int { return cmp.Compare(o.number, n) })
	q.back = slices.Insert(q.back, at, numbered{uint64(number), e})
}

// PushAll queues commands in order.
func (q *sequence) PushAll(es []command.Envelope, numbers []queue.Key) {
	if len(numbers) == 0 {
		q.fresh.PushAll(es)
		return
	}
	for i := range es {
		q.Push(es[i], keyAt(numbers, i))
	}
}

// PushFront takes commands back, which have numbers.
func (q *sequence) PushFront(es []command.Envelope, numbers []queue.Key) { q.PushAll(es, numbers) }

// PopInto moves commands out. Those without a number get the next ones.
func (q *sequence) PopInto(dst []command.Envelope) (n int) {
	q.given = q.given[:0]
	for ; n < len(dst) && n < len(q.back); n++ {
		dst[n] = q.back[n].e
		q.given = append(q.given, q.back[n].number)
	}
	q.back = slices.Delete(q.back, 0, n)
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

// Count counts the commands for which so is true.
func (q *sequence) Count(so func(*command.Envelope) bool) (n int) {
	for i := range q.Len() {
		if so(q.At(i)) {
			n++
		}
	}
	return n
}

// Remove takes out the commands without a number for which is is true. Results wait for those that have one, so they are left to a
// worker.
func (q *sequence) Remove(is func(*command.Envelope) bool) []command.Envelope {
	return q.fresh.Remove(is)
}

// Drain empties the queue. The commands are not given out any more, so their numbers end.
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

// number tells a worker the numbers of its batch of n commands. The first ones may be commands that were suspended, whose
// numbers their runs know.
func (q *sequence) number(w *Numbers, n int) {
	w.of = slices.Grow(w.of[:0], n)[:n]
	clear(w.of)
	copy(w.of[n-len(q.given):], q.given)
	q.given = q.given[:0]
}

// deposit takes what came of a worker's commands.
func (q *sequence) deposit(n *Numbers) {
	for i := range n.results {
		q.pending.At(int(n.results[i].number - q.first)).add(&n.results[i].Result)
	}
	q.results += len(n.results)
	for _, number := range n.ended {
		q.end(number)
	}
	clear(n.results)
	n.results, n.ended = n.results[:0], n.ended[:0]
}

// end notes that nothing more comes of a command. A command without a number is none that was given out.
func (q *sequence) end(number uint64) {
	if number != 0 {
		q.pending.At(int(number - q.first)).ended = true
	}
}

// succeed makes another worker the leaver if one is.
func (q *sequence) succeed(from, to *Numbers) {
	if from != nil && q.leaver == from {
		q.leaver = to
	}
}

// leave moves the results that may leave to the end of a slice, and makes the worker the leaver if there are any. If another
// worker is the leaver there are none.
func (q *sequence) leave(m *Numbers, into []Result) []Result {
	if q.leaver != nil && q.leaver != m {
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
		q.leaver = m
	}
	q.results -= len(into) - before
	return into
}

// leadsTo reports whether a result that has not left leads to an inlet.
func (q *sequence) leadsTo(to *behaviour.Inlet) bool {
	for i := range q.pending.Len() {
		p := q.pending.At(i)
		if p.n > 0 && p.one.To == to || slices.ContainsFunc(p.more, func(r Result) bool { return r.To == to }) {
			return true
		}
	}
	return false
}

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

// Numbers is what a worker knows of the numbers of its batch at an ordered stage, and what came of its commands that is not
// booked yet. Only the worker touches it. A command is known by its index in the batch.
type Numbers struct {
	of      []uint64
	results []numberedResult
	ended   []uint64
}

type numberedResult struct {
	Result

	number uint64
}

// NumbersOf returns the numbers of a batch that was not given out by the inbox: that of one command.
func NumbersOf(number uint64) *Numbers { return &Numbers{of: []uint64{number}} }

// Of returns the number of a command; 0 if it was suspended and its run knows the number.
func (n *Numbers) Of(i int32) uint64 { return n.of[i] }

// Set sets the number of a command that was suspended.
func (n *Numbers) Set(i int32, number uint64) { n.of[i] = number }

// Add adds a result of a command, and returns its envelope for the caller to fill.
func (n *Numbers) Add(i int32, to *behaviour.Inlet) *command.Envelope {
	n.results = append(n.results, numberedResult{Result{To: to}, n.of[i]})
	return &n.results[len(n.results)-1].Envelope
}

// End notes that nothing more comes of a command. It counts when what the worker did is booked.
func (n *Numbers) End(i int32) { n.ended = append(n.ended, n.of[i]) }

// Order says in which order the commands of the batch are now: at each index, the one that was at another.
func (n *Numbers) Order(were []int) {
	of := make([]uint64, len(were))
	for i, at := range were {
		of[i] = n.of[at]
	}
	n.of = of
}

// last returns the numbers of the last commands of the batch, without those that were suspended.
func (n *Numbers) last(many int) []queue.Key {
	keys := make([]queue.Key, 0, many)
	for _, number := range n.of[len(n.of)-many:] {
		if number != 0 {
			keys = append(keys, queue.Key(number))
		}
	}
	return keys
}

// before returns the number of the command before the last ones of the batch.
func (n *Numbers) before(last int) queue.Key { return queue.Key(n.of[len(n.of)-last-1]) }
