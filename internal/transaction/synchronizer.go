package transaction

import (
	"maps"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
)

// Synchronizer is the side of a transaction that has the rules. It is not safe
// for concurrent use. Its owner adds the rules, calls Start, and passes on
// messages and death notices: of the processes, and of the synchronizers that
// it sends to. If a constraint, trigger or pattern panics the synchronizer is
// not to be used any more: its successor has a higher epoch.
type Synchronizer struct {
	self      string
	epoch     uint64
	rules     map[method]*rule
	repairs   []func(process string)
	processes map[string]*member

	lock     *transaction // the transaction that was agreed to, nil if free
	asking   set          // the synchronizers that have not said yet how a dead process's transaction ended; nil if it lives
	waiting  []*transaction
	aborted  []*transaction // each gets a hint when the synchronizer is free
	refused  []*transaction // each gets a notification when its constraints hold
	fetching set            // the processes whose counters are still unknown
	changes  []func()       // of the state, to be applied when the synchronizer is free

	atomic []*atomicRule
	locks  uint64          // how many attempts atomic rules have made
	done   []ID            // the last that led to a Do
	grants map[string]left // locks that processes had granted to a synchronizer before this one, until all are known
	doneOf map[string][]ID // the last locks that led to a Do, by process

	out  []Message
	text text
}

// method is a method of a process.
type method struct{ process, name string }

// rule has the constraints and triggers of a synchronizer for a method.
type rule struct {
	constraints []func(guard.Request) bool
	accepted    []func(guard.Request)
	completed   []func(guard.Request)
	atomic      bool // an atomic rule has an event of it
}

// member is a synchronizer's view of a process.
type member struct {
	incarnation uint64
	known       bool // it has installed the rules
	down        bool
	counters    map[string]guard.Counters
	commits     []commit           // the last ones, of all incarnations
	asks        map[string]Message // questions about a transaction that may still be committed, by synchronizer
}

// left is a lock that a process had granted for a request of a method.
type left struct {
	grant  ID
	method string
}

// commit identifies a transaction that was committed.
type commit struct{ incarnation, attempt uint64 }

// remembered is how many commits of a process are kept, for synchronizers that
// ask after its death. A process has one transaction at a time: more than one
// is needed only if messages were lost and the process continued.
const remembered = 16

// transaction is a request that is verified.
type transaction struct {
	id           ID
	attempt      uint64
	request      guard.Request
	number       uint64
	participants []string
}

type set map[string]struct{}

// NewSynchronizer returns a synchronizer without rules. Each incarnation has an
// epoch higher than those before.
func NewSynchronizer(self string, epoch uint64) *Synchronizer {
	return &Synchronizer{
		self: self, epoch: epoch, rules: map[method]*rule{}, processes: map[string]*member{}, fetching: set{},
		grants: map[string]left{}, doneOf: map[string][]ID{},
	}
}

// Constrain holds back the requests of a method for which check is false. It is
// evaluated when a request is verified, and for refused requests whenever
// counters or triggers may have changed the state.
func (s *Synchronizer) Constrain(process, name string, check func(guard.Request) bool) {
	r := s.rule(process, name)
	r.constraints = append(r.constraints, check)
}

// WhenAccepted adds a trigger that runs when a request has been accepted. Its
// process has to ask, even if there is no constraint.
func (s *Synchronizer) WhenAccepted(process, name string, trigger func(guard.Request)) {
	r := s.rule(process, name)
	r.accepted = append(r.accepted, trigger)
}

// WhenCompleted adds a trigger that runs when a request has ended.
func (s *Synchronizer) WhenCompleted(process, name string, trigger func(guard.Request)) {
	r := s.rule(process, name)
	r.completed = append(r.completed, trigger)
}

// WhenTerminated adds a function that runs when a process has died or
// restarted, after its counters have become zero.
func (s *Synchronizer) WhenTerminated(repair func(process string)) {
	s.repairs = append(s.repairs, repair)
}

