package inbox

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

func TestThePhaseFollowsItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		from phase
		ev   event
		to   phase
	}{
		"a halted inbox is never opened again":             {halted, toOpen, halted},
		"a halted inbox does not drain":                    {halted, toDrain, halted},
		"an inbox that was never opened stays so on Close": {unopened, toClose, unopened},
		"a drain starts anew":                              {drained, toDrain, draining},
		"a drain bars before it seals":                     {draining, toSeal, draining},
		"barring is the second step":                       {draining, toBar, barring},
		"sealing is the third step":                        {barring, toSeal, drained},
		"an open inbox is not barred":                      {open, toBar, open},
		"a drain ends with a closed inbox":                 {barring, toEndDrain, closed},
		"Close leaves a drain as it is":                    {barring, toClose, barring},
		"Open ends a drain":                                {drained, toOpen, open},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.to, transitions[c.ev][c.from]) })
	}
	for p := range phases {
		require.Equal(t, halted, transitions[toHalt][p])
	}
}

// The order of effects is a promise: a caller that learns of a command's end finds its letter, and a subscriber that takes
// its time delays no ticket. None of them runs under the lock.
func TestALetterIsKeptBeforeTheTicketIsSettledAndSubscribersComeLast(t *testing.T) {
	var in *Inbox
	var seen []string
	note := func(what string) {
		require.True(t, in.mu.TryLock(), "%s runs under the lock", what)
		in.mu.Unlock()
		seen = append(seen, what)
	}
	pl := &Pipeline{
		Base: time.Now(), Quiet: make(chan struct{}, 1), Full: func(*Inbox) { note("full") },
		Keep:  func(e Ending) uint64 { note("keep " + e.Cmd.(string)); return 0 },
		Ended: func(e Ending) { note("subscriber " + e.Cmd.(string)) },
	}
	in = New(Config{Name: "s", Capacity: 2, Batch: 2, StreakEnds: time.Minute})
	pl.Attach(in)
	in.Phases().Open()
	m := &Member{Wake: func() { note("wake") }}
	in.Workers().Join(m, false)
	require.Zero(t, in.Turn(m, new(Tally), true))
	for _, cmd := range []string{"a", "b"} {
		ticket := command.NewTicket(func(any, error) {
			require.EqualValues(t, 2, in.state.counts.refused.reasons.DeadLettered[reason.Stopped], "the end is booked before it is reported")
			note("ticket " + cmd)
		})
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: cmd, From: ticket.Origin()}))
	}
	in.Phases().Halt()()
	require.Equal(t, []string{
		"wake", "full",
		"keep a", "ticket a", "keep b", "ticket b", "subscriber a", "subscriber b",
	}, seen)
}

// walk drives one inbox through random transitions on one goroutine, with a clock and timers of its own.
type walk struct {
	*Inbox
	t        *testing.T
	now      int64
	timers   []*virtualTimer
	workers  []*Member // of the stage's own
	tallies  map[*Member]*Tally
	todo     map[*Member][]command.Envelope // what each worker has still to do
	senders  []*Member                      // of another stage
	loads    map[*Member]int                // commands that each of those has for the inbox
	waiting  []*waiter
	accepted uint64
	ended    uint64
}

// virtualTimer fires when the walk says so.
type virtualTimer struct {
	at   int64 // 0: not set
	fire func()
	w    *walk
}

func (v *virtualTimer) Stop() bool {
	was := v.at != 0
	v.at = 0
	return was
}

func (v *virtualTimer) Reset(d time.Duration) bool {
	was := v.at != 0
	v.at = v.w.now + int64(d)
	return was
}

func newWalk(t *testing.T, rule Overflow) *walk {
	w := &walk{t: t, now: 1, tallies: map[*Member]*Tally{}, todo: map[*Member][]command.Envelope{}, loads: map[*Member]int{}}
	cfg := Config{
		Name: "s", Capacity: 5, Batch: 3, Overflow: rule, StreakEnds: time.Minute,
		Retry: Retry{Attempts: 3, Backoff: time.Millisecond, Max: 5 * time.Millisecond},
	}
	w.Inbox = New(cfg)
	other := New(Config{Name: "other", Capacity: 1, Batch: 1})
	pl := &Pipeline{
		Clock: func() int64 { return w.now }, Quiet: make(chan struct{}, 1), Ended: func(Ending) { w.ended++ },
		AfterFunc: func(d time.Duration, f func()) Timer {
			v := &virtualTimer{w.now + int64(d), f, w}
			w.timers = append(w.timers, v)
			return v
		},
	}
	pl.Attach(w.Inbox)
	pl.Attach(other)
	other.Phases().Open()
	w.Phases().Open()
	for range 3 {
		m := &Member{Wake: func() {}}
		w.Instances().Claim(m)
		w.Workers().Join(m, false)
		m.Instance = m
		w.workers, w.tallies[m] = append(w.workers, m), new(Tally)
		w.senders = append(w.senders, &Member{Wake: func() {}, own: other})
	}
	return w
}

// step makes one random transition.
func (w *walk) step(r *rand.Rand) {
	switch n := r.IntN(40); {
	case n < 10:
		w.submit()
	case n < 16:
		w.send(w.senders[r.IntN(len(w.senders))], 1+r.IntN(4), r.IntN(8) == 0)
	case n < 30:
		w.work(w.workers[r.IntN(len(w.workers))], r)
	case n < 33:
		w.pass(time.Duration(r.IntN(int(2 * time.Millisecond))))
	case n < 34:
		w.giveUp(r)
	case n < 36:
		w.Settings().Adjust(func(k *Knobs) { k.Capacity = 1 + r.IntN(8); k.Paused = r.IntN(8) == 0; k.Instances = 1 + r.IntN(4) })
	case n < 37:
		[]func(){w.Phases().Drain, w.Phases().BlockUpstream, w.Phases().BlockBackEdges, w.Phases().EndDrain, w.Phases().Close}[r.IntN(5)]()
	default:
		w.Phases().Open()
	}
}

