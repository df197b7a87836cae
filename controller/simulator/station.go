package simulator

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/ring"
)

// station is a stage in one process.
type station struct {
	*node

	run               *run
	process           *process
	queue             line
	door              door
	capacity, workers int
	limit             int           // commands here at once, queued or not; 0: any number
	rate              tokens        // for commands of sources
	sojourn           time.Duration // after which a command in the queue is shed; 0: never
	busy, blocked     int
	kept              int               // commands that hold slots here, and wait for a full stage while their workers go on
	senders           ring.Ring[sender] // workers that wait for a free slot, and the commands that they keep
	waiters           ring.Ring[int32]  // commands of sources that do
	outside           bool              // it is the turn of a waiter
	full              bool              // the controller knows
	totals            controller.Counters
	waits, works      histogram.Histogram
	moved             []uint64             // commands that other stages, and this one, have handed over, by stage
	before            []controller.StageID // the stages of moved from which any came
	inflows           []uint64             // and how many
	queued            float64              // commands in the queue, multiplied by seconds
	since             time.Duration        // up to when time is counted
}

// sender is a worker that has commands to hand over, in this order, or a
// command that it keeps.
type sender struct {
	from  *station
	first move
	rest  []move
	hold  *hold
	kept  bool // the worker continues
}

// hold counts the commands that a command has emitted and that are not handed
// over yet: its lane is taken until then.
type hold struct {
	key  uint32
	left int
}

// move is a command on its way to a stage.
type move struct {
	edge

	id int32
}

// line is a queue, whose commands of one lane are given out one after the other
// if there are lanes.
type line struct {
	ready ring.Ring[int32]
	lifo  bool // the newest goes first
	lanes []lane
	n     int // commands, also those whose lane is taken
}

type lane struct {
	taken   bool // a command of it is ready or in hand
	waiting ring.Ring[int32]
}

// push adds a command.
func (l *line) push(id int32, key uint32) {
	l.n++
	if at := l.lane(key); at != nil {
		if at.taken {
			at.waiting.Push(id)
			return
		}
		at.taken = true
	}
	l.ready.Push(id)
}

// pop takes the next command out, if one is ready.
func (l *line) pop() (id int32, ok bool) {
	if l.ready.Len() == 0 {
		return 0, false
	}
	l.n--
	if l.lifo {
		var newest [1]int32
		l.ready.PopBackInto(newest[:])
		return newest[0], true
	}
	return l.ready.Pop(), true
}

// discipline returns the name of the order.
func (l *line) discipline() string {
	if l.lifo {
		return "lifo"
	}
	return "fifo"
}

// oldest returns the command that has been ready for longest, if there is one.
func (l *line) oldest() (id int32, ok bool) {
	if l.ready.Len() == 0 {
		return 0, false
	}
	return *l.ready.At(0), true
}

// release ends the turn of a command that was popped: the next one of its lane
// is ready.
func (l *line) release(key uint32) {
	at := l.lane(key)
	switch {
	case at == nil:
	case at.waiting.Len() > 0:
		l.ready.Push(at.waiting.Pop())
	default:
		at.taken = false
	}
}

func (l *line) lane(key uint32) *lane {
	if len(l.lanes) == 0 {
		return nil
	}
	return &l.lanes[key%uint32(len(l.lanes))]
}

// touch counts the time up to now. It is called before the counted numbers
// change.
func (s *station) touch() {
	passed := s.run.now - s.since
	if passed == 0 {
		return
	}
	s.since = s.run.now
	s.totals.Busy += passed * time.Duration(s.busy)
	s.totals.Blocked += passed * time.Duration(s.blocked)
	s.totals.Idle += passed * time.Duration(max(s.workers-s.busy-s.blocked, 0))
	s.queued += passed.Seconds() * float64(s.queue.n)
}

// free returns how many more commands the station can take.
func (s *station) free() int {
	free := s.capacity - s.queue.n - s.kept
	if s.limit > 0 {
		free = min(free, s.limit-s.load())
	}
	return free
}