// Watch has the counters of a method counted.
func (s *Synchronizer) Watch(process, name string) { s.rule(process, name) }

// Watches reports whether the counters of a method are known.
func (s *Synchronizer) Watches(process, name string) bool {
	return s.rules[method{process, name}] != nil
}

// Processes returns the processes that have rules, sorted.
func (s *Synchronizer) Processes() []string { return slices.Sorted(maps.Keys(s.processes)) }

// Count returns the counters of a method, as of its last request that was
// accepted or completed, or zero for one that has no rule or whose process is
// dead.
func (s *Synchronizer) Count(process, name string) guard.Counters {
	if p := s.processes[process]; p != nil {
		return p.counters[name]
	}
	return guard.Counters{}
}

// Start installs the rules. The synchronizer answers when each process has sent
// its counters, or is known to be dead.
func (s *Synchronizer) Start() {
	for _, process := range s.Processes() {
		s.install(process)
		if !s.text.startsEmpty {
			s.fetching[process] = struct{}{}
		}
	}
}

// Fetched reports whether the counters of all processes are known that are not
// dead: only then is anything allowed.
func (s *Synchronizer) Fetched() bool { return len(s.fetching) == 0 }

// Awaits returns the names to which Repeat sends.
func (s *Synchronizer) Awaits() (names []string) {
	for other := range s.asking {
		names = append(names, other)
	}
	for process, p := range s.processes {
		if p.down || !p.known {
			names = append(names, process)
		}
	}
	slices.Sort(names)
	return names
}

// Repeat sends messages again that may have reached a dead node: rules to the
// processes that seem to have died or have not answered yet, and questions
// about the transaction of a dead process. The owner calls it from time to
// time.
func (s *Synchronizer) Repeat() {
	for _, process := range s.Processes() {
		if p := s.processes[process]; p.down || !p.known {
			s.install(process)
		}
	}
	s.ask()
}

// Outbox returns the messages to send, in order, and forgets them.
func (s *Synchronizer) Outbox() []Message {
	out := s.out
	s.out = nil
	return out
}

// Receive handles a message of a process or of another synchronizer.
func (s *Synchronizer) Receive(m Message) {
	switch m.Kind {
	case Ask:
		s.asked(m)
		return
	case Committed, NotCommitted:
		s.answered(m)
		return
	default:
	}
	p := s.processes[m.From]
	switch {
	case m.ID.Process != m.From:
		return
	case p == nil:
		if m.Kind == Join && m.Epoch <= s.epoch {
			s.tell(Install, m) // without methods: the rules of that epoch are not in force any more
		}
		return
	}
	if m.Kind == Join {
		s.install(m.From)
		return
	}
	if m.Epoch != s.epoch && !s.text.noEpochs { // for a synchronizer that is gone
		if !p.known {
			// the first Install may have reached a dead incarnation
			s.install(m.From)
		}
		return
	}
	switch m.Kind {
	case Installed:
		s.installed(p, m)
		return
	case NoFunctions: // there is no process until one has the name
		if m.ID.Incarnation >= p.incarnation {
			s.lost(m.From, p)
		}
		return
	default:
	}
	if !p.known || m.ID.Incarnation != p.incarnation {
		return // of a process that is gone
	}
	t := &transaction{m.ID, m.Attempt, m.Request, m.Number, m.Participants}
	switch mine := s.lock.is(m.ID, m.Attempt); {
	case mine && m.Kind == Commit: // also of a process that was taken for dead: it lives
		s.commit(m.Counters)
	case mine && m.Kind == Release:
		s.free()
	case p.down:
		return // until it has installed the rules again
	case m.Kind == Verify:
		s.verify(t)
	case m.Kind == Release:
		s.waiting = slices.DeleteFunc(s.waiting, t.same)
		s.aborted = slices.DeleteFunc(s.aborted, t.same)
	case m.Kind == Withdraw:
		s.refused = slices.DeleteFunc(s.refused, t.sameRequest)
		s.withdraw(m.From, m.Number)
	case m.Kind == Offer:
		s.offered(m)
	case m.Kind == Granted:
		s.granted(m)
	case m.Kind == Refused:
		s.refusedLock(m)
	case m.Kind == Ready:
		s.ready(m)
	case m.Kind == Completed:
		s.change(func() { s.completed(p, m) })
	default:
	}
}

