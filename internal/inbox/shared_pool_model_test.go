package inbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/queue"
)

var dispatchModes = []controller.Dispatch{controller.SharedFIFO, controller.SharedPriority, controller.Polled}

// The walk: a few inboxes in a row, two shared pools and workers of the inboxes' own, driven by
// chance. A worker's turn may be taken in two parts, with anything in between, as
// happens when it is overtaken on its way from the shared pool to an inbox.
func TestCrewsServeTheirRoomsWhateverIsDecided(t *testing.T) {
	for _, mode := range dispatchModes {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(timeless{t}, func(t *rapid.T) {
					w := newTown(t, mode)
					defer w.end()
					for range 6 {
						t.Repeat(w.actions())
					}
					w.settle(t)
				})
			})
		})
	}
}

// town is a house as it should be.
type town struct {
	host  *Pipeline
	rooms []*place1
	crews []*SharedPool
	pawns []*pawn
	next  int

	mu    sync.Mutex  // guards ends
	ends  map[int]int // how often each ended, by us or by an inbox
	byOne map[int]int // inboxes' share of it, by place
	gone  map[any]bool
}

// place1 is an inbox and what it should have.
type place1 struct {
	*Inbox
	to      []*place1 // ways ahead
	queue   []int     // as it should be given out, if it is first in, first out
	delayed []int
	packs   packs
	waiters []*modelWaiter

	accepted, ok, forwarded, errors, rejected int
	wasOut, wasMade                           int
}

// pawn is a worker of a shared pool, or of an inbox's own.
type pawn struct {
	Member
	crew           *SharedPool
	room           *place1 // of its own, or where it is
	joined, parked bool
	woken          atomic.Bool
	hand           []command.Envelope
	outs           map[*place1][]command.Envelope
	tally          Tally

	onWay bool // between the shared pool and an inbox
	way   *Inbox
	era   uint64
}

type inst struct{ _ int }

func newTown(t *rapid.T, mode controller.Dispatch) *town {
	w := &town{ends: map[int]int{}, byOne: map[int]int{}, gone: map[any]bool{}}
	w.host = newHouse()
	w.host.Ended = func(e Ending) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.byOne[e.Inbox.Place]++
		w.ends[e.Cmd.(int)] += 100 // to be told from those that ended well
	}
	for i := range 2 {
		sp := NewSharedPool(fmt.Sprint("crew", i), w.host)
		sp.SetDispatch(mode)
		w.crews = append(w.crews, sp)
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "rooms") {
		rule := Wait
		if rapid.IntRange(0, 5).Draw(t, "drops") == 0 {
			rule = rapid.SampledFrom([]Overflow{Reject, DropNewest, DropOldest}).Draw(t, "rule")
		}
		backoff := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "backoff")
		in := New(Config{
			Name: string(rune('A' + i)), Capacity: rapid.IntRange(1, 8).Draw(t, "capacity"), Batch: 4, Overflow: rule,
			Instances: rapid.IntRange(1, 3).Draw(t, "instances"), StreakEnds: time.Minute,
			Retry: Retry{Attempts: 3, Backoff: backoff, Max: time.Minute},
		})
		in.Place = i
		in.limit = rapid.IntRange(1, 4).Draw(t, "limit")
		in.Attach(w.host)
		in.Open()
		w.rooms = append(w.rooms, &place1{Inbox: in, packs: packs{}})
		if k := rapid.IntRange(0, 4).Draw(t, "bound to"); k < 4 {
			in.Bind(w.crews[max(k-2, 0)])
		}
	}
	for i, r := range w.rooms[1:] {
		for _, from := range w.rooms[:i+1] {
			if from == w.rooms[i] || rapid.Bool().Draw(t, "short cut") {
				from.to = append(from.to, r)
				from.Ahead(r.Inbox)
			}
		}
	}
	for i := range rapid.IntRange(2, 5).Draw(t, "pawns") {
		sp := w.crews[i%2]
		if i >= 2 {
			sp = w.anyCrew(t)
		}
		w.pawn(sp, nil)
	}
	for _, r := range w.rooms {
		for range rapid.IntRange(1, 2).Draw(t, "own") {
			w.pawn(nil, r)
		}
	}
	return w
}

func (w *town) pawn(sp *SharedPool, r *place1) {
	p := &pawn{crew: sp, room: r, outs: map[*place1][]command.Envelope{}}
	p.Wake = func() { p.woken.Store(true) }
	w.pawns = append(w.pawns, p)
	if sp != nil || r.pool == nil {
		w.seat(p)
	}
}

// end sends everybody home, whatever happened.
func (w *town) end() {
	for _, r := range w.rooms {
		for _, x := range r.waiters {
			x.cancel()
		}
		r.Halt()()
	}
	synctest.Wait()
}

