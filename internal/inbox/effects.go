package inbox

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/reason"
)

// effects are what a transition of the state asks of the world outside: workers
// to wake, submitters to release, commands that have ended. A transition runs
// under the lock and only collects them; [Inbox.unlock] releases the lock and
// applies them. The zero effects are none.
//
// A transition has one effects value, which its caller keeps on the stack.
// Effects of most hops, a worker to wake and a submitter to release, allocate
// nothing; the others are apart, so that there is little to clear for each hop.
type effects struct {
	wake        *Member // the first worker to wake; most transitions wake one at most
	first, last *waiter // a chain of waiters to signal: their commands were queued, or must be submitted again
	others      *others // nil: none
	tokens      tokensGiven

	some    bool // there are effects beside wake
	full    bool // the inbox has become full
	quiet   bool // a drain may be waiting for the inbox to be empty
	entries bool // less is in flight, or the inbox has closed: submitters that wait at the pipeline's entry look again
}

// others are the effects that few transitions have.
type others struct {
	wake      []*Member     // further workers to wake
	unbarred  chan struct{} // to close: senders that were barred may try again
	unstalled []*Inbox      // inboxes behind from which shared pools may take again
	ended     []endings
	failed    []failure
	slowed    int        // the length of a streak of crashes whose pause must be reported
	recovered int        // the length of a streak of crashes with pauses that has ended
	flush     bool       // results may leave a halted inbox, and there may be no worker to hand them over
	first     [1]endings // the store of ended, and of one command: most often there is no more
	one       [1]command.Envelope
}

// endings are commands that ended without an answer for one reason.
type endings struct {
	es   []command.Envelope
	why  reason.Reason
	err  error
	park *Park // on the key of the one command; nil if it is not parked
}

// failure is a command that has failed because its caller has given up, so that
// it leaves no letter.
type failure struct {
	e   command.Envelope
	err error
}

// other returns the other effects, to be added to.
func (fx *effects) other() *others {
	if fx.others == nil {
		fx.others, fx.some = new(others), true
	}
	return fx.others
}

// giveTokens asks for n more tokens to be delivered to a shared pool.
func (fx *effects) giveTokens(to *binding, era uint32, n int32) {
	fx.tokens = tokensGiven{to, era, fx.tokens.n + n}
}

// wakeWorker asks for a worker to be woken; nil asks for none.
func (fx *effects) wakeWorker(m *Member) {
	switch {
	case m == nil:
	case fx.wake == nil:
		fx.wake = m
	default:
		x := fx.other()
		x.wake = append(x.wake, m)
	}
}

// signal makes unlock resume the goroutine of a waiter.
func (fx *effects) signal(w *waiter) {
	if fx.last == nil {
		fx.first = w
	} else {
		fx.last.next = w
	}
	fx.last, fx.some = w, true
}

// unstall asks for inboxes to be served again.
func (fx *effects) unstall(inboxes ...*Inbox) {
	if len(inboxes) > 0 {
		x := fx.other()
		x.unstalled = append(x.unstalled, inboxes...)
	}
}

// unbar asks for a channel to be closed.
func (fx *effects) unbar(unbarred chan struct{}) { fx.other().unbarred = unbarred }

// end asks for dead letters, one for each command. The commands are booked
// already.
func (fx *effects) end(es []command.Envelope, why reason.Reason, err error) {
	if len(es) > 0 {
		fx.other().end(es, why, err)
	}
}

// endOne asks for the dead letter of one command.
func (fx *effects) endOne(e command.Envelope, why reason.Reason, err error) {
	x := fx.other()
	es := x.one[:]
	if x.ended != nil {
		es = make([]command.Envelope, 1)
	}
	es[0] = e
	x.end(es, why, err)
}

// parks gives the hold on a key to the letter of the command whose end was asked
// for last.
func (fx *effects) parks(p *Park) { fx.others.ended[len(fx.others.ended)-1].park = p }

// fail asks for the ticket of a command to be settled with an error. The
// command is booked already.
func (fx *effects) fail(e command.Envelope, err error) {
	x := fx.other()
	x.failed = append(x.failed, failure{e, err})
}

func (x *others) end(es []command.Envelope, why reason.Reason, err error) {
	if x.ended == nil {
		x.ended = x.first[:0]
	}
	x.ended = append(x.ended, endings{es: es, why: why, err: err})
}

// shed books the end of accepted commands that are dropped.
func (s *state) shed(es []command.Envelope, why reason.Reason, err error, fx *effects) {
	s.counts.addShed(why, len(es))
	fx.end(es, why, s.wrap(err))
}

func (s *state) shedOne(e command.Envelope, why reason.Reason, err error, fx *effects) {
	s.counts.addShed(why, 1)
	fx.endOne(e, why, s.wrap(err))
}

