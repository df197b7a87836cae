package transaction

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// arrow delivers the first message from one node to another, and returns its kind, or 0 if there is none.
func (w *world) arrow(from, to string) Kind {
	l := w.line(w.nodes[from], w.nodes[to])
	if len(l.queue) == 0 {
		return 0
	}
	m := l.queue[0]
	w.deliver(l)
	return m.Kind
}

// arrive has a request arrive at a process.
func (w *world) arrive(process, method string) *requests.Request {
	r := &requests.Request{Request: guard.Request{Process: process, Method: method}}
	w.nodes[process].process.Arrive(r)
	w.serve(w.nodes[process])
	return r
}

func (w *world) count(process, method string) guard.Counters {
	return w.nodes[process].process.queue.Count(method)
}

// plain adds processes without a client, whose functions end when the test says.
func plain(w *world, names ...string) {
	for _, name := range names {
		w.add(&node{name: name})
	}
}

// Figure 19, and §5.2.2 of the text.
func TestS002_08_Verdicts(t *testing.T) {
	figure19 := func() *world {
		w := newWorld(0)
		plain(w, "A", "B")
		synchronizer(w, "S", oneOn([]string{"A", "B"}, false))
		w.begin()
		return w
	}
	t.Run("the younger one is aborted", func(t *testing.T) {
		w := figure19()
		w.arrive("A", "on")
		w.arrive("B", "on")
		require.Equal(t, Verify, w.arrow("A", "S"))
		id := w.nodes["B"].process.tx.id
		require.Equal(t, ID{0, "B", 1}, id)
		require.Equal(t, Verify, w.arrow("B", "S"))
		require.Equal(t, Aborted, w.arrow("S", "B"))
		require.Equal(t, OK, w.arrow("S", "A"))
		require.Equal(t, Commit, w.arrow("A", "S"))
		require.Equal(t, Retry, w.arrow("S", "B"))
		require.Equal(t, Verify, w.arrow("B", "S"))
		require.Equal(t, Failed, w.arrow("S", "B"))
		require.Zero(t, w.arrow("B", "S"), "it waits for a notification")
		w.finish(w.nodes["A"], 0)
		w.arrive("A", "off")
		w.finish(w.nodes["A"], 0)
		require.Equal(t, Completed, w.arrow("A", "S"))
		require.Equal(t, Completed, w.arrow("A", "S"))
		require.Equal(t, Notify, w.arrow("S", "B"))
		require.Equal(t, id, w.nodes["B"].process.tx.id, "the identifier is that of the first attempt")
		require.Equal(t, Verify, w.arrow("B", "S"))
		require.Equal(t, OK, w.arrow("S", "B"))
		require.Equal(t, 1, w.count("B", "on").Accepted)
	})
	t.Run("the older one waits", func(t *testing.T) {
		w := figure19()
		w.arrive("A", "on")
		w.arrive("B", "on")
		require.Equal(t, Verify, w.arrow("B", "S"))
		require.Equal(t, Verify, w.arrow("A", "S"))
		require.Zero(t, w.arrow("S", "A"), "no answer until B's commit")
		require.Equal(t, OK, w.arrow("S", "B"))
		require.Equal(t, Commit, w.arrow("B", "S"))
		require.Equal(t, Failed, w.arrow("S", "A"))
		w.finish(w.nodes["B"], 0)
		w.arrive("B", "off")
		w.finish(w.nodes["B"], 0)
		w.arrow("B", "S")
		w.arrow("B", "S")
		require.Equal(t, Notify, w.arrow("S", "A"))
		require.Equal(t, Verify, w.arrow("A", "S"))
		require.Equal(t, OK, w.arrow("S", "A"))
		require.Equal(t, 1, w.count("A", "on").Accepted)
	})
	t.Run("one agrees and one does not", func(t *testing.T) {
		w := newWorld(0)
		plain(w, "A", "B")
		triggers, open := 0, false
		s1 := synchronizer(w, "S1", func(s *Synchronizer) {
			s.WhenAccepted("A", "m", func(guard.Request) { triggers++ }) // a trigger only: always agreed to
		})
		synchronizer(w, "S2", func(s *Synchronizer) {
			s.Constrain("A", "m", func(guard.Request) bool { return open })
			s.WhenCompleted("B", "open", func(guard.Request) { open = true })
		})
		w.begin()
		w.arrive("A", "m")
		require.Equal(t, Verify, w.arrow("A", "S1"))
		require.Equal(t, OK, w.arrow("S1", "A"))
		require.Equal(t, Verify, w.arrow("A", "S2"))
		require.Equal(t, Failed, w.arrow("S2", "A"))
		require.Equal(t, Release, w.arrow("A", "S1"))
		assert.Zero(t, triggers)
		assert.Nil(t, s1.synchronizer.lock)
		assert.Equal(t, guard.Counters{Invocations: 1, Pending: 1}, w.count("A", "m"))
		w.arrive("A", "other")
		require.Zero(t, w.arrow("A", "S1"), "it is not verified again before S2 has notified")
		require.Zero(t, w.arrow("A", "S2"))
		w.arrive("B", "open")
		w.finish(w.nodes["B"], 0)
		require.Equal(t, Completed, w.arrow("B", "S2"))
		require.Equal(t, Notify, w.arrow("S2", "A"))
		require.Equal(t, Verify, w.arrow("A", "S1"))
		require.Equal(t, OK, w.arrow("S1", "A"))
		require.Equal(t, Verify, w.arrow("A", "S2"))
		require.Equal(t, OK, w.arrow("S2", "A"))
		require.Equal(t, Commit, w.arrow("A", "S1"))
		require.Equal(t, Commit, w.arrow("A", "S2"))
		assert.Equal(t, 1, triggers)
	})
}