func (w *town) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         w.check,
		"submit":   w.submit,
		"submit2":  w.submit,
		"submit3":  w.submit,
		"cancel":   w.cancel,
		"turn":     w.turn,
		"turn2":    w.turn,
		"depart":   w.depart,
		"arrive":   w.arrive,
		"cycle":    w.cycle,
		"cycle2":   w.cycle,
		"cycle3":   w.cycle,
		"done":     w.done,
		"deliver":  w.deliver,
		"again":    w.again,
		"crash":    w.crash,
		"nostart":  w.seldom(w.nostart),
		"join":     w.join,
		"leave":    w.seldom(w.leave),
		"shrink":   w.seldom(w.shrink),
		"keep":     w.seldom(w.keep),
		"bind":     w.seldom(w.bind),
		"choose":   w.seldom(w.choose),
		"follow":   w.seldom(w.follow),
		"pause":    w.seldom(w.pause),
		"adjust":   w.seldom(w.adjust),
		"order":    w.seldom(w.order),
		"rest":     w.seldom(w.rest),
		"tick":     w.tick,
		"close":    w.seldom(w.seldom(w.close)),
		"stock":    w.seldom(w.stock),
		"unshelve": w.seldom(w.unshelve),
		"settle":   w.seldom(w.seldom(w.settle)),
	}
}

// seldom skips an action three times out of four.
func (w *town) seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
			t.Skip()
		}
		f(t)
	}
}

func (w *town) anyRoom(t *rapid.T) *place1 {
	return w.rooms[rapid.IntRange(0, len(w.rooms)-1).Draw(t, "room")]
}

func (w *town) anyCrew(t *rapid.T) *SharedPool { return w.crews[rapid.IntRange(0, 1).Draw(t, "crew")] }

// one draws a worker of whom something is true.
func (w *town) one(t *rapid.T, is func(*pawn) bool) *pawn {
	var those []*pawn
	for _, p := range w.pawns {
		if is(p) {
			those = append(those, p)
		}
	}
	if len(those) == 0 {
		t.Skip()
	}
	return those[rapid.IntRange(0, len(those)-1).Draw(t, "of those")]
}

func (w *town) submit(t *rapid.T) {
	r := w.anyRoom(t)
	id := w.next
	w.next++
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	go func() { x.result <- r.Submit(ctx, &command.Envelope{Cmd: id}) }()
	synctest.Wait()
	r.waiters = append(r.waiters, x)
}

func (w *town) cancel(t *rapid.T) {
	r := w.anyRoom(t)
	if len(r.waiters) == 0 {
		t.Skip()
	}
	x := r.waiters[rapid.IntRange(0, len(r.waiters)-1).Draw(t, "waiter")]
	x.given = true
	x.cancel()
	synctest.Wait()
}

// free reports whether a worker may be sent for a turn.
func (p *pawn) free() bool {
	return p.joined && !p.onWay && len(p.hand) == 0 && len(p.outs) == 0 && (!p.parked || p.woken.Load())
}

func (w *town) turn(t *rapid.T) {
	w.takeTurn(t, w.one(t, (*pawn).free), rapid.Bool().Draw(t, "park"))
}

func (w *town) takeTurn(t *rapid.T, p *pawn, park bool) int {
	for _, r := range w.rooms {
		w.hear(t, r)
	}
	if !p.Ready() {
		t.Fatalf("woken and not ready")
	}
	p.parked = false
	p.woken.Store(false)
	if p.crew == nil {
		return w.ownTurn(t, p, park)
	}
	before, places := p.crew.Accounts().Visits, len(p.crew.route.Load().order)
	if p.route != nil {
		places = max(places, len(p.route.order))
	}
	in, n := p.crew.Turn(&p.Member, &p.tally, park)
	if made := p.crew.Accounts().Visits - before; int(made) > 1+3*(places+1)*(places+1) {
		t.Fatalf("%d visits in one turn", made)
	}
	w.came(t, p, in, n, park)
	return n
}

// came is what follows the turn of a worker of a shared pool.
func (w *town) came(t *rapid.T, p *pawn, in *Inbox, n int, park bool) {
	w.discard(t, p)
	switch {
	case n < 0:
		if !p.retired {
			t.Fatalf("sent away for no reason")
		}
		p.crew.Leave(&p.Member, &p.tally)
		p.joined = false
	case n == 0:
		p.parked = park
	default:
		if in.pool != p.crew {
			t.Fatalf("%s is served by a worker of %s", in.Name(), p.crew.name)
		}
		w.given(t, p, w.rooms[in.Place], n)
	}
	synctest.Wait()
}

func (w *town) ownTurn(t *rapid.T, p *pawn, park bool) int {
	n := p.room.Turn(&p.Member, &p.tally, park)
	switch {
	case n < 0:
		w.goHome(t, p)
	case n == 0:
		p.parked = park
	default:
		w.given(t, p, p.room, n)
	}
	synctest.Wait()
	return n
}

// goHome is the end of a worker of an inbox's own.
func (w *town) goHome(t *rapid.T, p *pawn) {
	p.room.Book(&p.Member, &p.tally)
	p.room.Yield(&p.Member)
	p.room.Leave(&p.Member)
	p.joined = false
	w.discard(t, p)
	if p.Instance != nil {
		w.scrap(t, p.Instance)
		p.Instance = nil
	}
	p.room.ReturnInstance(&p.Member)
}