func (w *walk) submit() {
	var fx effects
	w.mu.Lock()
	waiter, err := w.state.enter(&command.Envelope{Load: 1}, &submission{by: submitter{asked: true}}, &fx)
	w.unlock(&fx)
	if waiter != nil {
		w.waiting = append(w.waiting, waiter)
	} else if err == nil {
		w.accepted++
	}
	w.settleWaiters()
}

// settleWaiters lets the submitters go on that were signalled.
func (w *walk) settleWaiters() {
	left := w.waiting[:0]
	for _, x := range w.waiting {
		select {
		case <-x.ready:
			if x.queued {
				w.accepted++
			}
		default:
			left = append(left, x)
		}
	}
	w.waiting = left
}

// giveUp has the context of one waiter end.
func (w *walk) giveUp(r *rand.Rand) {
	if len(w.waiting) == 0 {
		return
	}
	i := r.IntN(len(w.waiting))
	x := w.waiting[i]
	w.mu.Lock()
	require.True(w.t, x.lined, "a waiter that was not signalled is in line")
	w.state.leaveLine(x)
	w.mu.Unlock()
	w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
}

// send has a worker of another stage hand over what it has.
func (w *walk) send(m *Member, n int, back bool) {
	if w.loads[m] == 0 {
		w.loads[m] = n
		m.attendance.SetReady(true)
	}
	if !m.Ready() {
		return // it is parked
	}
	taken := w.Senders().HandOver(m, make([]command.Envelope, w.loads[m]), w.now, back, true)
	w.accepted += uint64(taken)
	w.loads[m] -= taken
	require.True(w.t, w.loads[m] == 0 || w.Senders().InLine(m), "what is left waits in line")
}

// work has a worker end one command of its batch, or take its next turn.
func (w *walk) work(m *Member, r *rand.Rand) {
	todo := w.todo[m]
	switch {
	case len(todo) == 0:
		if !m.Ready() {
			return
		}
		n := w.Turn(m, w.tallies[m], true)
		require.GreaterOrEqual(w.t, n, 0, "no worker was asked to leave")
		w.todo[m] = append(todo, m.Batch[:n]...)
	case r.IntN(20) == 0:
		e := todo[0]
		e.Failed()
		retry := e.Tries() < 3
		require.True(w.t, w.Book(m, w.tallies[m], &Crashed{Culprit: &e, Rest: todo[1:], Retry: retry, Err: errors.New("crash")}))
		w.todo[m] = nil
		w.Instances().Claim(m)
		w.Workers().Join(m, true)
		m.Instance = m
	case r.IntN(5) == 0:
		e := todo[0]
		e.Failed()
		if !w.Book(m, w.tallies[m], &Retried{Command: e}) {
			w.tallies[m].Errors++
		}
		w.todo[m] = todo[1:]
	default:
		w.tallies[m].OK++
		w.todo[m] = todo[1:]
	}
}

// pass lets time go by, and fires what is due.
func (w *walk) pass(d time.Duration) {
	w.now += int64(d)
	for _, v := range w.timers {
		if v.at != 0 && v.at <= w.now {
			v.at = 0
			v.fire()
		}
	}
}

// check checks what holds between any two transitions.
func (w *walk) check() {
	w.settleWaiters()
	s, t := &w.state, w.t
	a := s.accounts(w.now)
	in, out := a.Counts.Accepted, a.Counts.Ended()
	if in != w.accepted || in != out+uint64(a.Queue.Load()) {
		t.Fatalf("the inbox took %d, booked %d as accepted and %d as ended, and has %d queued, %d in hand, %d delayed", w.accepted, in, out, a.Queue.Queued, a.Queue.InHand, a.Queue.Delayed)
	}
	reserved := 0
	for _, p := range s.slots.promises {
		reserved += p.n
	}
	if reserved != int(s.slots.reserved) || s.workers.Inspect().Waking < 0 || int(s.waiters.n) != len(w.waiting)+int(s.waiters.retries) {
		t.Fatalf("%d slots promised, %d reserved; %d waking; %d in line, %d submitters", reserved, s.slots.reserved, s.workers.Inspect().Waking, s.waiters.n, len(w.waiting))
	}
	if s.free() > 0 && s.waiters.n > 0 && len(s.senders.forSlots) == 0 && !s.knobs.Disabled {
		t.Fatalf("%d slots are free, and %d commands wait in line", s.free(), s.waiters.n)
	}
	if s.available() > 0 && len(s.workers.Inspect().Idle) > 0 && s.workers.Inspect().Waking == 0 && s.instances.Busy() < s.knobs.Instances && s.pickable() && !s.leftToOne() {
		t.Fatalf("%d commands wait, %d workers are idle, and none was woken", s.available(), len(s.workers.Inspect().Idle))
	}
}

// pickable reports whether an idle worker could do something.
func (s *state) pickable() bool {
	return slices.ContainsFunc(s.workers.Inspect().Idle, s.canWork)
}

func TestAMillionTransitionsOnOneGoroutineKeepTheInvariants(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 20_000
	}
	for name, rule := range map[string]Overflow{"wait": Wait, "reject": Reject, "drop the oldest": DropOldest, "drop the newest": DropNewest} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			w := newWalk(t, rule)
			for range steps / 4 {
				w.step(r)
				w.check()
			}
			require.Positive(t, w.state.counts.OK)
			require.Positive(t, w.state.counts.Crashes)
		})
	}
}