// endStopped books the end of commands that are not done because the inbox is
// halted.
func (s *state) endStopped(es []command.Envelope, fx *effects) {
	s.counts.addDeadLettered(reason.Stopped, len(es))
	fx.end(es, reason.Stopped, s.wrap(ErrStopped))
}

// ends reports whether commands have ended.
func (fx *effects) ends() bool { return fx.others != nil && len(fx.others.ended) > 0 }

// unlock ends a transition. It sets the timers that the transition asked for,
// releases the lock, and applies the effects in an order on which others rely:
//
//  1. The counts are booked: the transition did that, under the lock.
//  2. Workers are woken, a shared pool is given its tokens and wakes workers of its own, and submitters go on.
//  3. The pipeline is notified: the inbox is full, a drain may look, the entry may let in more.
//  4. Commands that failed because their callers have given up have their tickets settled.
//  5. Commands that ended are reported, one after the other: the letter is kept, then the ticket is settled, so that a
//     caller that learns of the end finds the letter. Subscribers come after all tickets, for they may take their time.
//  6. The pipeline logs that a streak of crashes slows the stage down, or has ended.
//  7. The results that may leave a halted inbox are handed over.
//
// No lock is held meanwhile, so another transition may come in between; see
// [tokensGiven]. No other function wakes workers or signals waiters on behalf
// of an inbox. There are two exceptions: a worker that hands over with [Member.DefersWakes]
// wakes the called worker itself, and callers of effects.later report ended
// commands themselves.
func (in *Inbox) unlock(fx *effects) {
	in.finish()
	fx.happen(in)
}

// transition runs a transition that is not on the path of a command: its
// effects are on the heap.
func (in *Inbox) transition(run func(s *state, fx *effects)) {
	var fx effects
	in.mu.Lock()
	run(&in.state, &fx)
	in.unlock(&fx)
}

// finish is the part of unlock that needs the lock.
func (in *Inbox) finish() {
	if in.state.timers.set != 0 {
		in.state.timers.arm(in)
	}
	in.mu.Unlock()
}

// happen applies the effects. The lock is not held.
func (fx *effects) happen(in *Inbox) {
	if fx.wake != nil {
		fx.wake.Wake()
	}
	if fx.tokens.to != nil {
		fx.tokens.to.Deliver(fx.tokens.era, fx.tokens.n)
	}
	if fx.some {
		fx.apply(in)
	}
}

// apply applies the effects but for wake. The lock is not held.
func (fx *effects) apply(in *Inbox) {
	x := fx.others
	if x == nil {
		x = &others{}
	}
	x.wakeAll()
	for w := fx.first; w != nil; {
		next := w.next
		w.next = nil
		w.signal()
		w = next
	}
	if x.unbarred != nil {
		close(x.unbarred)
	}
	for _, behind := range x.unstalled {
		behind.unstall()
	}
	if pl := in.Pipeline(); pl != nil {
		fx.notify(pl, in)
	}
	for i := range x.failed {
		in.Answer(&x.failed[i].e, x.failed[i].err)
	}
	for _, e := range x.ended {
		in.report(e)
	}
	x.reportStreak(in)
	if x.flush {
		in.Results().Flush()
	}
}

func (x *others) wakeAll() {
	for _, m := range x.wake {
		m.Wake()
	}
}

// reportStreak notifies the pipeline of a streak of crashes that slows the
// stage down, or has ended.
func (x *others) reportStreak(in *Inbox) {
	if x.slowed+x.recovered == 0 {
		return
	}
	pl := in.Pipeline()
	if x.slowed > 0 && pl.Slowed != nil {
		pl.Slowed(in, x.slowed)
	}
	if x.recovered > 0 && pl.Recovered != nil {
		pl.Recovered(in, x.recovered)
	}
}

func (fx *effects) notify(pl *Pipeline, in *Inbox) {
	if fx.full && pl.Full != nil {
		pl.Full(in)
	}
	if fx.quiet {
		pl.NotifyQuiet()
	}
	if fx.entries {
		pl.entry.Notify()
	}
}

// later takes the reports of commands that ended out of the effects, for
// callers that make them at a better time. It returns the function that makes
// them.
func (fx *effects) later(in *Inbox) (report func()) {
	var all []endings
	if fx.others != nil {
		all, fx.others.ended = fx.others.ended, nil
	}
	return func() {
		for _, e := range all {
			in.report(e)
		}
	}
}

func (in *Inbox) ending(e *command.Envelope, why reason.Reason, err error, at time.Time) Ending {
	return Ending{Inbox: in, Cmd: e.Command(), Reason: why, Err: err, Tries: e.Tries(), At: at, From: 1 + e.Emitter(),
		Heard: e.Ticket().Heard(), ComesAgain: e.From.ComesAgain(in.Pipeline())}
}

