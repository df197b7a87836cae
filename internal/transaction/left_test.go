package transaction

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// shared adds two processes with methods of several synchronizers: "x" runs together by rulex, "y" by ruley, S2 constrains
// "shut" and "open" of p0, and p1 has "free" without rules.
func shared(w *world, rounds int) (x, y *couple) {
	p0 := w.add(&node{name: "p0", script: calls(4*rounds, "shut", "open")})
	p1 := w.add(&node{name: "p1", script: calls(rounds, "free")})
	of := [2]*node{p0, p1}
	x, y = &couple{name: "x", method: "x", of: of, rounds: rounds}, &couple{name: "y", method: "y", of: of, rounds: rounds}
	w.join([]*couple{x, y})
	synchronizer(w, "S2", func(s *Synchronizer) {
		free([]string{"p0"}, "shut", nil)(s)
		free([]string{"p0"}, "open", nil)(s)
	})
	return x, y
}

// The synchronizer of x dies for good: between Granted and Do its lock is left at one process or at both.
func TestALockThatIsLeftHoldsMethodsOfItsSynchronizerOnly(t *testing.T) {
	t.Parallel()
	row(t, 3000, 100, func(w *world, literal bool) string {
		x, y := shared(w, 6)
		dies := w.nodes["rulex"]
		dies.stays, dies.plan = true, 3+w.rnd.IntN(40)
		w.correct(func(t *text) { t.leavesAllHeld = literal })
		w.begin()
		if wrong := w.finished(); wrong != "" {
			return wrong
		}
		if y.rounds > 0 {
			return fmt.Sprint("y is stuck: ran ", y.ran)
		}
		if x.rounds > 0 && !dies.up {
			w.nodes["rulex"].stays = false // its successor learns what has become of the lock
		}
		return together(w, []*couple{x, y})
	})
}

// The synchronizer of x dies again and again, and is started again. Meanwhile "shut" may change what the guard of x depends on.
func TestARequestWhoseLockWasLeftRunsWhenItsGuardHolds(t *testing.T) {
	t.Parallel()
	row(t, 3000, 50, func(w *world, literal bool) (wrong string) {
		x, y := shared(w, 6)
		p0, shut := w.nodes["p0"], false
		p0.local = func(_ *node, q *requests.Queue) {
			q.Guard("x", func(func(string) guard.Counters) bool { return !shut })
		}
		start := p0.start
		p0.start = func(n *node, r *requests.Request) {
			switch r.Method {
			case "shut":
				shut = true
			case "open":
				shut = false
			case "x":
				if shut {
					wrong = "x ran though its guard did not hold"
				}
			}
			start(n, r)
		}
		dies, lives := w.nodes["rulex"], 8
		dies.plan = 3 + w.rnd.IntN(40)
		dies.died = func(n *node) {
			if lives--; lives > 0 {
				n.crashAfter = 3 + w.rnd.IntN(20)
			}
		}
		w.correct(func(t *text) { t.trustsGuards = literal })
		w.begin()
		if stuck := together(w, []*couple{x, y}); wrong == "" {
			wrong = stuck
		}
		return wrong
	})
}

// trouble begins with nodes that will crash, or with notices that are wrong. Both in one run may break a rule: see docs/decisions/coordination.md.
func (w *world) trouble() {
	if w.rnd.IntN(2) == 0 {
		w.begin()
		w.mistake(1 + w.rnd.IntN(6))
		return
	}
	for _, name := range w.names {
		if w.rnd.IntN(3) == 0 {
			w.nodes[name].plan = 1 + w.rnd.IntN(40)
		}
	}
	w.begin()
	w.mistake(0)
}

// All of them may die, or notices may be wrong.
func TestALockThatIsLeftSurvivesWhateverCrashes(t *testing.T) {
	t.Parallel()
	n, _ := count(t, seeds(3000), 0, func(w *world) string {
		x, y := shared(w, 5)
		w.trouble()
		if wrong := together(w, []*couple{x, y}); wrong != "" {
			return wrong
		}
		return w.finished()
	})
	assert.Zero(t, n)
}

// Whenever no message is on its way the counters of a synchronizer are those of the processes, also while requests run. A trigger finds its
// request in them.
func TestASynchronizerCountsWhatItsAtomicRulesHaveAccepted(t *testing.T) {
	t.Parallel()
	n, _ := count(t, seeds(3000), 0, func(w *world) (wrong string) {
		x, y := shared(w, 5)
		for _, name := range []string{"rulex", "ruley"} {
			rules := w.nodes[name].rules
			w.nodes[name].rules = func(s *Synchronizer) {
				rules(s)
				s.WhenAccepted("p0", name[4:], func(guard.Request) {
					if c := s.Count("p0", name[4:]); c.Accepted == 0 || c.Current == 0 {
						wrong = fmt.Sprintf("a trigger of %s finds %+v", name, c)
					}
				})
			}
		}
		w.trouble()
		trouble := w.after
		w.after = func() {
			if trouble(); wrong == "" && w.quiet() {
				wrong = w.miscounted()
			}
		}
		if stuck := together(w, []*couple{x, y}); wrong == "" {
			wrong = stuck
		}
		return wrong
	})
	assert.Zero(t, n)
}

// leaving is a process with a request of x, for which S1 had the lock when it died. S3 has a rule for x, too, and one for y.
type leaving struct {
	*Process
	x *requests.Request
}

func newLeaving(guards ...guard.Guard) leaving {
	q := requests.New()
	for _, g := range guards {
		q.Guard("x", g)
	}
	p := leaving{Process: NewProcess("P", 1, q)}
	p.rules("S1", 1, "x")
	p.rules("S3", 1, "x", "y")
	p.x = p.arrive("x")
	p.receive(Message{Kind: Lock, From: "S1", Epoch: 1, Number: p.x.Number(), Rule: "S1/0", Grant: ID{1, "S1", 1}})
	p.Down("S1", 1)
	return p
}