// given checks a batch, and makes an instance if need be.
func (w *town) given(t *rapid.T, p *pawn, r *place1, n int) {
	p.room = r
	batch := p.Member.Batch[:n]
	for _, e := range batch {
		id := e.Cmd.(int)
		at := slices.Index(r.queue, id)
		if at < 0 {
			// A discipline does not tell what it has, so of retries we hear here.
			if at = slices.Index(r.delayed, id); at < 0 || r.Inbox.queue.line == nil {
				t.Fatalf("%s: given %d, which it has not: %v", r.Name(), id, r.queue)
			}
			r.delayed = slices.Delete(r.delayed, at, at+1)
		} else {
			if at > 0 && r.Inbox.queue.line == nil && !w.behindInHand(r.queue[:at], batch) {
				t.Fatalf("%s: given %d before %v", r.Name(), id, r.queue[:at])
			}
			r.queue = slices.Delete(r.queue, at, at+1)
		}
	}
	r.packs.given(t, batch, r.Inbox.queue.line == nil)
	p.hand = slices.Clone(batch)
	if p.Instance == nil {
		if !p.owns {
			t.Fatalf("%s: a batch and no instance", r.Name())
		}
		p.Instance = new(inst)
	}
}

// behindInHand reports whether all of ids are in the batch.
func (w *town) behindInHand(ids []int, batch []command.Envelope) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(batch, func(e command.Envelope) bool { return e.Cmd == id }) {
			return false
		}
	}
	return true
}

func (w *town) discard(t *rapid.T, p *pawn) {
	if p.Surplus != nil {
		w.scrap(t, p.Surplus)
		p.Surplus = nil
	}
}

func (w *town) scrap(t *rapid.T, in any) {
	if w.gone[in] {
		t.Fatalf("an instance is stopped twice")
	}
	w.gone[in] = true
}

// depart is the first half of [SharedPool.Turn], without an inbox to stay in.
func (w *town) depart(t *rapid.T) {
	p := w.one(t, func(p *pawn) bool { return p.free() && p.crew != nil && p.at == nil })
	p.parked = false
	p.woken.Store(false)
	if p.crew.arriveOrRetire(&p.Member) {
		p.crew.Leave(&p.Member, &p.tally)
		p.joined = false
		return
	}
	in, era := p.crew.next(&p.Member)
	if in == nil {
		p.parked = p.crew.parked(&p.Member)
		return
	}
	p.onWay, p.way, p.era = true, in, era
}

// arrive is the second half.
func (w *town) arrive(t *rapid.T) {
	p := w.one(t, func(p *pawn) bool { return p.onWay })
	w.arrives(t, p)
}

func (w *town) arrives(t *rapid.T, p *pawn) {
	for _, r := range w.rooms {
		w.hear(t, r)
	}
	p.onWay = false
	n := p.crew.enter(p.way, p.era, &p.Member)
	if n > 0 {
		w.came(t, p, p.way, n, false)
	}
	synctest.Wait()
}

// cycle is what a worker does most of the time: it finishes its batch, hands it over
// and takes the next.
func (w *town) cycle(t *rapid.T) {
	p := w.one(t, func(p *pawn) bool {
		return p.joined && !p.onWay && (!p.parked || p.woken.Load())
	})
	for len(p.hand) > 0 {
		w.finish(t, p)
	}
	if w.handOver(t, p, rapid.Bool().Draw(t, "park there")) {
		w.takeTurn(t, p, rapid.Bool().Draw(t, "park"))
	}
}

func (w *town) holder(t *rapid.T) *pawn {
	return w.one(t, func(p *pawn) bool { return len(p.hand) > 0 })
}

// done finishes some of what is in hand.
func (w *town) done(t *rapid.T) {
	p := w.holder(t)
	for range rapid.IntRange(1, len(p.hand)).Draw(t, "done") {
		w.finish(t, p)
	}
	if rapid.Bool().Draw(t, "book") {
		p.room.Book(&p.Member, &p.tally)
	}
}

// finish ends the command in hand, or sends it on.
func (w *town) finish(t *rapid.T, p *pawn) {
	e := p.hand[0]
	p.hand = p.hand[1:]
	p.tally.Timed++
	how := rapid.IntRange(-1, 5).Draw(t, "how")
	switch to := p.room.to; {
	case how > 0 && len(to) > 0:
		x := to[how%len(to)]
		p.tally.Forwarded++
		p.room.forwarded++
		p.outs[x] = append(p.outs[x], command.Envelope{Cmd: e.Cmd})
	case how < 0:
		p.tally.Errors++
		p.room.errors++
		w.ended(e)
	default:
		p.tally.OK++
		p.room.ok++
		w.ended(e)
	}
}

func (w *town) ended(e command.Envelope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[e.Cmd.(int)]++
}

