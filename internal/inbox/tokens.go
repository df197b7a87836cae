package inbox

import (
	"math"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// token is an inbox's place in the shared queue.
type token struct {
	inbox    *Inbox
	era      uint64
	priority int
	seq      uint64
}

// tokens is the shared queue: by priority, then first in, first out. It is not
// a container/heap, which allocates an interface value for each token.
type tokens []token

// before reports whether the token at i comes before the one at j.
func (q *tokens) before(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return a.priority > b.priority || a.priority == b.priority && a.seq < b.seq
}

func (q *tokens) push(t token) {
	*q = append(*q, t)
	all := *q
	for i := len(all) - 1; i > 0; {
		parent := (i - 1) / 2
		if !all.before(i, parent) {
			return
		}
		all[i], all[parent] = all[parent], all[i]
		i = parent
	}
}

func (q *tokens) pop() token {
	all := *q
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], token{}
	*q = all[:last]
	q.sink(0)
	return first
}

func (q *tokens) sink(i int) {
	all := *q
	for {
		child := 2*i + 1
		if child >= len(all) {
			return
		}
		if child+1 < len(all) && q.before(child+1, child) {
			child++
		}
		if !q.before(child, i) {
			return
		}
		all[i], all[child] = all[child], all[i]
		i = child
	}
}

// drop removes all tokens of an inbox.
func (q *tokens) drop(in *Inbox) {
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.inbox == in })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// add takes an inbox's token, and calls a worker for it. The inbox's lock is
// held.
func (sp *SharedPool) add(s *state, how controller.Dispatch, fx *effects) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	switch how {
	case controller.Polled:
		if !s.visits.noted {
			s.visits.noted = true
			sp.noted.Add(1)
		}
	case controller.SharedPriority:
		sp.seq++
		sp.ready.push(token{s.self, s.visits.era, s.knobs.Priority, sp.seq})
	default:
		sp.seq++
		sp.ready.push(token{s.self, s.visits.era, 0, sp.seq})
	}
	fx.wakeWorker(sp.callIdle())
}

// addTokens gives the shared pool a token for each worker that would find work
// here now. It is called whenever there may be more work.
func (s *state) addTokens(fx *effects) {
	if !s.servable() {
		return
	}
	// The mode is read once: it may change at any time, and then all tokens are
	// taken back.
	how := s.visits.pool.Dispatch()
	want := int32(1)
	if how != controller.Polled {
		free := s.knobs.Instances - s.instances.busy
		want = int32(min(s.available(), free, math.MaxInt32))
	}
	for s.visits.tokens.Load() < want {
		s.visits.tokens.Add(1)
		s.visits.pool.add(s, how, fx)
	}
}

// servable reports whether a worker of the shared pool would find something to
// do here.
func (s *state) servable() bool {
	return s.available() > 0 && !s.visits.stalled && !s.visits.resting && !s.halted.Load() &&
		s.instances.busy < s.knobs.Instances && s.equippable() && !s.lingering()
}

// voidTokens takes the inbox's tokens back: the tokens in the shared pool, and
// the tokens of workers on their way.
func (s *state) voidTokens() {
	s.visits.era++
	s.visits.tokens.Store(0)
	if s.visits.pool == nil {
		return
	}
	s.removeNote()
	s.visits.pool.dropTokens(s.self)
}

// removeNote takes back the token of a polled pool, which only says that there
// is work.
func (s *state) removeNote() {
	if s.visits.noted {
		s.visits.noted = false
		s.visits.pool.noted.Add(-1)
	}
}

// dropTokens drops an inbox's tokens.
func (sp *SharedPool) dropTokens(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.ready.drop(in)
}

// pending reports whether an inbox has given a token.
func (sp *SharedPool) pending() bool { return len(sp.ready) > 0 || sp.noted.Load() > 0 }

// callIdle picks an idle worker to be woken, nil if there is none.
func (sp *SharedPool) callIdle() *Member {
	return sp.pickIdle(func(*Member) bool { return true })
}
