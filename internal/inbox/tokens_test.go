package inbox

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// With the pool's lock held by another goroutine, each call gets as far as its effects: the inbox is free meanwhile.
func TestAnInboxWaitsForItsPoolWithoutItsLock(t *testing.T) {
	for name, c := range map[string]struct {
		call func(in *Inbox)
		done func(s *state) bool
	}{
		"a submission": {
			call: func(in *Inbox) { _ = submitTo(t.Context(), in, 1) },
			done: func(s *state) bool { return s.queue.Len() == 2 },
		},
		"a hand-over": {
			call: func(in *Inbox) { in.Senders().HandOver(&Member{}, []command.Envelope{{Load: 1}}, 0, false, false) },
			done: func(s *state) bool { return s.queue.Len() == 2 },
		},
		"another priority": {
			call: func(in *Inbox) { in.Settings().Adjust(func(k *Knobs) { k.Priority++ }) },
			done: func(s *state) bool { return s.knobs.Priority == 1 },
		},
		"a rest": {
			call: func(in *Inbox) { in.Rest(1 << 40) },
			done: func(s *state) bool { return s.visits.resting },
		},
		"a halt": {
			call: func(in *Inbox) { in.Phases().Halt()() },
			done: func(s *state) bool { return s.halted.Load() },
		},
		"its own workers": {
			call: func(in *Inbox) { in.Settings().Bind(nil) },
			done: func(s *state) bool { return s.visits.binding == nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 1)
			in := tb.inboxes[0]
			tb.submitN(0, 1)
			tb.pool.mu.Lock()
			ended := make(chan struct{})
			go func() { defer close(ended); c.call(in) }()
			for done := false; !done; runtime.Gosched() {
				in.mu.Lock()
				done = c.done(&in.state)
				in.mu.Unlock()
			}
			tb.pool.mu.Unlock()
			<-ended
		})
	}
}

// lateTokens delivers the tokens of some transitions later than others.
type lateTokens struct {
	inboxes []*Inbox
	pools   []*SharedPool
	late    []func() // deliveries, and what else follows a transition without its lock
}

// transition runs a transition whose tokens are delivered later.
func (x *lateTokens) transition(in *Inbox, f func(s *state, fx *effects)) {
	var fx effects
	in.mu.Lock()
	f(&in.state, &fx)
	in.finish()
	if fx.tokens.to != nil {
		x.late = append(x.late, fx.tokens.deliver)
	}
}

// Whatever the order in which tokens are delivered, the pool has in the end the tokens that its inboxes have counted, and no
// others. Eras begin, and inboxes change pools, while tokens of theirs are under way.
func TestTokensMayBeDeliveredInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &lateTokens{}
		pl := newPipeline()
		for _, name := range []string{"p", "q"} {
			x.pools = append(x.pools, NewSharedPool(name, pl))
		}
		for i := range 3 {
			in := New(Config{Name: string(rune('A' + i)), Capacity: 64, Batch: 4, Instances: 3})
			in.Place = i
			pl.Attach(in)
			in.Phases().Open()
			in.Settings().Bind(x.pools[i%2])
			x.inboxes = append(x.inboxes, in)
		}
		anyInbox := func(t *rapid.T) *Inbox { return x.inboxes[rapid.IntRange(0, len(x.inboxes)-1).Draw(t, "inbox")] }
		anyPool := func(t *rapid.T) *SharedPool { return x.pools[rapid.IntRange(0, len(x.pools)-1).Draw(t, "pool")] }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				x.transition(anyInbox(t), func(s *state, fx *effects) {
					s.push(&command.Envelope{Load: 1}, place{})
					s.callWorker(fx)
				})
			},
			"take": func(t *rapid.T) {
				sp := anyPool(t)
				w := &Member{visit: new(visit)}
				if b, era := sp.next(w); b != nil {
					x.transition(b.inbox, func(s *state, fx *effects) {
						if s.claimToken(b, era) && s.queue.Len() > 0 {
							s.queue.line.Drop()
						}
						s.callWorker(fx)
					})
				}
			},
			"priority": func(t *rapid.T) {
				x.transition(anyInbox(t), func(s *state, fx *effects) {
					s.knobs.Priority++
					s.prioritise(fx)
					s.callWorker(fx)
				})
			},
			"void": func(t *rapid.T) {
				x.transition(anyInbox(t), func(s *state, fx *effects) { s.voidTokens(fx) })
			},
			"bind": func(t *rapid.T) {
				in := anyInbox(t)
				b := anyPool(t).bind(in)
				x.transition(in, func(s *state, fx *effects) {
					x.late = append(x.late, s.visits.binding.end)
					s.rebind(b, fx)
				})
			},
			"mode": func(t *rapid.T) {
				sp := anyPool(t)
				sp.mode.Store(uint32(rapid.SampledFrom(dispatchModes).Draw(t, "mode")))
				for _, b := range sp.bindings() {
					x.late = append(x.late, func() {
						x.transition(b.inbox, func(s *state, fx *effects) { s.voidTokens(fx); s.callWorker(fx) })
					})
				}
			},
			"deliver": func(t *rapid.T) { x.deliver(t) },
		})
		for len(x.late) > 0 {
			x.deliver(t)
		}
		x.check(t)
	})
}

// deliver makes one of the deliveries.
func (x *lateTokens) deliver(t *rapid.T) {
	if len(x.late) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(x.late)-1).Draw(t, "delivery")
	f := x.late[i]
	x.late = append(x.late[:i:i], x.late[i+1:]...)
	f()
}

func (x *lateTokens) check(t *rapid.T) {
	has := map[*binding]int{}
	for _, sp := range x.pools {
		for _, tk := range sp.ready {
			if tk.era != tk.of.inbox.state.visits.era {
				t.Fatalf("%s: a token of era %d, not %d", tk.of.inbox.Name(), tk.era, tk.of.inbox.state.visits.era)
			}
			if want := tk.of.priority.Load(); sp.Dispatch() == controller.SharedPriority && tk.priority != want {
				t.Fatalf("%s: a token of priority %d, not %d", tk.of.inbox.Name(), tk.priority, want)
			}
			has[tk.of]++
		}
		noted := 0
		for _, b := range sp.members {
			if note := b.note.Load(); note != 0 {
				noted++
				has[b]++
				if note != b.inbox.state.visits.era+1 {
					t.Fatalf("%s: a note of era %d, not %d", b.inbox.Name(), note-1, b.inbox.state.visits.era)
				}
			}
		}
		if got := int(sp.noted.Load()); got != noted {
			t.Fatalf("%d notes, not %d", got, noted)
		}
	}
	for _, in := range x.inboxes {
		b := in.state.visits.binding
		if got, want := has[b], int(in.state.visits.tokens); got != want {
			t.Fatalf("%s: %d tokens, not %d", in.Name(), got, want)
		}
		delete(has, b)
	}
	if len(has) > 0 {
		t.Fatalf("tokens of inboxes that the pool does not serve: %v", has)
	}
}