// load returns how many commands are here, queued or not.
func (s *station) load() int { return s.queue.n + s.busy + s.blocked + s.kept }

// half returns how many slots must be free before waiting workers get some.
func (s *station) half() int {
	size := s.capacity
	if s.limit > 0 {
		size = min(size, s.limit)
	}
	return (max(size-s.kept, 1) + 1) / 2
}

// submit takes a command of a source, lets it wait in line, or refuses it.
func (s *station) submit(id int32) {
	s.run.commands[id].at = s.run.now
	switch {
	case !s.process.rate.take(s.run.now) || !s.rate.take(s.run.now):
		s.totals.Rejected++
		s.run.refuse(s.run.commands[id].message)
		s.run.free(id)
	case s.waiters.Len() == 0 && s.senders.Len() == 0 && s.free() > 0:
		s.accept(id)
	case s.Reject && s.run.fleet == nil:
		s.totals.Rejected++
		s.run.refuse(s.run.commands[id].message)
		s.run.free(id)
	default:
		s.waiters.Push(id)
	}
}

// accept queues a command.
func (s *station) accept(id int32) {
	s.touch()
	s.totals.Accepted++
	s.run.commands[id].since = s.run.now
	s.queue.push(id, s.run.keyOf(id))
	if s.queue.n >= s.capacity && !s.full {
		s.full = true
		s.process.notify(s.id)
	}
	s.serve()
}

// take queues a command that a worker hands over.
func (s *station) take(from *station, id int32) {
	s.moved[from.id]++
	s.accept(id)
}

// expire sheds the commands that have waited for too long.
func (s *station) expire() {
	dropped := false
	for s.sojourn > 0 {
		id, ok := s.queue.oldest()
		if !ok || s.run.now-s.run.commands[id].since <= s.sojourn {
			break
		}
		dropped = true
		s.touch()
		s.queue.ready.Pop()
		s.queue.n--
		s.totals.Shed++
		s.waits.Record(s.run.now-s.run.commands[id].since, 1)
		s.queue.release(s.run.keyOf(id))
		s.run.shed(id)
	}
	if dropped {
		s.grant()
	}
}

// serve has idle workers begin.
func (s *station) serve() {
	s.expire()
	for s.busy+s.blocked < s.workers {
		s.touch()
		id, ok := s.queue.pop()
		if !ok {
			return
		}
		s.begin(id)
		s.full = s.full && s.queue.n > s.capacity/2
		s.grant()
	}
}

// begin has a worker handle a command.
func (s *station) begin(id int32) {
	s.busy++
	c := &s.run.commands[id]
	s.wait.record(s.run, c.at, s.run.now)
	s.waits.Record(s.run.now-c.since, 1)
	c.station, c.since = s, s.run.now
	d := min(max(s.Service.Draw(s.service), 0), longest)
	if s.Computes && s.process.cpu.cores > 0 {
		s.process.cpu.add(s.run, id, d)
		return
	}
	s.run.calendar.enter(event{at: s.run.now + d, kind: finished, id: id, gen: c.gen})
}

// finish ends the handling of a command, and has its worker hand over the
// commands that it emits.
func (s *station) finish(id int32) {
	s.touch()
	s.busy--
	s.latency.record(s.run, s.run.commands[id].at, s.run.now)
	s.works.Record(s.run.now-s.run.commands[id].since, 1)
	key, moves := s.run.keyOf(id), s.run.moves[:0]
	for _, e := range s.emit {
		for range s.emits(e.share) {
			moves = append(moves, move{e, s.run.child(id)})
		}
	}
	if e, ok := s.route(); ok {
		s.totals.Forwarded++
		moves = append(moves, move{e, id})
	} else {
		s.totals.OK++
		s.run.drop(id)
	}
	s.run.moves = moves
	switch left := s.handOver(moves); {
	case len(left) == 0:
		s.queue.release(key)
	case len(s.next) > 1 && s.kept < s.capacity:
		s.keep(left, key)
	default:
		s.blocked++
		s.process.stations[left[0].to].senders.Push(sender{from: s, first: left[0], rest: slices.Clone(left[1:]), hold: &hold{key, 1}})
	}
	s.serve()
	if s.limit > 0 {
		s.grant()
	}
}