// order fixes in which order each process asks.
func order(w *world, of map[string][]string) {
	w.correct(func(x *text) {
		x.order = func(process string, ask []string) {
			if fixed := of[process]; len(fixed) == len(ask) {
				copy(ask, fixed)
			}
		}
	})
}

// §5.2.2 of the text.
func TestS002_10_DeadlockAvoidance(t *testing.T) {
	t.Run("two processes", func(t *testing.T) {
		w := newWorld(0)
		plain(w, "A", "B")
		var log []string
		for _, s := range []string{"S1", "S2"} {
			synchronizer(w, s, free([]string{"A", "B"}, "m", &log))
		}
		order(w, map[string][]string{"A": {"S1", "S2"}, "B": {"S2", "S1"}})
		w.begin()
		w.arrive("A", "m")
		w.arrive("B", "m")
		w.arrow("A", "S1")
		w.arrow("B", "S2")
		require.Equal(t, OK, w.arrow("S1", "A"))
		require.Equal(t, OK, w.arrow("S2", "B"))
		w.arrow("A", "S2")
		require.Zero(t, w.arrow("S2", "A"), "A waits")
		w.arrow("B", "S1")
		require.Equal(t, Aborted, w.arrow("S1", "B"))
		require.Equal(t, Release, w.arrow("B", "S2"))
		require.Equal(t, OK, w.arrow("S2", "A"))
		require.Empty(t, w.finished())
		require.True(t, w.run(limit))
		assert.Equal(t, 1, w.count("A", "m").Accepted)
		assert.Equal(t, 1, w.count("B", "m").Accepted)
		assert.Equal(t, 1, w.sent[Aborted])
		assert.Equal(t, "A", log[0], "A commits first")
	})
	// The least schedule in which the text's queue lets two transactions wait for each other.
	three := func(literal bool) *world {
		w := newWorld(0)
		plain(w, "P0", "P1", "P2")
		synchronizer(w, "S1", free([]string{"P0", "P1", "P2"}, "m", nil))
		synchronizer(w, "S2", free([]string{"P0", "P1"}, "m", nil))
		order(w, map[string][]string{"P0": {"S1", "S2"}, "P1": {"S2", "S1"}})
		w.correct(func(x *text) { x.firstComeFirstServed = literal })
		w.begin()
		for _, p := range []string{"P0", "P1", "P2"} {
			w.arrive(p, "m")
		}
		w.invariant(literal)
		for _, a := range [][2]string{
			{"P1", "S2"}, {"P2", "S1"}, {"P0", "S1"}, {"S2", "P1"}, {"P1", "S1"}, {"S1", "P2"}, {"P2", "S1"},
		} {
			require.NotZero(t, w.arrow(a[0], a[1]))
			if w.after != nil {
				w.after()
			}
		}
		require.True(t, w.run(limit))
		return w
	}
	t.Run("three processes", func(t *testing.T) {
		w := three(false)
		for _, p := range []string{"P0", "P1", "P2"} {
			assert.Equal(t, 1, w.count(p, "m").Accepted, p)
		}
	})
	t.Run("three processes, as in the text", func(t *testing.T) {
		w := three(true)
		assert.Zero(t, w.count("P0", "m").Accepted)
		assert.Zero(t, w.count("P1", "m").Accepted)
		assert.Equal(t, 1, w.count("P2", "m").Accepted)
	})
}

