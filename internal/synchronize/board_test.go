package synchronize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/rules"
	"github.com/golda-dev/golda/internal/synchronize"
)

// member is a stage of one method, m.
type member struct {
	*synchronize.Member

	name     string
	counters guard.Counters
}

func (m *member) Name() string { return m.name }

// members returns the members a to d of a board.
func members(t *testing.T, init func(s *synchronizer.Synchronizer, on map[string]synchronizer.Event)) map[string]*member {
	t.Helper()
	all, on := map[string]*member{}, map[string]synchronizer.Event{}
	for _, name := range []string{"a", "b", "c", "d"} {
		all[name] = &member{name: name}
		on[name] = synchronizer.Event{Of: all[name], Method: "m"}
	}
	r, err := synchronizer.Rules("S", func(s *synchronizer.Synchronizer) { init(s, on) })
	require.NoError(t, err)
	b := synchronize.New([]*rules.Rules{r})
	for name, m := range all {
		m.Member = b.Member(name)
	}
	return all
}

func (m *member) request() guard.Request { return guard.Request{Process: m.name, Method: "m"} }

// look reports whether the method is open.
func (m *member) look() bool {
	m.Look()
	open := m.Closed("m") == ""
	m.Looked(func(string) bool { return true })
	return open
}

func (m *member) accept(t *testing.T) {
	t.Helper()
	m.counters.Accepted++
	m.counters.Current++
	assert.NoError(t, m.Accepted(m.request(), m.counters))
}

func (m *member) complete(t *testing.T) {
	t.Helper()
	m.counters.Completed++
	m.counters.Current--
	assert.NoError(t, m.Completed(m.request(), m.counters))
}

// pokes returns the names of the members that are poked.
func (m *member) poked(all map[string]*member) (names []string) {
	for _, p := range m.Pokes() {
		for _, o := range all {
			if o.Member == p {
				names = append(names, o.name)
			}
		}
	}
	return names
}

func TestTheTurnPassesOnUntilAWorkerIsOnItsWay(t *testing.T) {
	all := members(t, func(s *synchronizer.Synchronizer, on map[string]synchronizer.Event) {
		s.AtMost(1, on["a"], on["b"], on["c"], on["d"])
	})
	a, b, c, d := all["a"], all["b"], all["c"], all["d"]
	require.True(t, a.look())
	a.accept(t)
	require.False(t, b.look())
	require.False(t, d.look())
	require.Empty(t, a.poked(all))
	a.complete(t)
	require.Equal(t, []string{"b"}, a.poked(all), "the first that was refused has the turn")
	require.False(t, c.look(), "c was not refused, but it is b's turn")
	require.False(t, a.look())
	b.Settle(func() bool { return false })
	require.True(t, b.HasTurn(), "it is yet to be poked")
	b.Poked()
	require.True(t, b.look())
	b.Settle(func() bool { return true })
	require.True(t, b.HasTurn(), "its worker is on its way")
	b.Settle(func() bool { return false })
	require.False(t, b.HasTurn())
	require.Equal(t, []string{"d"}, b.poked(all))
	d.Poked()
	d.Settle(func() bool { return false })
	require.Equal(t, []string{"c"}, d.poked(all), "c was refused only because of the turn")
	c.Poked()
	require.True(t, c.look())
	c.accept(t)
	require.Empty(t, c.poked(all), "none of the others may go")
	require.False(t, a.look())
	c.complete(t)
	require.Equal(t, []string{"b"}, c.poked(all), "it could not use its turn, and has kept its place")
	b.Poked()
	b.Settle(func() bool { return false })
	require.Equal(t, []string{"d"}, b.poked(all))
}

func TestAStageThatIsRemovedLeavesTheTurnAndItsRules(t *testing.T) {
	var gone []string
	all := members(t, func(s *synchronizer.Synchronizer, on map[string]synchronizer.Event) {
		s.AtMost(1, on["a"], on["b"])
		s.Atomic(on["c"], on["d"])
		s.OnTerminated(func(of synchronizer.Member) { gone = append(gone, of.Name()) })
	})
	a, b, c := all["a"], all["b"], all["c"]
	a.accept(t)
	require.False(t, b.look())
	a.complete(t)
	require.True(t, b.HasTurn())
	require.False(t, a.look())
	var poked []string
	for name, m := range all {
		m.Poke = func() { poked = append(poked, name) }
	}
	require.NoError(t, b.Terminate())
	require.False(t, b.HasTurn())
	require.Equal(t, []string{"a"}, poked)
	require.NoError(t, b.Terminate(), "again")
	a.Poked()
	require.True(t, a.look())
	require.False(t, c.look(), "it needs d")
	require.NoError(t, all["d"].Terminate())
	require.True(t, c.look())
	require.Equal(t, []string{"b", "d"}, gone)
}

func TestAnAtomicRuleHappensWithTheOffersOfAll(t *testing.T) {
	all := members(t, func(s *synchronizer.Synchronizer, on map[string]synchronizer.Event) {
		s.Atomic(on["a"], on["b"])
		s.Atomic(on["b"], on["c"])
	})
	a, b, c := all["a"], all["b"], all["c"]
	offer := func(m *member, key string, allowed bool) {
		m.Offering()
		events, err := m.Events(m.request())
		require.NoError(t, err)
		for _, e := range events {
			e.Wait()
			if allowed {
				e.Offer(key, m.request())
			}
		}
		m.Offered()
	}
	key := func(m *member) any {
		if g := m.Granted(); g != nil {
			return g.Key
		}
		return nil
	}
	offer(a, "a1", true)
	a.Retract()
	offer(b, "b1", true)
	require.Nil(t, key(b), "what a offered does not stand any more")
	offer(a, "a1", true)
	require.Equal(t, "a1", key(a))
	require.Equal(t, "b1", key(b))
	require.ElementsMatch(t, []string{"a", "b"}, a.poked(all))

	offer(a, "a2", false) // its guards hold it back
	offer(b, "b2", true)
	offer(c, "c1", true)
	require.Nil(t, key(c), "the rule of a and b has waited for longer")
	offer(a, "a2", true)
	require.Equal(t, "b2", key(b))
	offer(b, "b3", true)
	require.Equal(t, "b3", key(b))
	require.Equal(t, "c1", key(c))
}