func (w *town) deliver(t *rapid.T) {
	p := w.one(t, func(p *pawn) bool { return len(p.outs) > 0 && (!p.parked || p.woken.Load()) })
	w.handOver(t, p, rapid.Bool().Draw(t, "park"))
}

// handOver brings what was forwarded to where it is to be. It reports whether that was all.
func (w *town) handOver(t *rapid.T, p *pawn, park bool) bool {
	p.parked = false
	p.woken.Store(false)
	for _, x := range w.rooms {
		es := p.outs[x]
		if len(es) == 0 {
			continue
		}
		w.hear(t, x)
		n := x.HandOver(&p.Member, es, w.host.Now(), p.crew != nil, park)
		if p.crew != nil && n < len(es) {
			t.Fatalf("a shared worker is to wait at %s", x.Name())
		}
		x.accepted += n
		for _, e := range es[:n] {
			x.queue = append(x.queue, e.Cmd.(int))
		}
		synctest.Wait()
		w.hear(t, x)
		if n < len(es) {
			p.outs[x] = slices.Clone(es[n:])
			p.parked = park && p.joined
			return false
		}
		delete(p.outs, x)
	}
	return true
}

func (w *town) again(t *rapid.T) {
	p := w.holder(t)
	e := p.hand[0]
	e.Failed()
	w.hear(t, p.room)
	ok := p.room.RetryLater(&p.Member, &p.tally, e)
	if ok != (e.Tries() < 3) {
		t.Fatalf("again is %v after %d tries", ok, e.Tries())
	}
	p.hand = p.hand[1:]
	if ok {
		w.postponed(p.room, e.Cmd.(int))
	} else {
		p.tally.Errors++
		p.room.errors++
		w.ended(e)
	}
	synctest.Wait()
}

// postponed notes that a command is to be tried again. It is in the queue already if there is no pause and nobody waits for a slot.
func (w *town) postponed(r *place1, id int) { r.delayed = append(r.delayed, id) }

func (w *town) crash(t *rapid.T) {
	p := w.holder(t)
	var culprit *command.Envelope
	rest := p.hand
	if len(rest) == 1 || rapid.Bool().Draw(t, "one") {
		culprit, rest = &p.hand[0], p.hand[1:]
		culprit.Failed()
	} else {
		Narrow(rest)
	}
	retry := culprit != nil && culprit.Tries() < 3 && rapid.Bool().Draw(t, "retry")
	w.crashed(t, p, rest, culprit, retry, func() {
		p.room.Crash(&p.Member, &p.tally, culprit, rest, retry, ErrStopped)
	})
}

// nostart is a batch for which no instance could be made.
func (w *town) nostart(t *rapid.T) {
	p := w.holder(t)
	w.scrap(t, p.Instance)
	p.Instance = nil
	w.crashed(t, p, p.hand, nil, false, func() {
		p.room.NoInstance(&p.Member, &p.tally, p.hand, ErrStopped)
	})
}

func (w *town) crashed(t *rapid.T, p *pawn, rest []command.Envelope, culprit *command.Envelope, retry bool, tell func()) {
	r := p.room
	w.hear(t, r)
	in := p.Instance
	tell()
	if in != nil {
		w.scrap(t, in)
	}
	front := make([]int, 0, len(rest))
	for _, e := range rest {
		id := e.Cmd.(int)
		front = append(front, id)
		r.packs.add(e)
	}
	r.queue = append(front, r.queue...)
	if retry {
		r.packs.again(*culprit)
		w.postponed(r, culprit.Cmd.(int))
	}
	p.hand = nil
	synctest.Wait()
	all := w.handOver(t, p, false)
	if p.crew != nil {
		p.crew.Leave(&p.Member, &p.tally)
		r.Quit(&p.Member)
	} else {
		if all {
			r.Yield(&p.Member)
		}
		r.ReturnInstance(&p.Member)
	}
	p.joined, p.parked = false, false
	if !all || rapid.Bool().Draw(t, "afresh") {
		w.seat(p)
	}
	synctest.Wait()
}

func (w *town) join(t *rapid.T) {
	w.seat(w.one(t, func(p *pawn) bool { return !p.joined }))
}

func (w *town) seat(p *pawn) {
	p.woken.Store(false)
	p.joined, p.parked = true, false
	if p.crew != nil {
		p.crew.Join(&p.Member)
		return
	}
	if p.room.Claim(&p.Member) {
		p.Instance = new(inst)
	}
	p.room.Join(&p.Member, false)
}

func (w *town) leave(t *rapid.T) {
	p := w.one(t, func(p *pawn) bool {
		return p.joined && !p.onWay && len(p.hand) == 0 && len(p.outs) == 0
	})
	if p.crew == nil {
		w.goHome(t, p)
	} else {
		p.crew.Leave(&p.Member, &p.tally)
		w.discard(t, p)
	}
	p.joined, p.parked = false, false
	synctest.Wait()
}

func (w *town) shrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	if rapid.Bool().Draw(t, "own") {
		w.anyRoom(t).Shrink(n)
	} else {
		w.anyCrew(t).Shrink(n)
	}
}

