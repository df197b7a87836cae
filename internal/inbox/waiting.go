package inbox

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// waiting is the queue of an inbox: a ring, or a line of another discipline. The ring is apart because each hop goes
// through it, and it can be written to in place.
type waiting struct {
	ring  ring.Ring[command.Envelope]
	line  ordered // nil: first in, first out
	lanes *lanes  // the line, if the stage is keyed or has a rate for each key
	// guarded is the line, if the stage has guards. The pointer is not changed.
	guarded *guarded
	// sequence is the line, if the stage is ordered. The pointer is not changed.
	sequence *sequence
	keyOf    atomic.Pointer[keyFunc] // of the line, if it asks commands for a key; may be read without the lock
	wary     atomic.Bool             // a command has ended its goroutine when it was asked
	// woken are commands that were started and suspended, and may go on: before all others, whatever the discipline, and
	// without slots. Nil in an inbox whose handlers do not suspend.
	woken *woken

	packed     int32 // queued commands that belong to a pack
	untilStamp int32 // commands to come before the clock is read again
}

// ordered is a queue in another order than first in, first out: a line, or lanes.
type ordered interface {
	Len() int
	Push(e command.Envelope, k queue.Key)
	PushAll(es []command.Envelope, keys []queue.Key)
	PushFront(es []command.Envelope, keys []queue.Key)
	PopInto(dst []command.Envelope) int
	Drop() command.Envelope
	At(i int) *command.Envelope
	Oldest() *command.Envelope
	Count(is func(*command.Envelope) bool) int
	Remove(is func(*command.Envelope) bool) []command.Envelope
	Drain() []command.Envelope
}

// disciplined is the queue of a discipline.
type disciplined struct{ *queue.Line[command.Envelope] }

// PushFront puts commands back before all others, whatever their keys.
func (l disciplined) PushFront(es []command.Envelope, _ []queue.Key) { l.Line.PushFront(es) }

// keyFunc returns the key of a command, which is given as envelopes have it. It calls user code.
type keyFunc func(load any) queue.Key

// Len is how many commands wait, those that may go on included.
func (q *waiting) Len() int {
	if q.woken != nil {
		return q.fresh() + q.woken.Len()
	}
	return q.fresh()
}

// fresh is how many commands wait that have not been started: those that hold a slot.
func (q *waiting) fresh() int {
	if q.line != nil {
		return q.line.Len()
	}
	return q.ring.Len()
}

// place is where a command belongs in the queue, and which discipline said so.
type place struct {
	key queue.Key
	of  *keyFunc
}

// places are those of many commands; the zero places say nothing, for a queue that asks nothing.
type places struct {
	keys []queue.Key
	of   *keyFunc
	from *[]queue.Key // of spareKeys, that keys is to be put back with
}

// place asks a command where it belongs. It calls user code, so the lock is not held. A command that panics has key 0.
func (q *waiting) place(load any) place {
	f := q.keyOf.Load()
	if f == nil {
		return place{}
	}
	return place{q.ask(*f, load), f}
}

// ask asks one command. One that ends the goroutine cannot be stopped; but from then on commands are asked on goroutines of
// their own, so that the same command does not end the next goroutine too.
func (q *waiting) ask(f keyFunc, load any) (k queue.Key) {
	if q.wary.Load() {
		key := make(chan queue.Key, 1)
		go func() { defer close(key); key <- q.askHere(f, load) }()
		return <-key
	}
	return q.askHere(f, load)
}

func (q *waiting) askHere(f keyFunc, load any) (k queue.Key) {
	done := false
	defer func() {
		if done {
			return
		}
		if recover() == nil {
			q.wary.Store(true)
		}
		k = 0
	}()
	k = f(load)
	done = true
	return k
}

// places asks many commands.
func (q *waiting) places(es []command.Envelope) places {
	f := q.keyOf.Load()
	if f == nil {
		return places{}
	}
	from, _ := spareKeys.Get().(*[]queue.Key)
	if from == nil {
		from = new([]queue.Key)
	}
	keys := slices.Grow((*from)[:0], len(es))[:len(es)]
	for i := range es {
		keys[i] = q.ask(*f, es[i].Load)
	}
	return places{keys, f, from}
}

