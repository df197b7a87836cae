package event

import (
	"container/heap"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage"
)

// keeper has all windows of a stage, and is the behaviour of the stage from
// which their results leave.
//
// In it one command waits for each pane: see the type. When the pane is passed
// on, the command resumes and sends the result, and the tickets of the pane's
// other commands wait for that, too.
type keeper[K comparable, A any] struct {
	form     form[A]
	disorder int64
	lateness int64
	sourced  bool
	byKey    bool
	discard  bool
	idle     time.Duration
	most     int // windows

	send func(ctx context.Context, w Window[K, A]) behaviour.Outcome

	mu      sync.Mutex // guards all below, and all windows and panes
	keys    map[K]*entry[K, A]
	queue   queue[K, A]
	leaving map[K]*pane[K, A] // by key, the pane that fired last, until its result is passed on
	seq     uint64
	waiting int // panes whose commands wait

	clock   clock // of all commands, or of all sources
	sources map[string]*clock
	slowest *clock // the source with the least latest time

	turn   uint64 // of the handler that adds
	adding bool
	timer  *time.Timer // of the next tick; nil if there is none
	ticks  time.Time   // when that is, if there is one
}

const never = math.MinInt64

func newKeeper[K comparable, C, A any](f form[A], _ Fold[K, C, A], m Watermark[C]) *keeper[K, A] {
	k := &keeper[K, A]{
		form: f, disorder: int64(m.Disorder), lateness: int64(m.Lateness), sourced: m.Source != nil, byKey: m.ByKey,
		discard: m.Discard, idle: m.Idle, most: m.Held,
		keys: map[K]*entry[K, A]{}, leaving: map[K]*pane[K, A]{}, sources: map[string]*clock{}, clock: clock{latest: never, mark: never},
	}
	if k.most == 0 {
		k.most = defaultHeld
	}
	if k.idle == 0 && (k.sourced || k.byKey) {
		k.idle = defaultIdle
	}
	return k
}

// spare is how many commands may be in progress beside the held ones: of panes
// that have fired.
const spare = 256

// Fixed returns the options of the stage: one worker, so that results leave in
// order, and as many instances as there may be windows.
func (k *keeper[K, A]) Fixed(part.Seal) (why string, opts []stage.Option) {
	most := min(max(k.most, 0), mostHeld) + spare
	return fixedBy, []stage.Option{stage.Workers(1, 1), stage.Blocking(), stage.Instances(most), stage.Retry(stage.RetryPolicy{})}
}

// MustLead has pipeline.New refuse a stage whose results lead nowhere.
func (k *keeper[K, A]) MustLead(part.Seal) string { return "event window" }

// begin finds the windows for a command, and says that a handler adds to them.
// Windows that are not there yet are not in the stage.
func (k *keeper[K, A]) begin(key K, at int64, shares []share[K, A]) ([]share[K, A], uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn++
	k.adding = true
	e := k.keys[key]
	mark := k.clock.mark
	if k.byKey {
		if mark = never; e != nil {
			mark = e.mark
		}
	}
	if k.form.session {
		return k.beginSession(e, key, at, mark, shares), k.turn
	}
	for start := floor(at, k.form.every); start > at-k.form.length; start -= k.form.every {
		var w *window[K, A]
		if e != nil {
			w = e.at(start)
		}
		if w == nil {
			if end := start + k.form.length; mark == never || end > mark-k.lateness {
				w = k.newWindow(e, key, start, end)
				e = w.of
			}
		}
		if w != nil {
			shares = append(shares, share[K, A]{w: w})
		}
	}
	return shares, k.turn
}

// beginSession finds the session that a command belongs to. It may connect two.
func (k *keeper[K, A]) beginSession(e *entry[K, A], key K, at, mark int64, shares []share[K, A]) []share[K, A] {
	var one share[K, A]
	if e != nil {
		for _, w := range e.windows {
			switch {
			case w.end <= at || w.start >= at+k.form.length:
			case one.w == nil:
				one.w = w
			default:
				one.other = w
			}
		}
	}
	if one.w == nil {
		end := at + k.form.length
		if mark != never && end <= mark-k.lateness {
			return shares
		}
		one.w = k.newWindow(e, key, at, end)
	}
	return append(shares, one)
}

// floor returns the last multiple of every that is not after at.
func floor(at, every int64) int64 {
	past := at % every
	if past < 0 {
		past += every
	}
	return at - past
}