func (w *town) keep(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	if rapid.Bool().Draw(t, "own") {
		w.anyRoom(t).Unshrink(n)
	} else {
		w.anyCrew(t).Unshrink(n)
	}
}

func (w *town) bind(t *rapid.T) {
	r := w.anyRoom(t)
	if k := rapid.IntRange(0, 2).Draw(t, "to"); k < 2 {
		r.Bind(w.crews[k])
	} else {
		r.Bind(nil)
	}
}

func (w *town) choose(t *rapid.T) {
	w.anyCrew(t).SetDispatch(rapid.SampledFrom(dispatchModes).Draw(t, "mode"))
}

func (w *town) follow(t *rapid.T) {
	w.anyCrew(t).SetPlan(drawPlan(t, len(w.rooms)))
}

func drawPlan(t *rapid.T, rooms int) *controller.VisitPlan {
	p := &controller.VisitPlan{
		Gating:  controller.Gating(rapid.IntRange(0, 3).Draw(t, "gating")),
		Bound:   rapid.IntRange(0, 3).Draw(t, "bound"),
		Quantum: rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Minute}).Draw(t, "quantum"),
		Restart: rapid.Bool().Draw(t, "restart"), RestartAt: rapid.IntRange(0, 4).Draw(t, "restart at"),
		Advance: rapid.Bool().Draw(t, "advance"), Now: rapid.Bool().Draw(t, "now"),
	}
	for _, s := range rapid.SliceOfN(rapid.IntRange(0, rooms), 0, 6).Draw(t, "order") {
		p.Order = append(p.Order, controller.StageID(s))
	}
	if rapid.Bool().Draw(t, "bounds") {
		p.Bounds = map[controller.StageID]int{1: 2}
	}
	return p
}

func (w *town) pause(t *rapid.T) {
	paused := rapid.Bool().Draw(t, "paused")
	w.scrapAll(t, w.anyRoom(t).Adjust(func(k *Knobs) { k.Paused = paused }))
}

func (w *town) scrapAll(t *rapid.T, ins []any) {
	for _, in := range ins {
		w.scrap(t, in)
	}
}

func (w *town) adjust(t *rapid.T) {
	r := w.anyRoom(t)
	knob, n := rapid.IntRange(0, 4).Draw(t, "knob"), rapid.IntRange(1, 8).Draw(t, "n")
	w.scrapAll(t, r.Adjust(func(k *Knobs) {
		switch knob {
		case 0:
			k.Instances = 1 + n%3
		case 1:
			k.Capacity = n
		case 2:
			k.Priority = n % 3
		case 3:
			k.Batch = n
		default:
			k.Linger = time.Duration(n%3) * time.Second
		}
	}))
	synctest.Wait()
}

func (w *town) order(t *rapid.T) {
	r := w.anyRoom(t)
	w.hear(t, r)
	odd := queue.PriorityOf(func(id int) int { return id % 2 })
	d := rapid.SampledFrom([]queue.Discipline{nil, nil, queue.FIFO{}, queue.LIFO{}, queue.AdaptiveLIFO{Above: 2}, odd}).Draw(t, "discipline")
	r.Order(d)
	if r.Inbox.queue.line == nil {
		have := r.ids()
		for _, id := range have {
			if i := slices.Index(r.delayed, id); i >= 0 {
				r.delayed = slices.Delete(r.delayed, i, i+1)
				r.queue = append(r.queue, id)
			}
		}
		if !sameIDs(have, r.queue) {
			t.Fatalf("%s: the new order has %v, want %v", r.Name(), have, r.queue)
		}
		r.queue = have
	}
}

func sameIDs(a, b []int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (w *town) rest(t *rapid.T) {
	w.anyRoom(t).Rest(time.Duration(rapid.IntRange(1, 5).Draw(t, "pause")) * time.Second)
}

func (w *town) tick(t *rapid.T) {
	w.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(t, "tick"))
}

func (w *town) pass(d time.Duration) {
	for _, r := range w.rooms {
		r.mu.Lock()   // what we have read so far comes before what the clock will write
		r.mu.Unlock() //nolint:staticcheck // on purpose
	}
	time.Sleep(d)
	synctest.Wait()
}

func (w *town) close(t *rapid.T) {
	w.anyRoom(t).Close()
	synctest.Wait()
}

// stock is what makes an instance before a worker of a shared pool comes.
func (w *town) stock(t *rapid.T) {
	r := w.anyRoom(t)
	var s Member
	if r.Claim(&s) && rapid.Bool().Draw(t, "starts") {
		s.Instance = new(inst)
	}
	if rapid.Bool().Draw(t, "surplus") {
		w.scrapAll(t, r.Adjust(func(k *Knobs) { k.Instances = 1 }))
	}
	r.ReturnInstance(&s)
	if s.Surplus != nil {
		w.scrap(t, s.Surplus)
	}
}

