package inbox

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/queue"
)

// waiting is the queue of an inbox: a line, and before it the woken commands,
// which were started and may resume. If the line is the ring, commands are
// written to it in place, because each hop passes through it.
type waiting struct {
	ring   line.Ring
	line   line.Line
	kind                            // of the line
	ranker atomic.Pointer[rankFunc] // of the line, if it asks commands for ranks; may be read without the lock
	woken  *woken                   // nil if the inbox's handlers do not suspend

	plain bool        // the line is first in, first out: the ring
	wary  atomic.Bool // a command has ended its goroutine when it was asked

	packed     int32 // queued commands that belong to a pack
	untilStamp int32 // commands until the clock is read again
}

// kind has the properties of a line that stay when its order changes. It may be
// read without the lock.
type kind struct {
	rates       line.Rates  // nil: the line has none
	bound       line.Places // nil: the line bounds no keys
	knows, asks bool        // see line.Batches
	parks       bool        // keys may be parked: the line is a line.Parks. An interface here would make each stage 128 bytes larger.
}

// rankFunc returns the rank of a command, which is given as envelopes have it.
// It calls user code.
type rankFunc func(load any) line.Rank

// install gives the line to the queue of an inbox that was not opened.
func (q *waiting) install(l line.Line, plain bool) {
	q.kind = kind{line.RatesOf(l), line.PlacesOf(l), l.Knows(), l.Asks(), line.ParksOf(l) != nil}
	q.set(l, plain)
}

// set sets the line. Plain says that it is the ring.
func (q *waiting) set(l line.Line, plain bool) {
	q.line, q.plain = l, plain
	q.ranker.Store(nil)
	if f := rankFunc(l.Ranker()); f != nil {
		q.ranker.Store(&f)
	}
}

// Len is how many commands wait, including woken commands, which may resume.
func (q *waiting) Len() int { return q.fresh() + q.woken.Len() }

// fresh is how many waiting commands have not been started. These hold a slot.
func (q *waiting) fresh() int {
	if q.plain {
		return q.ring.Len()
	}
	return q.line.Len()
}

// slotted is how many of these hold a slot: all but commands of parked keys.
func (q *waiting) slotted() int {
	if !q.parks {
		return q.fresh()
	}
	return q.line.Len() - line.ParksOf(q.line).Aside()
}

// place is where a command belongs in the queue, and which discipline said so.
type place struct {
	rank line.Rank
	of   *rankFunc
}

// places has the place of each of many commands; the zero places are for a
// queue that asks for none.
type places struct {
	ranks []line.Rank
	of    *rankFunc
	from  *[]line.Rank // the pointer with which ranks must be put back into spareRanks
}

// place asks a command where it belongs. It calls user code, so the lock is not
// held. A command that panics has no rank.
func (q *waiting) place(load any) place {
	f := q.ranker.Load()
	if f == nil {
		return place{}
	}
	return place{q.ask(*f, load), f}
}

// ask asks one command. One that ends the goroutine cannot be stopped; but from
// then on commands are asked on goroutines of their own, so that the same
// command does not end the next goroutine too.
func (q *waiting) ask(f rankFunc, load any) (r line.Rank) {
	if q.wary.Load() {
		rank := make(chan line.Rank, 1)
		go func() { defer close(rank); rank <- q.askHere(f, load) }()
		return <-rank
	}
	return q.askHere(f, load)
}

func (q *waiting) askHere(f rankFunc, load any) (r line.Rank) {
	done := false
	defer func() {
		if done {
			return
		}
		if recover() == nil {
			q.wary.Store(true)
		}
		r = line.Rank{}
	}()
	r = f(load)
	done = true
	return r
}

// places asks many commands.
func (q *waiting) places(es []command.Envelope) places {
	f := q.ranker.Load()
	if f == nil {
		return places{}
	}
	from, _ := spareRanks.Get().(*[]line.Rank)
	if from == nil {
		from = new([]line.Rank)
	}
	ranks := slices.Grow((*from)[:0], len(es))[:len(es)]
	for i := range es {
		ranks[i] = q.ask(*f, es[i].Load)
	}
	return places{ranks, f, from}
}

// spareRanks has slices of ranks: every hand-over to a stage with ranks needs
// one.
var spareRanks sync.Pool

// recycle lets the slice of ranks be used again. The places are not used any
// more.
func (p places) recycle() {
	if p.from != nil {
		*p.from = p.ranks
		spareRanks.Put(p.from)
	}
}

// rest returns the places of the commands behind the first n.
func (p places) rest(n int) places {
	return places{ranks: p.ranks[min(n, len(p.ranks)):], of: p.of}
}

func (p places) at(i int) place {
	if i < len(p.ranks) {
		return place{p.ranks[i], p.of}
	}
	return place{}
}

// push adds a command to the line. A rank that another discipline gave, before
// the order was changed, counts for nothing.
func (q *waiting) push(e *command.Envelope, p place) {
	if p.of != q.ranker.Load() {
		p.rank = line.Rank{}
	}
	q.line.Push(*e, p.rank)
}

