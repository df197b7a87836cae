package inbox

import (
	"math"
	"slices"

	"github.com/golda-dev/golda/internal/pool"
)

// SharedPool is a pool of workers that several inboxes share; see package
// [pool]. Its methods that are not here are those of the pool.
//
// A worker of a shared pool never waits for a free slot: the inbox takes its
// commands, beyond the capacity if need be, since the worker that could free
// slots there may be this one. Instead no shared pool takes from an inbox while
// an inbox ahead of it is full. The last full inbox of a path has none ahead
// that is full, so there is always an inbox to take from.
//
// A shared pool's lock and an inbox's are never held together: tokens are an
// effect of a transition of the inbox; see [tokensGiven].
type SharedPool struct {
	*pool.Pool[Member, *Inbox]
}

// binding binds an inbox to a shared pool.
type binding = pool.Binding[Member, *Inbox]

// PoolAccounts is a copy of a shared pool's accounts.
type PoolAccounts = pool.Accounts

// NewSharedPool returns a shared pool without workers and inboxes.
func NewSharedPool(name string, pl *Pipeline) *SharedPool {
	sp := &SharedPool{}
	sp.Pool = pool.New[Member, *Inbox](name, pool.Events[Member]{
		Wake: func(m *Member) { m.Wake() },
		RoundEnd: func() {
			if pl.RoundEnd != nil {
				pl.RoundEnd(sp)
			}
		},
		Visited: func() {
			if pl.Visited != nil {
				pl.Visited(sp)
			}
		},
	})
	return sp
}

// Len returns how many commands are queued in all its inboxes.
func (sp *SharedPool) Len() (n int) {
	for _, in := range sp.Inboxes() {
		n += in.Len()
	}
	return n
}

// Pool returns the pool that visits the inbox, nil if it has workers of its
// own.
func (st Settings) Pool() *SharedPool {
	return ask(st.in, func(s *state) *SharedPool { return s.visits.pool })
}

// tokensGiven are the tokens that an inbox has given its shared pool in one
// transition. The inbox counts them at once, and [Inbox.unlock] delivers them
// when the lock of the inbox is free. Meanwhile another transition may have
// begun a new era, or bound the inbox to another pool: then these tokens are
// void, and the pool drops them, whichever are delivered first.
//
// With n 0, all tokens of older eras are void.
type tokensGiven struct {
	to  *binding // nil: none
	era uint32
	n   int32
}

// addTokens gives the shared pool a token for each worker that would find work
// here now. It is called whenever there may be more work.
func (s *state) addTokens(fx *effects) {
	if !s.servable() {
		return
	}
	want := int32(1)
	if !s.visits.pool.Polled() {
		free := s.knobs.Instances - s.instances.Busy()
		want = int32(min(s.available(), free, math.MaxInt32))
	}
	if n := want - s.visits.tokens; n > 0 {
		s.visits.tokens = want
		fx.giveTokens(s.visits.binding, s.visits.era, n)
	}
}

// servable reports whether a worker of the shared pool would find something to
// do here.
func (s *state) servable() bool {
	return s.available() > 0 && !s.visits.stalled && !s.visits.resting && !s.halted.Load() &&
		s.instances.Busy() < s.knobs.Instances && s.instances.Available(s.knobs.Instances) && !s.lingering()
}

// voidTokens takes the inbox's tokens back: the tokens in the shared pool, the
// tokens that will be delivered there, and the tokens of workers on their way.
func (s *state) voidTokens(fx *effects) {
	s.visits.era++
	s.visits.tokens = 0
	fx.tokens = tokensGiven{to: s.visits.binding, era: s.visits.era}
}

// prioritise gives the shared pool tokens with the present priority for old
// ones.
func (s *state) prioritise(fx *effects) {
	if s.visits.binding != nil {
		s.visits.binding.SetPriority(s.knobs.Priority)
	}
	s.voidTokens(fx)
}

// A shared worker never waits for a free slot, so its pool does not take from
// an inbox while an inbox ahead is full: the inbox is *stalled*. The full one
// keeps a list of the inboxes that it stalls, and unstalls them when half of it
// is free.

// Ahead notes that an edge leads to another inbox. Back edges are not noted: no
// worker waits along them.
func (st Settings) Ahead(to *Inbox) {
	for {
		old := st.in.state.ahead.Load()
		var known []*Inbox
		if old != nil {
			known = *old
		}
		if to == st.in || slices.Contains(known, to) {
			return
		}
		grown := append(slices.Clip(known), to)
		if st.in.state.ahead.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// NotAhead notes that no edge leads to another inbox any more. No lock is held.
func (st Settings) NotAhead(to *Inbox) {
	for {
		old := st.in.state.ahead.Load()
		if old == nil || !slices.Contains(*old, to) {
			return
		}
		rest := slices.DeleteFunc(slices.Clone(*old), func(o *Inbox) bool { return o == to })
		if st.in.state.ahead.CompareAndSwap(old, &rest) {
			st.in.unstall() // it may have been the other that had it wait; if not, the next visit stalls it again
			return
		}
	}
}

// Forks reports whether edges lead to several inboxes ahead, as far as is
// known.
func (st Settings) Forks() bool {
	ahead := st.in.state.ahead.Load()
	return ahead != nil && len(*ahead) > 1
}

// aheadFull reports whether an inbox ahead is full, or takes nothing from this
// one, so that no shared pool may take from this one. If so, the inbox ahead
// will unstall it. No lock is held.
func (in *Inbox) aheadFull() bool {
	ahead := in.state.ahead.Load()
	if ahead == nil {
		return false
	}
	for _, other := range *ahead {
		if !other.isFullFor(in) || !in.stallBehind(other) {
			continue
		}
		if slices.Contains(*in.state.ahead.Load(), other) {
			return true
		}
		in.unstall() // no edge leads there any more, and NotAhead may have come too early to do this
	}
	return false
}

// isFullFor reports whether an inbox behind must wait. One that has waited has
// a pass for one visit, for submitters may have filled the inbox again
// meanwhile.
func (in *Inbox) isFullFor(behind *Inbox) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.bars(behind, false) && !in.state.halted.Load() {
		return true
	}
	return in.state.isOverFor(behind) || in.state.isFull() && !in.state.usePass(behind)
}

// stallBehind stalls the inbox until another, ahead, has free slots. It returns
// false if that has some already.
func (in *Inbox) stallBehind(other *Inbox) bool {
	in.mu.Lock()
	in.state.visits.stalled = true // before the other is asked, so that it cannot unstall this one too early
	in.mu.Unlock()
	other.mu.Lock()
	waits := other.state.isFull() || other.state.isOverFor(in) || other.state.bars(in, false) && !other.state.halted.Load()
	if waits && !slices.Contains(other.state.visits.behind, in) {
		other.state.visits.behind = append(other.state.visits.behind, in)
	}
	other.mu.Unlock()
	if !waits {
		in.unstall()
	}
	return waits
}

// unstall lets the shared pool take from the inbox again.
func (in *Inbox) unstall() {
	var fx effects
	in.mu.Lock()
	in.state.visits.stalled = false
	in.state.callWorker(&fx)
	in.unlock(&fx)
}
