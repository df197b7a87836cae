package transaction

import (
	"cmp"
	"maps"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// Process is the side of a transaction that has the request. It is not safe for
// concurrent use.
type Process struct {
	self        string
	incarnation uint64
	queue       *requests.Queue

	synchronizers map[string]*link
	asked         map[string][]string // by method: the synchronizers to ask, sorted
	// hears lists by method the synchronizers that are notified of completed
	// requests, sorted.
	hears    map[string][]string
	refused  map[*requests.Request]string
	byNumber map[uint64]*requests.Request // the refused requests

	commits  uint64
	attempts uint64
	tx       *attempt // nil if none is under way

	offeredTo map[string][]string // by method: the synchronizers that have atomic rules, sorted
	offered   map[uint64]*offer
	granted   *grant // nil if no rule has the lock
	// left has by synchronizer the locks of synchronizers that have died or
	// begun anew.
	left   map[string]*grant
	due    []*requests.Request // to run as soon as their guards hold, since rules said so
	booked []*booking
	clock  uint64 // a logical clock (Lamport 1978), by which atomic rules know which of them is older

	out  []Message
	text text
}

// link is a process's view of a synchronizer.
type link struct {
	epoch     uint64
	down      bool
	methods   map[string]Part
	done      []ID   // the last locks of atomic rules that led to a Do
	committed uint64 // the number of the last attempt that it had a part in and that was committed
}

// attempt is a transaction under way: one request, one try.
type attempt struct {
	request *requests.Request
	id      ID
	number  uint64
	ask     []string // the synchronizers, in the order in which they are asked
	oks     int      // how many have agreed
	// aborted is set while the attempt waits for the hint of the synchronizer
	// that was asked last.
	aborted bool
}

// NewProcess returns the machine of a process that nothing coordinates yet.
// Each incarnation of a process has a number higher than those before. The
// owner keeps the last [Install] of each synchronizer, and has a new
// incarnation receive them before its first request: so a process that is
// restarted runs nothing that it would not have run before.
//
// The queue may have requests already, which wait or run.
func NewProcess(self string, incarnation uint64, q *requests.Queue) *Process {
	return &Process{
		self: self, incarnation: incarnation, queue: q,
		synchronizers: map[string]*link{}, asked: map[string][]string{},
		refused: map[*requests.Request]string{}, byNumber: map[uint64]*requests.Request{},
		offered: map[uint64]*offer{}, left: map[string]*grant{},
	}
}

// Outbox returns the messages to send, in order, and forgets them.
func (p *Process) Outbox() []Message {
	out := p.out
	p.out = nil
	return out
}

// Arrive adds a request to the queue. Call Next afterwards.
func (p *Process) Arrive(r *requests.Request) {
	p.queue.Arrive(r)
	if rules := p.offeredTo[r.Method]; len(rules) > 0 {
		p.offer(r, rules)
	}
}

// Next returns the next request to run now, or nil. The owner sends the
// messages of the outbox before it runs the request, and calls Next again when
// the function has ended or is suspended: so guards are evaluated on the state
// that the function has left.
func (p *Process) Next() *requests.Request {
	for {
		if r := p.nextDue(); r != nil {
			return r
		}
		if r := p.conclude(); r != nil {
			return r
		}
		r := p.queue.Candidate(p.closed, p.isHeld)
		if r == nil {
			p.remind()
			return nil
		}
		if len(p.asked[r.Method]) == 0 {
			p.queue.Accept(r)
			delete(p.offered, r.Number())
			return r
		}
		p.begin(r)
	}
}

// Conflict is a method that some synchronizers constrain while others, or the
// same, have atomic rules for it. Its requests wait until one of the
// synchronizers installs other rules.
type Conflict struct {
	Method             string
	Constrains, Atomic []string // the synchronizers, sorted
}

// Conflicts returns the conflicts, sorted by method.
func (p *Process) Conflicts() (all []Conflict) {
	for method, atomic := range p.offeredTo {
		if ask := p.asked[method]; len(ask) > 0 {
			all = append(all, Conflict{method, slices.Sorted(slices.Values(ask)), slices.Clone(atomic)})
		}
	}
	slices.SortFunc(all, func(a, b Conflict) int { return cmp.Compare(a.Method, b.Method) })
	return all
}

// Complete books that a request has ended. Call Next afterwards.
func (p *Process) Complete(r *requests.Request) {
	p.queue.Complete(r)
	for _, s := range p.hears[r.Method] {
		if !p.synchronizers[s].down {
			p.send(Message{Kind: Completed, To: s, Request: r.Request, Number: r.Number(), Counters: p.counters(r.Method)})
		}
	}
}

// Withdraw removes a request that waits, and reports whether it did wait. Call
// Next afterwards. A request for which an atomic rule has the lock may have
// begun to run elsewhere: it is removed if it has not, and Withdraw returns
// false. If it has, Next returns it.
func (p *Process) Withdraw(r *requests.Request) bool {
	if g := p.grantFor(r); g != nil {
		g.withdrawn = true
		return false
	}
	if slices.Contains(p.due, r) || !p.queue.Withdraw(r) {
		return false
	}
	if p.tx != nil && p.tx.request == r {
		p.cancel()
	}
	if s := p.refused[r]; s != "" {
		p.admit(r)
		p.send(Message{Kind: Withdraw, To: s, Number: r.Number()})
	}
	p.unoffer(r, "")
	return true
}

// Down reports that a synchronizer seems to have died. Its methods are held
// back until it, or its successor, has installed its rules again, and no other
// methods are. The notice is about one epoch of it; 0 stands for the last one
// known.
func (p *Process) Down(synchronizer string, epoch uint64) {
	l := p.synchronizers[synchronizer]
	if l == nil || l.down || epoch != 0 && epoch < l.epoch {
		return
	}
	p.cancelIfAsked(synchronizer)
	p.booked = slices.DeleteFunc(p.booked, func(b *booking) bool { return b.by == synchronizer })
	if !p.text.staysUp {
		l.down = true
	}
	p.leave(synchronizer)
	p.Repeat()
}

// Repeat asks the synchronizers that seem to have died to install their rules
// again: a death notice may be wrong. The owner calls it from time to time.
func (p *Process) Repeat() {
	for _, s := range p.Awaits() {
		p.send(Message{Kind: Join, To: s})
	}
}

// Awaits returns the synchronizers, sorted, for which Repeat asks.
func (p *Process) Awaits() (names []string) {
	for s, l := range p.synchronizers {
		if l.down {
			names = append(names, s)
		}
	}
	slices.Sort(names)
	return names
}

// Held returns, for the synchronizers that seem to have died, the methods with
// requests that wait for them, sorted.
func (p *Process) Held() map[string][]string {
	held := map[string][]string{}
	for _, s := range p.Awaits() {
		for method, part := range p.synchronizers[s].methods {
			if part != (Part{}) && p.queue.Count(method).Pending > 0 {
				held[s] = append(held[s], method)
			}
		}
		slices.Sort(held[s])
	}
	maps.DeleteFunc(held, func(_ string, methods []string) bool { return len(methods) == 0 })
	return held
}

// Receive handles a message of a synchronizer. Call Next afterwards.
func (p *Process) Receive(m Message) {
	if m.Kind == Install {
		p.install(m)
		return
	}
	l := p.synchronizers[m.From]
	if l == nil || l.down || l.epoch != m.Epoch && !p.text.noEpochs || m.ID.Incarnation != p.incarnation {
		return // of an incarnation that is gone
	}
	switch m.Kind {
	case Notify:
		p.notified(m)
		return
	case NotMine:
		p.notMine(m)
		return
	case Lock:
		p.lock(m)
		return
	case Do:
		p.do(m)
		return
	case Unlock:
		p.unlock(m)
		return
	default:
	}
	t := p.tx
	if t == nil || t.number != m.Attempt || t.oks == len(t.ask) || t.ask[t.oks] != m.From {
		return // of an attempt that was given up
	}
	switch m.Kind {
	case OK:
		t.oks++
		p.ask()
	case Failed:
		p.refuse(t.request, m.From)
		p.releaseAgreed()
		p.tx = nil
	case Aborted:
		p.releaseAgreed()
		t.aborted = true
		if p.text.retriesAtOnce {
			p.again()
		}
	case Retry:
		if t.aborted {
			p.again()
		}
	default:
	}
}

// closed reports whether no request of a method may be given out now.
func (p *Process) closed(method string) bool {
	if p.granted != nil || p.isLeft(method) {
		return true
	}
	ask := p.asked[method]
	if len(ask) > 0 && len(p.offeredTo[method]) > 0 {
		return true
	}
	return len(ask) > 0 && (p.tx != nil || slices.ContainsFunc(ask, func(s string) bool { return p.synchronizers[s].down })) ||
		p.text.closesQueue && (p.tx != nil || p.running())
}

// isHeld reports whether a request waits for a synchronizer, or is due.
func (p *Process) isHeld(r *requests.Request) bool {
	return p.refused[r] != "" || slices.Contains(p.due, r) || len(p.offeredTo[r.Method]) > 0 && !p.isFree(r)
}

// begin starts a transaction for a request.
func (p *Process) begin(r *requests.Request) {
	p.tx = &attempt{request: r, ask: p.asked[r.Method]}
	p.again()
}

// again starts the first or a further attempt of the transaction. Its
// identifier is the same each time.
func (p *Process) again() {
	p.attempts++
	if p.text.countsAttempts {
		p.commits++
	}
	t := p.tx
	t.id = ID{Counter: p.commits, Process: p.self, Incarnation: p.incarnation}
	t.number, t.oks, t.aborted = p.attempts, 0, false
	p.ask()
}

// ask sends the request to the next synchronizer, if one is left.
func (p *Process) ask() {
	t := p.tx
	if t.oks == len(t.ask) {
		return
	}
	p.send(Message{
		Kind: Verify, To: t.ask[t.oks], ID: t.id, Attempt: t.number,
		Request: t.request.Request, Number: t.request.Number(), Participants: t.ask,
	})
}

// conclude ends a transaction that all synchronizers have agreed to, and
// returns its request. The state of the process may have changed since the
// guards were evaluated: if they do not hold any longer, it gives the
// transaction up.
func (p *Process) conclude() *requests.Request {
	t := p.tx
	if t == nil || t.oks < len(t.ask) || p.granted != nil {
		return nil
	}
	if !p.text.trustsGuards && !p.queue.Holds(t.request) {
		p.cancel()
		return nil
	}
	p.tx = nil
	p.queue.Accept(t.request)
	p.commits++
	for _, s := range t.ask {
		p.synchronizers[s].committed = t.number
		p.send(Message{
			Kind: Commit, To: s, ID: t.id, Attempt: t.number, Request: t.request.Request, Number: t.request.Number(),
			Counters: p.counters(t.request.Method),
		})
	}
	return t.request
}

// cancel gives the transaction up.
func (p *Process) cancel() {
	t := p.tx
	if !t.aborted {
		p.releaseAgreed()
		if t.oks < len(t.ask) {
			p.release(t.ask[t.oks])
		}
	}
	p.tx = nil
}

// releaseAgreed gives back the locks that the attempt has.
func (p *Process) releaseAgreed() {
	for _, s := range p.tx.ask[:p.tx.oks] {
		p.release(s)
	}
}

func (p *Process) release(s string) {
	p.send(Message{Kind: Release, To: s, ID: p.tx.id, Attempt: p.tx.number})
}

func (p *Process) cancelIfAsked(synchronizer string) {
	if p.tx != nil && slices.Contains(p.tx.ask, synchronizer) {
		p.cancel()
	}
}

// refuse keeps a request out of the scans until the synchronizer has sent a
// notification.
func (p *Process) refuse(r *requests.Request, by string) {
	p.refused[r] = by
	p.byNumber[r.Number()] = r
}

// admit lets a request into the scans again.
func (p *Process) admit(r *requests.Request) {
	delete(p.refused, r)
	delete(p.byNumber, r.Number())
}

// notified handles a notification. It may arrive while another request is
// verified: it is remembered because the request is in the next scan.
func (p *Process) notified(m Message) {
	if p.text.losesNotifications && p.tx != nil {
		return
	}
	if r := p.byNumber[m.Number]; r != nil && p.refused[r] == m.From {
		p.admit(r)
	}
}

// install handles the rules of a synchronizer that is new, has restarted, or
// has taken this process for dead. In each case it knows nothing of
// transactions and refusals of before. A synchronizer that has no rules any
// more has ended for good.
func (p *Process) install(m Message) {
	l := p.synchronizers[m.From]
	if l != nil && m.Epoch < l.epoch {
		return
	}
	p.cancelIfAsked(m.From)
	p.leave(m.From)
	if l == nil {
		l = &link{}
		p.synchronizers[m.From] = l
	}
	l.epoch, l.down, l.methods = m.Epoch, false, m.Methods
	p.rebuild()
	if p.tx != nil && m.Methods[p.tx.request.Method] != (Part{}) {
		p.cancel() // it has to ask this synchronizer too
	}
	for r, by := range p.refused {
		if by == m.From {
			p.admit(r)
		}
	}
	p.booked = slices.DeleteFunc(p.booked, func(b *booking) bool { return b.by == m.From })
	if len(m.Methods) == 0 {
		p.part(m.From)
		return
	}
	p.installed(m.From)
	p.offerAgain(m.From)
}

// part forgets a synchronizer that has ended for good.
func (p *Process) part(s string) {
	g := p.left[s]
	delete(p.left, s)
	delete(p.synchronizers, s)
	if g != nil && g.withdrawn {
		p.Withdraw(g.request)
	}
}

// installed sends the counters of the methods that a synchronizer coordinates.
// No transaction is under way with it now: it learns from Attempt how the last
// one has ended, if the message about that is lost.
func (p *Process) installed(s string) {
	l := p.synchronizers[s]
	m := Message{Kind: Installed, To: s, Attempt: l.committed, Done: slices.Clone(l.done)}
	if g := p.left[s]; g != nil {
		m.Grant, m.Request.Method = g.id, g.request.Method
	}
	m.Counters = p.counters(slices.Collect(maps.Keys(l.methods))...)
	p.send(m)
}

// rebuild computes which synchronizers each method has to ask. All processes
// ask in sorted order, so they seldom meet crosswise.
func (p *Process) rebuild() {
	p.asked, p.hears, p.offeredTo = map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, s := range p.names() {
		for method, part := range p.synchronizers[s].methods {
			p.hears[method] = append(p.hears[method], s)
			if part.Asked {
				p.asked[method] = append(p.asked[method], s)
			}
			if part.Offered {
				p.offeredTo[method] = append(p.offeredTo[method], s)
			}
		}
	}
	if p.text.order != nil {
		for _, ask := range p.asked {
			p.text.order(p.self, ask)
		}
	}
}

func (p *Process) counters(methods ...string) map[string]guard.Counters {
	all := make(map[string]guard.Counters, len(methods))
	for _, m := range methods {
		all[m] = p.queue.Count(m)
	}
	return all
}

func (p *Process) running() (some bool) {
	p.queue.Methods(func(_ string, c guard.Counters) { some = some || c.Current > 0 })
	return some
}

func (p *Process) names() []string { return slices.Sorted(maps.Keys(p.synchronizers)) }

func (p *Process) send(m Message) {
	m.From, m.Epoch = p.self, p.synchronizers[m.To].epoch
	m.ID.Process, m.ID.Incarnation = p.self, p.incarnation
	p.out = append(p.out, m)
}