// spareKeys has slices of keys, which every hand-over to a stage with keys needs one of.
var spareKeys sync.Pool

// recycle lets the slice of keys be used again. The places are not used any more.
func (p places) recycle() {
	if p.from != nil {
		*p.from = p.keys
		spareKeys.Put(p.from)
	}
}

// first returns the places of the first n commands, rest those of the others.
func (p places) first(n int) places { return places{keys: p.keys[:min(n, len(p.keys))], of: p.of} }
func (p places) rest(n int) places  { return places{keys: p.keys[min(n, len(p.keys)):], of: p.of} }

func (p places) at(i int) place {
	if i < len(p.keys) {
		return place{p.keys[i], p.of}
	}
	return place{}
}

// push adds a command to the line. A key that another discipline gave, before the order was changed, counts for nothing.
func (q *waiting) push(e command.Envelope, p place) {
	if p.of != q.keyOf.Load() {
		p.key = 0
	}
	q.line.Push(e, p.key)
}

// next adds an empty place to the ring.
func (q *waiting) next() *command.Envelope { return q.ring.Next() }

func (q *waiting) pushAll(es []command.Envelope, p places) {
	switch {
	case q.line == nil:
		q.ring.PushAll(es)
	case p.of != q.keyOf.Load():
		q.line.PushAll(es, nil)
	default:
		q.line.PushAll(es, p.first(len(es)).keys)
	}
}

// pushFront puts commands back. Woken commands have no places.
func (q *waiting) pushFront(es []command.Envelope, p places) {
	if q.woken != nil {
		es = q.woken.back(es)
	}
	if q.line != nil {
		q.line.PushFront(es, p.keys)
		return
	}
	q.ring.PushFront(es)
}

// popInto moves commands out that have not been started.
func (q *waiting) popInto(es []command.Envelope) int {
	if q.line != nil {
		return q.line.PopInto(es)
	}
	return q.ring.PopInto(es)
}

// drop removes the command that has waited for longest.
func (q *waiting) drop() command.Envelope {
	if q.line != nil {
		return q.line.Drop()
	}
	return q.ring.Pop()
}

// at is the command that comes out after i others; nil if that is not known. What was given back after a crash is known.
func (q *waiting) at(i int) *command.Envelope {
	if q.line != nil {
		return q.line.At(i)
	}
	return q.ring.At(i)
}

// oldest is the command that has waited for longest. The queue is not empty.
func (q *waiting) oldest() *command.Envelope {
	if q.line != nil {
		return q.line.Oldest()
	}
	return q.ring.At(0)
}