func (w *town) unshelve(t *rapid.T) { w.scrapAll(t, w.anyRoom(t).TakeIdleInstances()) }

func (r *place1) ids() []int {
	ids := make([]int, r.Inbox.queue.Len())
	for i := range ids {
		ids[i] = r.Inbox.queue.at(i).Cmd.(int)
	}
	return ids
}

// hear asks an inbox's submitters how it went, and what has become of the queue.
func (w *town) hear(t *rapid.T, r *place1) {
	var granted []int
	r.waiters = slices.DeleteFunc(r.waiters, func(x *modelWaiter) bool {
		select {
		case err := <-x.result:
			if err == nil {
				r.accepted++
				granted = append(granted, x.id)
				return true
			}
			r.rejected++
			w.ends[x.id]++ // it never was
			if r.IsOpen() && !x.given && r.cfg.Overflow != Reject {
				t.Fatalf("%s: refused for no reason: %v", r.Name(), err)
			}
			return true
		default:
			if x.given || !r.IsOpen() || r.cfg.Overflow != Wait {
				t.Fatalf("%s: a submitter waits, and should not", r.Name())
			}
			return false
		}
	})
	dropped := func(id int) bool { return w.ends[id] >= 100 }
	r.queue, r.delayed = slices.DeleteFunc(r.queue, dropped), slices.DeleteFunc(r.delayed, dropped)
	granted = slices.DeleteFunc(granted, dropped)
	if r.Inbox.queue.line != nil {
		r.queue = append(r.queue, granted...)
		if have := r.Inbox.queue.Len() + r.Inbox.postponed(); have != len(r.queue)+len(r.delayed) {
			t.Fatalf("%s: %d queued or delayed, want %v and %v", r.Name(), have, r.queue, r.delayed)
		}
		return
	}
	have := r.ids()
	if len(have) < len(r.queue) || !slices.Equal(have[:len(r.queue)], r.queue) {
		t.Fatalf("%s: the queue is %v, want %v and perhaps more", r.Name(), have, r.queue)
	}
	for _, id := range have[len(r.queue):] {
		if i := slices.Index(granted, id); i >= 0 {
			granted = slices.Delete(granted, i, i+1)
		} else if i := slices.Index(r.delayed, id); i >= 0 {
			r.delayed = slices.Delete(r.delayed, i, i+1)
		} else {
			t.Fatalf("%s: %d came from nowhere: %v, want %v", r.Name(), id, have, r.queue)
		}
	}
	if len(granted) > 0 {
		t.Fatalf("%s: %v were accepted and are nowhere", r.Name(), granted)
	}
	r.queue = have
}

// check holds after every step.
func (w *town) check(t *rapid.T) {
	for _, r := range w.rooms {
		w.hear(t, r)
		w.law(t, r)
		w.instances(t, r)
		w.tokens(t, r)
		w.stalls(t, r)
		w.awake(t, r.Name(), &r.workerSet, func(p *pawn) bool { return p.crew == nil && p.room == r })
	}
	for _, sp := range w.crews {
		w.crewTokens(t, sp)
		w.awake(t, sp.name, &sp.workerSet, func(p *pawn) bool { return p.crew == sp })
	}
}

func (w *town) law(t *rapid.T, r *place1) {
	s := Snapshot([]*Inbox{r.Inbox})[0]
	in := s.Submitted + s.Received
	out := s.OK + s.Forwarded + s.Errors + Sum(s.Shed) + Sum(s.Dead)
	if in != out+uint64(s.Queued+s.InHand+s.Delayed) {
		t.Fatalf("%s: the law is broken: %+v", r.Name(), s)
	}
	booked, inHand, busy := Tally{}, 0, 0
	for _, p := range w.pawns {
		if p.room == r {
			booked.OK += p.tally.OK
			booked.Forwarded += p.tally.Forwarded
			booked.Errors += p.tally.Errors
			inHand += len(p.hand) + p.tally.completed()
			if p.Member.inHand > 0 {
				busy++
			}
		}
	}
	if int(in) != r.accepted || int(Sum(s.Rejected)) != r.rejected || int(s.OK) != r.ok-booked.OK ||
		int(s.Forwarded) != r.forwarded-booked.Forwarded || int(s.Errors) != r.errors-booked.Errors ||
		s.InHand != inHand || s.Busy != busy || int(Sum(s.Shed)+Sum(s.Dead)) != w.byOne[r.Place] {
		t.Fatalf("%s: accounts %+v, and the model says accepted %d, rejected %d, ok %d, forwarded %d, errors %d, hand %d, busy %d",
			r.Name(), s, r.accepted, r.rejected, r.ok, r.forwarded, r.errors, inHand, busy)
	}
}