func (k *keeper[K, A]) newWindow(e *entry[K, A], key K, start, end int64) *window[K, A] {
	if e == nil {
		e = &entry[K, A]{key: key, clock: clock{latest: never, mark: never}}
	}
	return &window[K, A]{of: e, start: start, end: end, index: -1}
}

// end says that the handler with a turn does not add any more.
func (k *keeper[K, A]) end(turn uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endLocked(turn)
}

func (k *keeper[K, A]) endLocked(turn uint64) {
	if k.turn == turn {
		k.adding = false
	}
}

// mayPut returns why a handler that has called the user's functions may not add
// the command, nil if it may. A worker may have been given up meanwhile, or a
// hard stop may have closed the windows.
func (k *keeper[K, A]) mayPut(ctx context.Context, turn uint64, shares []share[K, A]) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case k.turn != turn:
		return errGivenUp
	}
	for i := range shares {
		if w := shares[i].w; w.closed || shares[i].other != nil && shares[i].other.closed {
			return stage.ErrStopped
		}
	}
	return nil
}

// putLocked adds a command to a window. It returns a pane that begins with it;
// nil if there is one already.
func (k *keeper[K, A]) putLocked(at int64, one *share[K, A], from *command.Origin) (opened *pane[K, A]) {
	w := one.w
	if w.index < 0 {
		k.openLocked(w)
	}
	if one.other != nil {
		k.joinLocked(w, one.other, from)
	}
	w.value = one.value
	w.count++
	if k.form.session {
		k.extendLocked(w, at, at+k.form.length)
	}
	if w.pane == nil {
		w.pane = &pane[K, A]{keeper: k, of: w, first: from.Ticket()}
		return w.pane
	}
	w.pane.group.Add(from, w.pane.first)
	return nil
}

// openLocked has a window be in the stage.
func (k *keeper[K, A]) openLocked(w *window[K, A]) {
	e := w.of
	k.keys[e.key] = e
	e.insert(w)
	k.seq++
	w.seq, w.due, w.opened = k.seq, w.end, time.Now()
	heap.Push(&k.queue, w)
	k.armLocked()
}

// extendLocked has a session include a time.
func (k *keeper[K, A]) extendLocked(w *window[K, A], start, end int64) {
	w.start, w.end = min(w.start, start), max(w.end, end)
	if mark := k.markOf(w); w.over && w.end > mark { // it was passed on, and is open again
		w.over = false
	}
	if due := k.dueOf(w); due < w.due { // a later one is found when this is due
		k.queue.move(w, due)
	}
}

// joinLocked has a session become part of an earlier one.
func (k *keeper[K, A]) joinLocked(w, other *window[K, A], from *command.Origin) {
	p, q := w.pane, other.pane
	other.pane = nil
	k.forgetLocked(other)
	w.count += other.count
	w.passed = max(w.passed, other.passed)
	k.extendLocked(w, other.start, other.end)
	switch {
	case q == nil:
	case p == nil:
		q.of, w.pane = w, q
	default:
		if q.from != nil { // else it is of a checkpoint, and its command has not come yet
			from = q.from
		}
		p.group.Add(from, p.first)
		p.group.Take(&q.group)
		k.leaveLocked(q, joined)
	}
}

// leaveLocked has the command of a pane go on.
func (k *keeper[K, A]) leaveLocked(p *pane[K, A], as state) {
	if p.state == waits && p.arrived {
		k.waiting--
	}
	p.state = as
	if p.wake != nil {
		p.wake()
		p.wake = nil
	}
}

// fireLocked passes a window on, if it has commands that no result has.
func (k *keeper[K, A]) fireLocked(w *window[K, A], early bool) bool {
	p := w.pane
	if p == nil {
		return false
	}
	p.result = w.result(early)
	w.pane = nil
	w.passed++
	if k.discard {
		var none A
		w.value, w.count = none, 0
	}
	if before := k.leaving[w.of.key]; before != nil {
		p.before = before
	}
	k.leaving[w.of.key] = p
	k.leaveLocked(p, fired)
	return true
}

// forgetLocked removes a window from the stage.
func (k *keeper[K, A]) forgetLocked(w *window[K, A]) {
	if w.closed || w.index < 0 {
		w.closed = true
		return
	}
	w.closed = true
	heap.Remove(&k.queue, w.index)
	e := w.of
	i := slices.Index(e.windows, w)
	e.windows = slices.Delete(e.windows, i, i+1)
	if len(e.windows) == 0 && !k.byKey {
		delete(k.keys, e.key)
	}
}