// waited is how long the oldest command has waited, or the next of so many that has a time; 0 if none has. Of commands that
// came together the last has one, so the result is exact for them; submitted commands have waited at least so long.
func (q *waiting) waited(now int64, many int) time.Duration {
	if q.line != nil {
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

// count counts the commands for which so is true.
func (q *waiting) count(so func(*command.Envelope) bool) (n int) {
	if q.line != nil {
		return q.line.Count(so)
	}
	for i := range q.ring.Len() {
		if so(q.ring.At(i)) {
			n++
		}
	}
	return n
}

// remove takes out the commands that have not been started for which is is true. It asks about each once.
func (q *waiting) remove(is func(*command.Envelope) bool) []command.Envelope {
	if q.line != nil {
		return q.line.Remove(is)
	}
	return q.ring.Remove(is)
}

// order changes the discipline; nil is first in, first out. The order of an ordered stage, or of one with lanes, does not change.
func (q *waiting) order(d queue.Discipline) {
	if _, plain := d.(queue.FIFO); plain {
		d = nil
	}
	if q.lanes != nil || q.sequence != nil || q.guarded != nil || d == nil && q.line == nil {
		return
	}
	l, _ := q.line.(disciplined)
	if q.line == nil {
		l = disciplined{queue.New[command.Envelope](nil)}
		es := drain(&q.ring)
		given := givenBack(es)
		l.PushAll(es[given:], nil)
		l.PushFront(es[:given], nil)
		q.line = l
	}
	var key func(*command.Envelope) queue.Key
	q.keyOf.Store(nil)
	if keyed, ok := d.(queue.Keyed); ok {
		f := keyFunc(func(load any) queue.Key { return keyed.Key(link.Bare(load)) })
		key = func(e *command.Envelope) queue.Key { return q.ask(f, e.Load) }
		q.keyOf.Store(&f)
	}
	l.Switch(d, key)
	if d == nil {
		q.ring.PushAll(l.Drain())
		q.line = nil
	}
}

// byKey makes the queue one of lanes, for good.
func (q *waiting) byKey(f keyFunc, l *lanes) {
	q.lanes, q.line = l, l
	q.keyOf.Store(&f)
}

// byMethod makes the queue that of a stage with guards, for good.
func (q *waiting) byMethod(method func(load any) string, g *guarded) {
	q.guarded, q.line = g, g
	f := keyFunc(func(load any) queue.Key { return g.names.key(method(load)) })
	q.keyOf.Store(&f)
}

// inSequence makes the queue that of an ordered stage.
func (q *waiting) inSequence() {
	q.sequence = newSequence()
	q.line = q.sequence
}

// results is how many results of an ordered stage wait until they may leave.
func (q *waiting) results() int {
	if q.sequence == nil {
		return 0
	}
	return q.sequence.results
}

// droppable is how many of the waiting commands may be dropped.
func (q *waiting) droppable() int {
	if q.sequence != nil {
		return q.sequence.fresh.Len()
	}
	return q.fresh()
}

// keyed reports whether the queue is that of a keyed stage.
func (q *waiting) keyed() bool { return q.lanes != nil && q.lanes.keyed }

// heldByCommands reports whether it is that of a keyed stage whose handlers may suspend, so that commands hold its lanes.
func (q *waiting) heldByCommands() bool { return q.lanes != nil && q.lanes.byOne }

// bounded returns the lanes if there is a bound for each key; otherwise nil.
func (q *waiting) bounded() *lanes {
	if q.lanes == nil || q.lanes.most == 0 {
		return nil
	}
	return q.lanes
}

// keyBound is how many slots the commands of one key may hold; 0: any number.
func (q *waiting) keyBound() int {
	if q.lanes == nil {
		return 0
	}
	return q.lanes.most
}

// rated reports whether there is a rate for each key.
func (q *waiting) rated() bool { return q.lanes != nil && q.lanes.full != nil }

// takeable is how many of the waiting commands a worker could take now.
func (q *waiting) takeable() int {
	switch {
	case q.lanes != nil:
		return q.lanes.takeable
	case q.guarded != nil:
		return q.guarded.takeable()
	}
	return q.fresh()
}

// givenBack is how many commands at the front were given back in packs after a crash: they stay before all others in any
// order.
func givenBack(es []command.Envelope) (n int) {
	for n < len(es) && es[n].Pack() > 0 {
		n++
	}
	return n
}

func drain(r *ring.Ring[command.Envelope]) []command.Envelope {
	es := make([]command.Envelope, r.Len())
	r.PopInto(es)
	*r = ring.Ring[command.Envelope]{}
	return es
}

// woken is the queue of commands that may go on.
type woken struct {
	ring.Ring[command.Envelope]
	yielded bool // the last batch that they would have filled left a place for a fresh one
}

// pop takes up to len(es) commands out. If they would fill the batch, every other time they leave the last place of it to a
// fresh one, if there is any: handlers that yield again and again must not keep other commands from ever starting.
func (q *woken) pop(es []command.Envelope, fresh bool) int {
	if fresh && q.Len() >= len(es) {
		if q.yielded = !q.yielded; q.yielded {
			es = es[:len(es)-1]
		}
	}
	return q.PopInto(es)
}

// back puts commands that were woken back before all others, and returns the rest.
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
	if q.line != nil {
		return q.line.Drain()
	}
	es := make([]command.Envelope, q.fresh())
	q.popInto(es)
	return es
}
