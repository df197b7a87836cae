package inbox

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

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
		x.late = append(x.late, func() { fx.tokens.to.Deliver(fx.tokens.era, fx.tokens.n) })
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
				w := &Member{visit: new(visit)}
				if b, era := anyPool(t).Next(&w.visit.way); b != nil {
					x.transition(b.Inbox(), func(s *state, fx *effects) {
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
				in, sp := anyInbox(t), anyPool(t)
				b := sp.Pool.Bind(in, in.Place, &in.state.visits.empties)
				x.transition(in, func(s *state, fx *effects) {
					x.late = append(x.late, s.visits.binding.End)
					s.rebind(sp, b, fx)
				})
			},
			"mode": func(t *rapid.T) {
				sp := anyPool(t)
				sp.Pool.SetDispatch(rapid.SampledFrom(dispatchModes).Draw(t, "mode"))
				for _, in := range sp.Inboxes() {
					x.late = append(x.late, func() {
						x.transition(in, func(s *state, fx *effects) { s.voidTokens(fx); s.callWorker(fx) })
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
	all := 0
	for _, in := range x.inboxes {
		got, want := in.state.visits.binding.Tokens(), int(in.state.visits.tokens)
		if got != want {
			t.Fatalf("%s: %d tokens, not %d", in.Name(), got, want)
		}
		all += got
	}
	for _, sp := range x.pools {
		all -= tokensIn(sp)
	}
	if all != 0 {
		t.Fatalf("%d tokens of inboxes that the pool does not serve", -all)
	}
}
