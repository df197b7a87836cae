package pool

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tester is a worker that counts how often it was woken.
type tester struct {
	attendance Attendance[tester]
	woken      int
}

func (w *tester) wake() { w.woken++ }

type (
	testPool    = Pool[tester, string]
	testBinding = Binding[tester, string]
	testVisit   = Visit[tester, string]
)

// newPool returns a pool with inboxes of these names, in this order, and their bindings.
func newPool(names ...string) (p *testPool, bound []*testBinding) {
	none := func() {}
	p = New[tester, string]("pool", Events[tester]{Wake: (*tester).wake, RoundEnd: none, Visited: none})
	for i, name := range names {
		bound = append(bound, p.Bind(name, i, new(atomic.Uint64)))
	}
	return p, bound
}

// joined returns n workers that have joined a pool, and are idle.
func joined(t *testing.T, p *testPool, n int) (all []*tester) {
	t.Helper()
	for range n {
		w := new(tester)
		p.Join(w, &w.attendance)
		require.False(t, p.Arrive(&w.attendance))
		require.True(t, p.Park(&w.attendance, new(testVisit)))
		all = append(all, w)
	}
	return all
}

// taken takes all tokens of a pool, and returns their inboxes.
func taken(p *testPool) (names []string) {
	var v testVisit
	for {
		b, _ := p.Next(&v)
		if b == nil {
			return names
		}
		names = append(names, b.Inbox())
		if v.walked {
			v.Begin(b, 1)
			v.Took(1)
			p.EndVisit(&v, true, false)
		}
	}
}