// dueOf returns when something happens to a window: at its end, or when it is
// forgotten.
func (k *keeper[K, A]) dueOf(w *window[K, A]) int64 {
	if w.over {
		return w.end + k.lateness
	}
	return w.end
}

// markOf returns the watermark for a window.
func (k *keeper[K, A]) markOf(w *window[K, A]) int64 {
	if k.byKey {
		return w.of.mark
	}
	return k.clock.mark
}

// firstLocked returns the window that is due first; nil if there is none.
func (k *keeper[K, A]) firstLocked() *window[K, A] {
	for len(k.queue) > 0 {
		w := k.queue[0]
		due := k.dueOf(w)
		if due == w.due {
			return w
		}
		k.queue.move(w, due)
	}
	return nil
}

// reachLocked has the watermark of a window reach it.
func (k *keeper[K, A]) reachLocked(w *window[K, A], mark int64) {
	if w.end > mark {
		return
	}
	k.fireLocked(w, false)
	if w.end+k.lateness <= mark {
		k.forgetLocked(w)
		return
	}
	w.over = true
	k.queue.move(w, k.dueOf(w))
}

// passLocked notes the time of a command of a key, nil if the key is not known
// because the command is late. It passes on the windows that the watermark
// reaches, and the oldest if there are too many.
func (k *keeper[K, A]) passLocked(e *entry[K, A], at int64, source string) {
	if k.byKey {
		if e == nil { // it was late
			return
		}
		e.note(at)
		e.mark = max(e.mark, e.latest-k.disorder)
		for i := 0; i < len(e.windows) && e.windows[i].end <= e.mark; {
			w := e.windows[i]
			if k.reachLocked(w, e.mark); !w.closed {
				i++
			}
		}
	} else {
		k.noteLocked(at, source)
		for w := k.firstLocked(); w != nil && w.due <= k.clock.mark; w = k.firstLocked() {
			k.reachLocked(w, k.clock.mark)
		}
		if e != nil && k.lateness > 0 { // a command that came late
			for _, w := range e.windows {
				if w.over {
					k.fireLocked(w, false)
				}
			}
		}
	}
	for len(k.queue) > k.most {
		w := k.firstLocked()
		k.fireLocked(w, !w.over)
		k.forgetLocked(w)
	}
}

// note notes the time of a command.
func (c *clock) note(at int64) {
	c.latest, c.active = max(c.latest, at), true
}

// noteLocked notes the time of a command of a source.
func (k *keeper[K, A]) noteLocked(at int64, source string) {
	c := &k.clock
	if !k.sourced {
		c.note(at)
		c.mark = max(c.mark, c.latest-k.disorder)
		return
	}
	of := k.sources[source]
	isNew := of == nil
	if isNew {
		of = &clock{latest: never}
		k.sources[source] = of
		k.armLocked()
	}
	was := of.latest
	of.note(at)
	if isNew || of == k.slowest && at > was {
		k.compareLocked()
	}
}

// compareLocked finds the source that is behind the others, and the watermark.
func (k *keeper[K, A]) compareLocked() {
	k.slowest = nil
	for _, c := range k.sources {
		if k.slowest == nil || c.latest < k.slowest.latest {
			k.slowest = c
		}
	}
	if k.slowest != nil {
		k.clock.mark = max(k.clock.mark, k.slowest.latest-k.disorder)
	}
}

// releaseLocked passes on all windows, in the order of their ends, and forgets
// them. The watermark reaches the last.
func (k *keeper[K, A]) releaseLocked() {
	mark := k.clock.mark
	for w := k.firstLocked(); w != nil; w = k.firstLocked() {
		if k.byKey {
			mark = w.of.mark
		}
		k.closeLocked(w, mark)
	}
}

// closeLocked passes on a window and forgets it. The watermark, which was mark,
// reaches its end.
func (k *keeper[K, A]) closeLocked(w *window[K, A], mark int64) {
	k.fireLocked(w, w.end > mark)
	k.forgetLocked(w)
	c := &k.clock
	if k.byKey {
		c = &w.of.clock
	}
	c.mark = max(c.mark, w.end)
}