// next adds an empty place to the ring.
func (q *waiting) next() *command.Envelope { return q.ring.Next() }

func (q *waiting) pushAll(es []command.Envelope, p places) {
	switch {
	case q.plain:
		q.ring.PushAll(es)
	case p.of != q.ranker.Load():
		q.line.PushAll(es, nil)
	default:
		q.line.PushAll(es, p.ranks[:min(len(es), len(p.ranks))])
	}
}

// pushFront puts commands back. Woken commands have no places.
func (q *waiting) pushFront(es []command.Envelope, p places) {
	if q.woken != nil {
		es = q.woken.back(es)
	}
	q.line.Return(es, p.ranks)
}

// popInto moves commands out that have not been started.
func (q *waiting) popInto(es []command.Envelope) int {
	if q.plain {
		return q.ring.PopInto(es)
	}
	return q.line.PopInto(es)
}

// waited returns for how long the oldest command has waited. Only some commands
// of a plain queue are timestamped, so it looks at up to many commands, and
// returns 0 if none of them has a timestamp. Of commands that arrived together
// the last one has it, so the result is exact for them. Submitted commands have
// waited at least that long.
func (q *waiting) waited(now int64, many int) time.Duration {
	if !q.plain {
		d, _ := q.line.Oldest().Waited(now)
		return d
	}
	for i := range min(q.ring.Len(), many) {
		if d, known := q.ring.At(i).Waited(now); known {
			return d
		}
	}
	return 0
}

// order changes the discipline; nil is first in, first out. The order of a line
// that has one of its own does not change.
func (q *waiting) order(d queue.Discipline) {
	if _, plain := d.(queue.FIFO); plain {
		d = nil
	}
	if d == nil && q.plain {
		return
	}
	l, ok := line.Reorder(q.line, d, func(f func(any) line.Rank, load any) line.Rank { return q.ask(f, load) })
	if ok {
		q.set(l, d == nil)
	}
}

// woken is the queue of commands that were started and suspended, and may
// resume. They are taken before all others, whatever the line, and hold no
// slots.
type woken struct {
	line.Ring

	yielded bool // the last batch that they would have filled left a place for a fresh one
}

// Len returns how many commands are queued. A queue that is nil is empty.
func (q *woken) Len() int {
	if q == nil {
		return 0
	}
	return q.Ring.Len()
}

// pop takes up to len(es) commands out. If they would fill the batch, every
// other time they leave the last place of it to a fresh one, if there is any:
// handlers that yield again and again must not keep other commands from ever
// starting.
func (q *woken) pop(es []command.Envelope, fresh bool) int {
	if fresh && q.Len() >= len(es) {
		if q.yielded = !q.yielded; q.yielded {
			es = es[:len(es)-1]
		}
	}
	return q.PopInto(es)
}

// back puts commands that were woken back before all others, and returns the
// rest.
func (q *woken) back(es []command.Envelope) (rest []command.Envelope) {
	var mine []command.Envelope
	for i := range es {
		if es[i].Woken() {
			mine = append(mine, es[i])
		} else {
			rest = append(rest, es[i])
		}
	}
	q.PushFront(mine)
	return rest
}

// takeAll empties the queue of commands that were not started.
func (q *waiting) takeAll() []command.Envelope {
	q.packed = 0
	return q.line.Drain()
}

// Narrow cuts a batch that crashed, and whose culprit is not known, into packs:
// about √n packs of about √n commands. A batch that was a pack already is cut
// into single commands. So a culprit among n is found with three crashes, its
// neighbours are handled three times at most, and the innocent rest is soon
// handled in batches again. To halve the batch again and again would cost a
// crash for each halving, and the neighbours as many tries. To handle all
// commands one by one at once would lose the benefit of batching: a batch of
// 256 with one culprit takes 33 calls in packs, and 257 one by one.
func Narrow(batch []command.Envelope) {
	size := 1
	if n := len(batch); batch[0].Pack() == 0 && n > 2 {
		size = min(int(math.Ceil(math.Sqrt(float64(n)))), command.MaxPack)
	}
	for i := range batch {
		batch[i].SetPack(min(size-i%size, len(batch)-i))
	}
}

// countPacked counts packed commands that were queued.
func (q *waiting) countPacked(es []command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			q.packed++
		}
	}
}

// unpack counts packed commands that have left the queue.
func (q *waiting) unpack(es ...command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			q.packed--
		}
	}
}

// apart cuts a batch of n commands to the pack that comes first, or before a
// pack that comes later. A discipline that does not know its later commands yet
// may put a command that is tried again among others; packs that were given
// back are known.
func (q *waiting) apart(n int) int {
	if first := q.line.At(0); first.Pack() > 0 {
		return min(n, first.Pack())
	}
	for i := 1; i < n; i++ {
		e := q.line.At(i)
		if e == nil {
			break
		}
		if e.Pack() > 0 {
			return i
		}
	}
	return n
}