// report reports commands that ended unanswered. For each, the letter is kept
// before the ticket is settled: a caller that learns of the end may look for
// the letter. Subscribers come last; they may take their time.
func (in *Inbox) report(x endings) {
	pl, now := in.Pipeline(), time.Now()
	ends := make([]Ending, 0, 8)
	for i := range x.es {
		e := &x.es[i]
		end := in.ending(e, x.why, x.err, now)
		end.Park = x.park
		if end.Answered = in.answers(e, x.why); end.Answered {
			pl.answered.Add(1)
		}
		end.Letter = pl.keep(end)
		ends = append(ends, end)
		e.Ticket().Settle(e.Child(), nil, x.err)
	}
	for _, end := range ends {
		pl.Ended(end)
	}
	pl.deadLettered.Add(uint64(len(x.es)))
}

// answers reports whether the end of a command leaves no letter, because a
// caller has both the command and the error: the caller that submitted it with
// a ticket, if the command was not tried again in vain. A command leaves no
// letter either if its caller's context has ended, because the caller has given
// up the command and all commands that it led to. A crash is a fault of the
// program, and leaves a letter in any case. A hard stop leaves one, too,
// because it often ends the caller, unless the source of the command keeps it.
func (in *Inbox) answers(e *command.Envelope, why reason.Reason) bool {
	t := e.Ticket()
	switch {
	case t == nil || t.Watches() || why == reason.Crash || why == reason.Stopped && !t.Heard():
		return false
	default:
		return !e.Child() && !in.usedUp(e) || e.From.Ended() != nil
	}
}

// keep has the pipeline keep a letter, and returns its number; 0 if it is not
// kept.
func (pl *Pipeline) keep(e Ending) (letter uint64) {
	if pl.Keep == nil {
		return 0
	}
	return pl.Keep(e)
}

// ReportLost reports a message that was no command yet: there is no ticket for
// it.
func (pl *Pipeline) ReportLost(e Ending) {
	e.At = time.Now()
	e.Letter = pl.keep(e)
	pl.Ended(e)
}

// DeadLettered returns how many of the commands that the accounts have as shed
// or dead-lettered were reported.
func (pl *Pipeline) DeadLettered() uint64 { return pl.deadLettered.Load() }

// Answered returns how many of the commands that DeadLettered counts left no
// letter, because a caller was answered.
func (pl *Pipeline) Answered() uint64 { return pl.answered.Load() }

// Settles reports whether commands that wait are being ended because they have
// lapsed. They are booked, and not all of their tickets have ended.
func (pl *Pipeline) Settles() bool { return pl.settling.Load() > 0 }

// Answer settles the ticket of a command that ended with an error, if there is
// one.
func (in *Inbox) Answer(e *command.Envelope, err error) {
	if t := e.Ticket(); t != nil {
		t.Settle(e.Child(), nil, plain.Wrap(fmt.Sprintf("stage %q", in.state.cfg.Name), err))
	}
}

// Fail reports a command that ended with an error and is booked as such. It
// leaves a letter unless a caller is answered. The letter has the hold on the
// key, if that is parked; otherwise park is nil.
func (in *Inbox) Fail(e *command.Envelope, err error, park *Park) {
	if park == nil && in.answers(e, reason.Error) {
		in.Answer(e, err)
		return
	}
	pl := in.Pipeline()
	end := in.ending(e, reason.Error, err, time.Now())
	end.Park = park
	end.Letter = pl.keep(end)
	in.Answer(e, err)
	pl.Ended(end)
}

// usedUp reports whether a command was tried again, and as often as it may be.
func (in *Inbox) usedUp(e *command.Envelope) bool {
	most := in.state.cfg.Retry.Attempts
	return most > 1 && e.Tries() >= most
}

// Tickets counts the queued and delayed commands that a caller waits for. It
// reads each of them under the lock, so it is for reports. Commands in workers'
// batches belong to the workers: to read them would be a race.
func (b Batches) Tickets() int {
	return ask(b.in, func(s *state) int {
		return s.count(func(e *command.Envelope) bool { return e.Ticket() != nil && !e.Ticket().Watches() })
	})
}

// Has reports whether so is true of a command that is queued, waits for its
// next try or is in a worker's batch. It reads each of them under the lock, so
// it is for reports. Of handlers that may suspend it does not see the commands
// under way.
func (b Batches) Has(so func(*command.Envelope) bool) bool {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	if b.in.state.count(so) > 0 {
		return true
	}
	for m := b.in.state.holding; m != nil; m = m.custody.behind {
		for i := max(len(m.custody.copies)-int(m.custody.inHand), 0); i < len(m.custody.copies); i++ {
			if so(&m.custody.copies[i]) {
				return true
			}
		}
	}
	return false
}