// A function that is suspended in a call of another process must not close the queue.
func TestX6_NoReentrancyDeadlock(t *testing.T) {
	for name, literal := range map[string]bool{"corrected": false, "as in the text": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0)
			plain(w, "A", "B")
			w.correct(func(x *text) { x.closesQueue = literal })
			w.begin()
			w.arrive("A", "m1") // calls m2 of B
			w.arrive("B", "m2") // calls m3 of A
			w.arrive("A", "m3")
			assert.Equal(t, literal, w.count("A", "m3").Pending == 1)
		})
	}
}

// A restarted process has the same address and counts from 0 again.
func TestAnIdentifierIsUsedOnceThoughAProcessRestarts(t *testing.T) {
	w := newWorld(0)
	plain(w, "P")
	synchronizer(w, "S", free([]string{"P"}, "m", nil))
	w.begin()
	p := w.nodes["P"].process
	w.arrive("P", "m")
	first := p.tx.id
	w.up(w.nodes["P"])
	p = w.nodes["P"].process
	w.arrive("P", "m")
	require.NotNil(t, p.tx)
	assert.Equal(t, first.Counter, p.tx.id.Counter)
	assert.NotEqual(t, first, p.tx.id)
}

func TestAWithdrawnRequestHoldsUpNothing(t *testing.T) {
	for name, withdraw := range map[string]func(w *world){
		"before the verdict": func(*world) {},
		"when all have agreed": func(w *world) {
			w.arrow("P", "S1")
		},
		"when it was refused": func(w *world) {
			w.arrow("P", "S1")
			w.arrow("S1", "P")
			w.arrow("P", "S2")
			w.arrow("S2", "P")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0)
			plain(w, "P", "Q")
			s1 := synchronizer(w, "S1", free([]string{"P", "Q"}, "m", nil))
			s2 := synchronizer(w, "S2", func(s *Synchronizer) { s.Constrain("P", "m", func(guard.Request) bool { return false }) })
			w.begin()
			r := w.arrive("P", "m")
			withdraw(w)
			p := w.nodes["P"]
			require.True(t, p.process.Withdraw(r))
			require.False(t, p.process.Withdraw(r))
			w.serve(p)
			w.arrive("Q", "m")
			require.True(t, w.run(limit))
			assert.Equal(t, guard.Counters{}, w.count("P", "m"))
			assert.Equal(t, 1, w.count("Q", "m").Accepted)
			for _, s := range []*Synchronizer{s1.synchronizer, s2.synchronizer} {
				assert.Nil(t, s.lock)
				assert.Empty(t, slices.Concat(s.waiting, s.aborted, s.refused))
			}
		})
	}
}