// Down reports that an incarnation of a process or synchronizer seems to have
// died; 0 stands for the last one known. A late notice, of an incarnation that
// has a successor, changes nothing.
func (s *Synchronizer) Down(address string, incarnation uint64) {
	if p := s.processes[address]; p != nil {
		if !p.down && (incarnation == 0 || incarnation >= p.incarnation) {
			s.lost(address, p)
			s.install(address) // it answers if it lives
		}
		return
	}
	for _, p := range s.processes {
		delete(p.asks, address)
	}
	s.answer(address, false)
}

// verify decides on a request. While the synchronizer is locked an older
// transaction waits and a younger one is aborted. So each waiting transaction
// is older than the lock's holder, and can wait for it without a deadlock.
func (s *Synchronizer) verify(t *transaction) {
	switch {
	case len(s.fetching) > 0:
		s.waiting = append(s.waiting, t)
	case s.lock == nil:
		s.decide(t)
	case t.id.Before(s.lock.id):
		s.waiting = append(s.waiting, t)
	default:
		s.aborted = append(s.aborted, t)
		s.reply(Aborted, t)
	}
}

// decide evaluates the constraints of a request while the synchronizer is free.
func (s *Synchronizer) decide(t *transaction) {
	if !s.holds(t) {
		s.refused = append(s.refused, t)
		s.reply(Failed, t)
		return
	}
	s.lock = t
	s.reply(OK, t)
}

func (s *Synchronizer) holds(t *transaction) bool {
	r := s.rules[method{t.id.Process, t.request.Method}]
	if r == nil {
		return true
	}
	for _, check := range r.constraints {
		if !check(t.request) {
			return false
		}
	}
	return true
}

// commit runs the triggers of the transaction that has the lock, and frees it.
func (s *Synchronizer) commit(counters map[string]guard.Counters) {
	t := s.lock
	p := s.processes[t.id.Process]
	if len(p.commits) == remembered {
		p.commits = p.commits[1:]
	}
	p.commits = append(p.commits, commit{t.id.Incarnation, t.attempt})
	for _, by := range slices.Sorted(maps.Keys(p.asks)) {
		if q := p.asks[by]; t.is(q.ID, q.Attempt) {
			delete(p.asks, by)
			s.tell(Committed, q)
		}
	}
	p.learn(counters)
	if r := s.rules[method{t.id.Process, t.request.Method}]; r != nil {
		for _, trigger := range r.accepted {
			trigger(t.request)
		}
	}
	s.changes = append(s.changes, func() {}) // the state has changed
	s.free()
}

// completed runs the triggers of a request that has ended.
func (s *Synchronizer) completed(p *member, m Message) {
	if m.ID.Incarnation == p.incarnation {
		p.learn(m.Counters)
	}
	if r := s.rules[method{m.From, m.Request.Method}]; r != nil {
		for _, trigger := range r.completed {
			trigger(m.Request)
		}
	}
}

// learn takes counters of the process, except counters of which later values
// are known: a completion may arrive before a commit, which is applied after
// it. Counters that the process has sent before it received a Do lack the
// request of that Do.
func (p *member) learn(counters map[string]guard.Counters) {
	for name, c := range counters {
		known := p.counters[name]
		lacks := max(known.Accepted-c.Accepted, 0)
		if c.Completed >= known.Completed && (lacks == 0 || c.Completed > known.Completed) {
			p.counters[name] = accepted(c, lacks)
		}
	}
}

// accepted returns counters after more requests were accepted.
func accepted(c guard.Counters, more int) guard.Counters {
	c.Accepted += more
	c.Current += more
	c.Pending = max(c.Pending-more, 0)
	return c
}