// instances: each is in one place, and there are no more of them than may be.
func (w *town) instances(t *rapid.T, r *place1) {
	out, owned := 0, 0
	seen := map[any]bool{}
	have := func(in any) {
		if in == nil {
			return
		}
		if seen[in] || w.gone[in] {
			t.Fatalf("%s: an instance is used twice, or after its end", r.Name())
		}
		seen[in] = true
	}
	for _, in := range r.idleInstances {
		have(in)
	}
	for _, p := range w.pawns {
		if p.room != r {
			continue
		}
		if p.inUse {
			out++
		}
		if p.owns {
			owned++
			have(p.Instance)
		} else if p.Instance != nil {
			t.Fatalf("%s: a worker has an instance that is not its own", r.Name())
		}
		if len(p.hand) > 0 && (!p.inUse || !p.owns) {
			t.Fatalf("%s: a worker has a batch, holds %v, owns %v", r.Name(), p.inUse, p.owns)
		}
	}
	if r.busyInstances != out || r.made != owned+len(r.idleInstances) {
		t.Fatalf("%s: out %d, made %d; want %d, %d on the shelf and %d owned", r.Name(), r.busyInstances, r.made, out, len(r.idleInstances), owned)
	}
	if r.busyInstances > r.knobs.Instances && r.busyInstances > r.wasOut || r.made > r.knobs.Instances && r.made > r.wasMade {
		t.Fatalf("%s: out %d, made %d of %d", r.Name(), r.busyInstances, r.made, r.knobs.Instances)
	}
	if len(r.idleInstances) > 0 && r.made > r.knobs.Instances {
		t.Fatalf("%s: one of %d instances is on the shelf, there are to be %d", r.Name(), r.made, r.knobs.Instances)
	}
	r.wasOut, r.wasMade = r.busyInstances, r.made
}

// lingers is [Inbox.lingering] without setting the clock.
func (r *place1) lingers1() bool {
	k := r.knobs
	if k.Linger <= 0 || r.Inbox.queue.Len() >= k.Batch || r.Inbox.queue.Len() >= k.Capacity || r.Inbox.queue.Len() == 0 {
		return false
	}
	first := r.Inbox.queue.oldest()
	waited, known := first.Waited(r.Pipeline().Now())
	if first.Tries() > 0 {
		waited -= 8 * time.Microsecond // it tells the time to 4, and the clock may be set later by as many
	}
	return known && waited < k.Linger
}

func (r *place1) hasWork() bool {
	return r.Inbox.queue.Len() > 0 && !r.knobs.Paused && !r.halted.Load() && r.busyInstances < r.knobs.Instances && !r.lingers1()
}

// tokens: an inbox with work that can be done has told its shared pool so.
func (w *town) tokens(t *rapid.T, r *place1) {
	has := r.tokens.Load()
	if r.pool == nil {
		if has != 0 || r.noted {
			t.Fatalf("%s: tokens without a crew", r.Name())
		}
		return
	}
	if r.noted != (r.pool.polled() && has == 1) || has < 0 || r.pool.polled() && has > 1 {
		t.Fatalf("%s: %d tokens, noted %v, %v", r.Name(), has, r.noted, r.pool.Dispatch())
	}
	if !r.hasWork() || r.stalled || r.resting || !r.equippable() {
		return
	}
	want := int32(1)
	if !r.pool.polled() {
		want = int32(min(r.Inbox.queue.Len(), r.knobs.Instances-r.busyInstances))
	}
	if has < want {
		t.Fatalf("%s: %d queued, %d of %d instances out, and %d tokens", r.Name(), r.Inbox.queue.Len(), r.busyInstances, r.knobs.Instances, has)
	}
}

// crewTokens: what the inboxes have given is what the shared pool has, and workers on their way.
func (w *town) crewTokens(t *rapid.T, sp *SharedPool) {
	noted := 0
	has := map[*Inbox]int{}
	for _, tk := range sp.ready {
		if tk.era != tk.inbox.era || tk.inbox.pool != sp {
			t.Fatalf("%s has an old token of %s", sp.name, tk.inbox.Name())
		}
		has[tk.inbox]++
	}
	for _, p := range w.pawns {
		if p.crew == sp && p.onWay && p.way.pool == sp && p.era == p.way.era {
			has[p.way]++
		}
	}
	for _, r := range w.rooms {
		if r.pool != sp {
			continue
		}
		if r.noted {
			noted++
		}
		want := int(r.tokens.Load())
		if sp.polled() {
			want = 0
		}
		if has[r.Inbox] != want {
			t.Fatalf("%s has %d tokens of %s, which has given %d", sp.name, has[r.Inbox], r.Name(), want)
		}
	}
	if int(sp.noted.Load()) != noted {
		t.Fatalf("%s: %d rooms noted, want %d", sp.name, sp.noted.Load(), noted)
	}
	if len(sp.idle) == 0 || !sp.pending() {
		return
	}
	awake := 0
	for _, p := range w.pawns {
		if p.crew == sp && p.joined && !p.retired && (!p.parked || p.woken.Load()) {
			awake++
		}
	}
	if awake < min(len(sp.ready)+noted, awake+1) {
		t.Fatalf("%s has %d idle workers, %d tokens, %d rooms with work, and %d workers awake", sp.name, len(sp.idle), len(sp.ready), noted, awake)
	}
}