// emits returns how many commands an edge gets.
func (s *station) emits(share float64) int {
	n := int(share)
	if rest := share - float64(n); rest > 0 && s.routes.Float64() < rest {
		n++
	}
	return n
}

// route returns the edge along which the command is forwarded; ok is false if
// it ends here.
func (s *station) route() (e edge, ok bool) {
	if len(s.forward) == 0 {
		return edge{}, false
	}
	at := s.routes.Float64()
	for _, e := range s.forward {
		if at < e.share {
			return e, true
		}
		at -= e.share
	}
	return edge{}, false
}

// handOver hands commands of one of the workers over, and returns the commands
// that are left. A worker waits for the first of them; one whose stage leads to
// several others tries all.
func (s *station) handOver(moves []move) (left []move) {
	for i, m := range moves {
		to := s.process.stations[m.to]
		s.run.commands[m.id].at = s.run.now
		switch {
		case m.back || to.senders.Len() == 0 && to.free() > 0:
			to.take(s, m.id)
		case to.Reject:
			to.totals.Shed++
			s.run.shed(m.id)
		case len(s.next) > 1:
			left = append(left, m)
		default:
			return moves[i:]
		}
	}
	return left
}

// keep makes commands wait for full stages while their worker continues.
func (s *station) keep(left []move, key uint32) {
	h := &hold{key, len(left)}
	s.kept += len(left)
	for _, m := range left {
		s.process.stations[m.to].senders.Push(sender{from: s, first: m, hold: h, kept: true})
	}
}

// grant gives free slots to workers and sources that wait for them: to workers
// when half of the queue is free, and in turns if both wait.
func (s *station) grant() {
	if s.senders.Len() > 0 && s.free() < s.half() {
		return
	}
	for s.free() > 0 {
		switch {
		case s.waiters.Len() > 0 && (s.senders.Len() == 0 || s.outside):
			s.outside = false
			s.accept(s.waiters.Pop())
		case s.senders.Len() > 0:
			s.outside = true
			w := s.senders.Pop()
			s.take(w.from, w.first.id)
			w.from.handedOver(&w)
		default:
			return
		}
	}
}

// handedOver has a worker go on of which a stage ahead has taken the first
// command.
func (s *station) handedOver(w *sender) {
	s.touch()
	if w.kept {
		s.kept--
	} else if left := s.handOver(w.rest); len(left) > 0 {
		to := &s.process.stations[left[0].to].senders
		again := sender{from: s, first: left[0], rest: slices.Clone(left[1:]), hold: w.hold}
		if left[0].to == w.first.to { // it keeps its place
			to.PushFront([]sender{again})
		} else {
			to.Push(again)
		}
		return
	} else {
		s.blocked--
	}
	if w.hold.left--; w.hold.left == 0 {
		s.queue.release(w.hold.key)
	}
	s.serve()
	s.grant()
}

// simulated lists the knobs that a policy may claim.
var simulated = []controller.Knob{
	controller.KnobWorkers, controller.KnobCapacity, controller.KnobLimit, controller.KnobSojourn, controller.KnobDiscipline,
	controller.KnobRate,
}

// apply applies a decision, and reports false if it is not simulated.
func (s *station) apply(c controller.Change) bool {
	s.touch()
	switch c.What {
	case controller.KnobWorkers:
		s.workers = c.After.(int)
		s.serve()
	case controller.KnobCapacity:
		s.capacity = c.After.(int)
		s.grant()
	case controller.KnobLimit:
		s.limit = c.After.(int)
		s.grant()
	case controller.KnobRate:
		s.rate.set(c.After.(controller.Rate), s.run.now)
	case controller.KnobSojourn:
		s.sojourn = c.After.(time.Duration)
	case controller.KnobDiscipline:
		s.queue.lifo = c.After == "lifo"
		return c.After == "lifo" || c.After == "fifo"
	default:
		return false
	}
	return true
}