// told counts a request that a process was ordered to run.
func (p *member) told(name string) { p.counters[name] = accepted(p.counters[name], 1) }

// change applies a change of the state when the synchronizer is free. The state
// that was agreed to stays until it is committed.
func (s *Synchronizer) change(f func()) {
	s.changes = append(s.changes, f)
	s.proceed()
}

func (s *Synchronizer) free() {
	s.lock, s.asking = nil, nil
	s.proceed()
}

// proceed does the work that had to wait until the synchronizer is free.
func (s *Synchronizer) proceed() {
	if s.lock != nil {
		return
	}
	changed := len(s.changes) > 0
	for _, f := range s.changes {
		f()
	}
	s.changes = nil
	if changed && !s.text.notifiesAll {
		s.notify()
	}
	s.serve()
	if changed && s.text.notifiesAll {
		s.notify()
	}
}

// notify sends a notification for each refused request whose constraints hold
// now.
func (s *Synchronizer) notify() {
	kept := s.refused[:0]
	for _, t := range s.refused {
		if !s.text.notifiesAll && !s.holds(t) {
			kept = append(kept, t)
			continue
		}
		s.reply(Notify, t)
	}
	clear(s.refused[len(kept):])
	s.refused = kept
}

// serve gives the lock to the youngest waiting transaction: the others are
// older than it, as the rule demands. If none waits, the aborted ones may try
// again.
func (s *Synchronizer) serve() {
	if len(s.fetching) > 0 {
		return
	}
	for s.lock == nil && len(s.waiting) > 0 {
		next := 0
		for i, t := range s.waiting {
			if s.waiting[next].id.Before(t.id) {
				next = i
			}
		}
		if s.text.firstComeFirstServed {
			next = 0
		}
		t := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.decide(t)
	}
	if s.lock != nil {
		return
	}
	for _, t := range s.aborted {
		s.reply(Retry, t)
	}
	s.aborted = nil
}

// installed handles the counters of a process that is new, has restarted, or
// was taken for dead. It has nothing under way with this synchronizer.
func (s *Synchronizer) installed(p *member, m Message) {
	if m.ID.Incarnation < p.incarnation {
		return
	}
	if m.ID.Incarnation > p.incarnation && p.known && !p.down {
		s.lost(m.From, p) // it has restarted
	}
	p.incarnation, p.known, p.down = m.ID.Incarnation, true, false
	s.settle(p)
	s.forget(m.From)
	delete(s.fetching, m.From)
	// waiting transactions are decided with these counters
	s.changes = append(s.changes, func() {
		if !s.text.startsEmpty {
			p.counters = maps.Clone(m.Counters)
		}
	})
	if t := s.lock; t != nil && t.id.Process == m.From && t.id.Incarnation == m.ID.Incarnation {
		if t.attempt == m.Attempt {
			s.commit(nil)
		} else {
			s.free()
		}
	}
	s.resolve(m)
	s.proceed()
}

// lost drops the state of a process that has died or restarted.
func (s *Synchronizer) lost(process string, p *member) {
	known := p.known && !p.down
	p.down = true
	s.settle(p)
	s.forget(process)
	delete(s.fetching, process)
	if s.lock != nil && s.lock.id.Process == process && s.asking == nil && !s.text.ignoresDeaths {
		s.recover()
	}
	if known && !s.text.repairsNothing {
		s.change(func() {
			p.counters = map[string]guard.Counters{}
			for _, repair := range s.repairs {
				repair(process)
			}
		})
	}
	s.resolveAll()
	s.proceed()
}

// forget drops the waiting requests of a process.
func (s *Synchronizer) forget(process string) {
	of := func(t *transaction) bool { return t.id.Process == process }
	s.waiting = slices.DeleteFunc(s.waiting, of)
	s.aborted = slices.DeleteFunc(s.aborted, of)
	s.refused = slices.DeleteFunc(s.refused, of)
	s.forgetOffers(process)
}