// stalls: who waits is known to an inbox that has reason to be waited for.
func (w *town) stalls(t *rapid.T, r *place1) {
	known := false
	for _, x := range w.rooms {
		known = known || slices.Contains(x.behind, r.Inbox)
	}
	if r.stalled && !known {
		t.Fatalf("%s is stalled, and nobody will tell it", r.Name())
	}
	slots := max(r.knobs.Capacity-r.Inbox.delayed.Len(), 0) // a retry keeps its slot, and is in nobody's way out
	if len(r.behind) > 0 && r.Inbox.queue.Len() <= slots/2 && !r.isFull() {
		t.Fatalf("%s has %d of %d queued, and %d rooms behind wait", r.Name(), r.Inbox.queue.Len(), r.knobs.Capacity, len(r.behind))
	}
	if len(r.blocked) > 0 && r.free() >= (r.knobs.Capacity+1)/2 {
		t.Fatalf("%s has %d free, and %d workers wait", r.Name(), r.free(), len(r.blocked))
	}
	if len(r.waiters) > 0 && r.free() > 0 && len(r.blocked) == 0 && len(r.behind) == 0 {
		t.Fatalf("%s has %d free, and %d submitters wait", r.Name(), r.free(), len(r.waiters))
	}
}

// awake compares who is parked and who is on the way, and has nobody sleep at work.
func (w *town) awake(t *rapid.T, name string, ws *workerSet, of func(*pawn) bool) {
	live, waking := 0, 0
	for i, p := range w.pawns {
		if !of(p) {
			continue
		}
		inLine := len(p.outs) > 0
		idle := slices.Contains(ws.idle, &p.Member)
		if idle != (p.joined && p.parked && !p.woken.Load() && !inLine) {
			t.Fatalf("%s: pawn %d: idle %v, parked %v, woken %v", name, i, idle, p.parked, p.woken.Load())
		}
		if p.joined {
			live++
		}
		if p.Member.waking {
			waking++
			if !p.joined || !p.woken.Load() || !p.Ready() {
				t.Fatalf("%s: pawn %d is on the way, and knows nothing of it", name, i)
			}
		}
	}
	if ws.live != live || ws.waking != waking {
		t.Fatalf("%s: live %d, waking %d; want %d, %d", name, ws.live, ws.waking, live, waking)
	}
}

// settle lets everybody do what they can, until nobody can do anything. Then
// nothing may be left.
func (w *town) settle(t *rapid.T) {
	for _, r := range w.rooms {
		w.scrapAll(t, r.Adjust(func(k *Knobs) {
			k.Paused = false
			k.Instances = max(k.Instances, 1)
		}))
		if r.pool != nil { // its own workers have its instances
			r.Shrink(w.owns(r))
		}
	}
	w.check(t)
	for range 20_000 {
		if !w.move(t) {
			w.over(t)
			return
		}
		w.check(t)
	}
	t.Fatalf("it never comes to rest")
}

// owns is how many workers an inbox has of its own.
func (w *town) owns(r *place1) (n int) {
	for _, p := range w.pawns {
		if p.crew == nil && p.room == r && p.joined {
			n++
		}
	}
	return n
}

// move makes one move that is due, if there is one. Time goes on when there is none.
func (w *town) move(t *rapid.T) bool {
	for _, p := range w.pawns {
		switch {
		case p.joined || p.crew == nil && (p.room.pool != nil || w.owns(p.room) > 0):
		case p.crew != nil && p.crew.workers() > 0:
		default:
			w.seat(p)
			return true
		}
	}
	turns := 0
	for _, p := range w.pawns {
		if p.onWay {
			w.arrives(t, p)
			turns++
			continue
		}
		if !p.joined || p.parked && !p.woken.Load() {
			continue
		}
		turns++
		for len(p.hand) > 0 {
			w.finish(t, p)
		}
		if w.handOver(t, p, true) {
			w.takeTurn(t, p, true)
		}
	}
	if turns > 0 {
		return true
	}
	for _, r := range w.rooms {
		if r.Inbox.delayed.Len() > 0 || r.resting || r.lingers1() {
			w.pass(time.Second)
			return true
		}
	}
	return false
}

// over: everybody rests, so there is nothing left to do.
func (w *town) over(t *rapid.T) {
	for _, r := range w.rooms {
		if r.load() > 0 || len(r.waiters) > 0 || len(r.blocked) > 0 || r.reserved > 0 {
			t.Fatalf("%s: stranded: %d queued, %d in hand, %d delayed, %d submitters wait, %d workers are blocked, %d seats promised; stalled %v",
				r.Name(), r.Inbox.queue.Len(), r.counts.inHand, r.Inbox.delayed.Len(), len(r.waiters), len(r.blocked), r.reserved, r.stalled)
		}
	}
	for id := range w.next {
		if w.ends[id] != 1 && w.ends[id] != 100 {
			t.Fatalf("%d ended %d times", id, w.ends[id]/100+w.ends[id]%100)
		}
	}
}