// arrive has a request arrive that is not to run yet.
func (p *leaving) arrive(method string) *requests.Request {
	r := &requests.Request{Request: guard.Request{Process: "P", Method: method}}
	p.Arrive(r)
	return r
}

// receive receives a message and returns the kinds of the answers. Nothing is to run.
func (p *leaving) receive(m Message) (answers []Kind) {
	if m.ID.Incarnation = 1; m.Epoch == 0 {
		m.Epoch = 1
	}
	p.Outbox()
	p.Receive(m)
	if p.Next() != nil {
		panic("a request runs")
	}
	for _, m := range p.Outbox() {
		answers = append(answers, m.Kind)
	}
	return answers
}

func (p *leaving) rules(from string, epoch uint64, methods ...string) {
	parts := map[string]Part{}
	for _, m := range methods {
		parts[m] = Part{Offered: true}
	}
	p.receive(Message{Kind: Install, From: from, Epoch: epoch, Methods: parts})
}

// lock has S3 ask for the lock.
func (p *leaving) lock(r *requests.Request) []Kind {
	return p.receive(Message{Kind: Lock, From: "S3", Number: r.Number(), Rule: "S3/" + r.Method, Grant: ID{1, "S3", 1}})
}

// resolve has the successor of S1 say what has become of the lock.
func (p *leaving) resolve(kind Kind) {
	p.Receive(Message{Kind: kind, From: "S1", Epoch: 2, ID: ID{Incarnation: 1}, Grant: ID{1, "S1", 1}})
}

func TestARequestWhoseLockWasLeftIsNoOtherRules(t *testing.T) {
	p := newLeaving()
	assert.Equal(t, []Kind{Refused}, p.lock(p.x))
	p.rules("S1", 2, "z") // a successor with other rules
	assert.Equal(t, []Kind{Refused}, p.lock(p.x))
	p.resolve(Do)
	assert.Same(t, p.x, p.Next())
	assert.Nil(t, p.Next())
}

func TestARuleHearsWhenALockThatWasLeftIsGivenBack(t *testing.T) {
	p := newLeaving()
	assert.Equal(t, []Kind{Refused}, p.lock(p.x), "and it is not ready before S1 has said so")
	p.rules("S1", 2, "x")
	p.resolve(Unlock)
	assert.Nil(t, p.Next())
	var kinds []Kind
	for _, m := range p.Outbox() {
		kinds = append(kinds, m.Kind)
	}
	assert.Equal(t, []Kind{Ready}, kinds)
	assert.Equal(t, []Kind{Granted}, p.lock(p.x))
}

func TestALockThatWasLeftHoldsRequestsThatNoRuleIsAbout(t *testing.T) {
	p := newLeaving()
	p.rules("S1", 2, "x")
	other := p.arrive("x")
	p.receive(Message{Kind: NotMine, From: "S1", Epoch: 2, Number: other.Number()})
	assert.Empty(t, p.receive(Message{Kind: NotMine, From: "S3", Number: other.Number()}), "it could change what x depends on")
	p.resolve(Do)
	assert.Same(t, p.x, p.Next())
	assert.Same(t, other, p.Next())
}

func TestARequestThatIsDueWaitsForTheLockOfAnotherRule(t *testing.T) {
	p := newLeaving()
	y := p.arrive("y")
	assert.Equal(t, []Kind{Granted}, p.lock(y))
	p.rules("S1", 2, "x")
	p.resolve(Do)
	assert.Nil(t, p.Next(), "it could change what y depends on")
	p.Receive(Message{Kind: Do, From: "S3", Epoch: 1, ID: ID{Incarnation: 1}, Grant: ID{1, "S3", 1}})
	assert.Same(t, p.x, p.Next())
	assert.Same(t, y, p.Next())
	assert.Nil(t, p.Next())
}

func TestARequestThatIsDueIsNotWithdrawn(t *testing.T) {
	open := true
	p := newLeaving(func(func(string) guard.Counters) bool { return open })
	open = false
	p.rules("S1", 2, "x")
	p.resolve(Do)
	assert.Nil(t, p.Next())
	assert.False(t, p.Withdraw(p.x), "others of its rule run")
	open = true
	assert.Same(t, p.x, p.Next())
	assert.Nil(t, p.Next())
}

// A guard may depend on the time, so it may hold whenever it is looked at.
func TestARequestThatIsDueRunsOnce(t *testing.T) {
	holds := func() bool { return true }
	p := newLeaving(func(func(string) guard.Counters) bool { return holds() })
	holds = func() bool { return false }
	p.rules("S1", 2, "x")
	p.resolve(Do)
	p.rules("S1", 3)
	p.rules("S3", 2) // no rule has x any more
	looks := 0
	holds = func() bool {
		looks++
		return looks > 1
	}
	assert.Nil(t, p.Next())
	assert.Same(t, p.x, p.Next())
	assert.Empty(t, p.due)
}

func TestALockThatWasLeftEndsWithTheRulesOfItsSynchronizer(t *testing.T) {
	for name, withdrawn := range map[string]bool{"and its request waits on": false, "and its request was withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			p := newLeaving()
			if withdrawn {
				assert.False(t, p.Withdraw(p.x))
			}
			p.rules("S1", 2)
			if withdrawn {
				assert.Zero(t, p.queue.Pending())
				return
			}
			assert.Equal(t, []Kind{Granted}, p.lock(p.x))
		})
	}
}