// recover finds out how the transaction of a dead process has ended: it was
// committed if it was committed anywhere.
func (s *Synchronizer) recover() {
	s.asking = set{}
	for _, other := range s.lock.participants {
		if other != s.self && !s.text.asksNone {
			s.asking[other] = struct{}{}
		}
	}
	if len(s.asking) == 0 {
		s.free()
		return
	}
	s.ask()
}

func (s *Synchronizer) ask() {
	for _, other := range slices.Sorted(maps.Keys(s.asking)) {
		s.send(Message{Kind: Ask, To: other, ID: s.lock.id, Attempt: s.lock.attempt})
	}
}

// asked answers another synchronizer that has seen a process die. While this
// one has not, the process may still commit: the answer waits.
func (s *Synchronizer) asked(m Message) {
	p := s.processes[m.ID.Process]
	switch {
	case p == nil:
		s.tell(NotCommitted, m)
	case slices.Contains(p.commits, commit{m.ID.Incarnation, m.Attempt}):
		s.tell(Committed, m)
	case p.gone(m.ID.Incarnation):
		s.tell(NotCommitted, m)
	default:
		if p.asks == nil {
			p.asks = map[string]Message{}
		}
		p.asks[m.From] = m
	}
}

// settle answers the questions about an incarnation that has ended.
func (s *Synchronizer) settle(p *member) {
	for _, by := range slices.Sorted(maps.Keys(p.asks)) {
		if q := p.asks[by]; p.gone(q.ID.Incarnation) {
			delete(p.asks, by)
			s.tell(NotCommitted, q)
		}
	}
}

// gone reports whether nothing more is accepted from an incarnation of the
// process.
func (p *member) gone(incarnation uint64) bool {
	return p.down || p.known && incarnation < p.incarnation
}

func (s *Synchronizer) answered(m Message) {
	if m.Epoch == s.epoch && s.lock.is(m.ID, m.Attempt) {
		s.answer(m.From, m.Kind == Committed)
	}
}

// answer ends the transaction of a dead process if one other synchronizer has
// committed it, or none has.
func (s *Synchronizer) answer(from string, committed bool) {
	if _, ok := s.asking[from]; !ok {
		return
	}
	delete(s.asking, from)
	switch {
	case committed:
		s.commit(nil)
	case len(s.asking) == 0:
		s.free()
	}
}

func (s *Synchronizer) install(process string) {
	methods := map[string]Part{}
	for m, r := range s.rules {
		if m.process == process {
			methods[m.name] = Part{Asked: len(r.constraints) > 0 || len(r.accepted) > 0 && !r.atomic, Offered: r.atomic}
		}
	}
	s.send(Message{Kind: Install, To: process, ID: ID{Process: process}, Methods: methods})
}

func (s *Synchronizer) rule(process, name string) *rule {
	if s.processes[process] == nil {
		s.processes[process] = &member{counters: map[string]guard.Counters{}}
	}
	r := s.rules[method{process, name}]
	if r == nil {
		r = &rule{}
		s.rules[method{process, name}] = r
	}
	return r
}

func (s *Synchronizer) reply(kind Kind, t *transaction) {
	s.send(Message{Kind: kind, To: t.id.Process, ID: t.id, Attempt: t.attempt, Number: t.number})
}

// tell answers another synchronizer, in its epoch.
func (s *Synchronizer) tell(kind Kind, q Message) {
	s.out = append(s.out, Message{Kind: kind, From: s.self, To: q.From, Epoch: q.Epoch, ID: q.ID, Attempt: q.Attempt})
}

func (s *Synchronizer) send(m Message) {
	m.From, m.Epoch = s.self, s.epoch
	s.out = append(s.out, m)
}

// is reports whether t, which may be nil, is the transaction.
func (t *transaction) is(id ID, attempt uint64) bool {
	return t != nil && t.id == id && t.attempt == attempt
}

func (t *transaction) same(u *transaction) bool { return t.is(u.id, u.attempt) }

func (t *transaction) sameRequest(u *transaction) bool {
	return t.id.Process == u.id.Process && t.number == u.number
}
