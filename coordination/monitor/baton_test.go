package monitor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestS002_4_MonitorBaton is figures 12 to 14, as the lock sees them.
func TestS002_4_MonitorBaton(t *testing.T) {
	var b baton
	p := func(id uint64) *entry { return &entry{id: id} }
	enter := func(e *entry) *entry {
		granted, err := b.enter(e)
		require.NoError(t, err)
		return granted
	}
	one, two, three, four := p(1), p(2), p(3), p(4)
	require.Same(t, one, enter(one))
	require.Nil(t, enter(two))
	require.Nil(t, enter(three))
	granted, ok := b.release(one.token) // the baton is on its way to the second
	require.True(t, ok)
	require.Same(t, two, granted)
	require.Nil(t, enter(four), "the lock is busy without a gap")
	for _, e := range []*entry{two, three, four} {
		require.Same(t, e, b.holder)
		_, ok = b.release(e.token)
		require.True(t, ok)
	}
	require.Nil(t, b.holder)
	require.Less(t, one.token, two.token)
	require.Less(t, three.token, four.token)
	_, ok = b.release(four.token)
	require.False(t, ok, "it is released already")
}

// TestX1_MonitorCondition is figure 7, as the lock sees it.
func TestX1_MonitorCondition(t *testing.T) {
	var b baton
	getters := []*entry{{id: 1}, {id: 2}, {id: 3}, {id: 4}}
	for _, g := range getters {
		granted, err := b.enter(g)
		require.NoError(t, err)
		require.Same(t, g, granted, "the monitor is free while the others wait")
		waits, granted := b.wait(g.token, "empty")
		require.Same(t, g, waits)
		require.Nil(t, granted)
		require.Nil(t, b.holder)
	}
	var order []uint64
	for i := range uint64(4) { // a put signals, and leaves
		put := &entry{id: 10 + i}
		_, err := b.enter(put)
		require.NoError(t, err)
		b.signal(put.token, "empty", false)
		require.Same(t, put, b.holder, "the signaller stays inside")
		granted, ok := b.release(put.token)
		require.True(t, ok)
		order = append(order, granted.id)
		_, ok = b.release(granted.token)
		require.True(t, ok)
	}
	require.Equal(t, []uint64{1, 2, 3, 4}, order)

	// A getter that comes between the signal and the entry of the one that was signalled enters first.
	waiter, late, put := &entry{id: 21}, &entry{id: 22}, &entry{id: 23}
	_, _ = b.enter(waiter)
	b.wait(waiter.token, "empty")
	_, _ = b.enter(put)
	_, _ = b.enter(late)
	b.signal(put.token, "empty", false)
	granted, _ := b.release(put.token)
	require.Same(t, late, granted)
	granted, _ = b.release(late.token)
	require.Same(t, waiter, granted)
	waits, _ := b.wait(waiter.token, "empty") // what it waited for is not true any more
	require.Same(t, waiter, waits)
	b.signal(99, "empty", true)
	require.Len(t, b.conditions["empty"], 1, "an old token has no effect")
}

// TestTheBatonIsThatOfAModel compares the baton, in random orders of what may happen, with three plain lists.
func TestTheBatonIsThatOfAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b baton
		var holder uint64    // an id; 0 if it is free
		var waiting []uint64 // ids
		conditions := map[string][]uint64{}
		nodes, tokens := map[uint64]string{}, map[uint64]uint64{}
		var last, lastToken uint64
		next := func(granted *entry) {
			if holder == 0 && len(waiting) > 0 {
				holder, waiting = waiting[0], waiting[1:]
				require.NotNil(t, granted)
				require.Equal(t, holder, granted.id)
				require.Greater(t, granted.token, lastToken)
				lastToken = granted.token
				tokens[holder] = granted.token
				return
			}
			require.Nil(t, granted)
		}
		drop := func(chosen func(id uint64) bool) {
			waiting = slices.DeleteFunc(waiting, chosen)
			for c := range conditions {
				conditions[c] = slices.DeleteFunc(conditions[c], chosen)
			}
			if holder != 0 && chosen(holder) {
				holder = 0
			}
		}
		condition := rapid.SampledFrom([]string{"x", "y"})
		node := rapid.SampledFrom([]string{"n", "m"})
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				last++
				nodes[last] = node.Draw(t, "node")
				waiting = append(waiting, last)
				granted, err := b.enter(&entry{id: last, node: nodes[last], owner: last})
				require.NoError(t, err)
				next(granted)
			},
			"enter again": func(t *rapid.T) {
				if holder == 0 {
					t.Skip()
				}
				_, err := b.enter(&entry{id: 1 << 60, node: nodes[holder], owner: holder})
				require.ErrorIs(t, err, errNested)
			},
			"release": func(t *rapid.T) {
				if holder == 0 {
					t.Skip()
				}
				token := tokens[holder]
				holder = 0
				granted, ok := b.release(token)
				require.True(t, ok)
				next(granted)
			},
			"release with an old token": func(t *rapid.T) {
				token := rapid.Uint64Range(0, lastToken+1).Draw(t, "token")
				if holder != 0 && token == tokens[holder] {
					t.Skip()
				}
				granted, ok := b.release(token)
				require.False(t, ok)
				require.Nil(t, granted)
				waits, granted := b.wait(token, "x")
				require.Nil(t, waits)
				require.Nil(t, granted)
				b.signal(token, "x", true)
			},
			"wait": func(t *rapid.T) {
				if holder == 0 {
					t.Skip()
				}
				c := condition.Draw(t, "condition")
				conditions[c] = append(conditions[c], holder)
				token := tokens[holder]
				holder = 0
				waits, granted := b.wait(token, c)
				require.NotNil(t, waits)
				require.Zero(t, waits.token)
				next(granted)
			},
			"signal": func(t *rapid.T) {
				if holder == 0 {
					t.Skip()
				}
				c, all := condition.Draw(t, "condition"), rapid.Bool().Draw(t, "all")
				n := min(1, len(conditions[c]))
				if all {
					n = len(conditions[c])
				}
				waiting, conditions[c] = append(waiting, conditions[c][:n]...), conditions[c][n:]
				b.signal(tokens[holder], c, all)
			},
			"leave": func(t *rapid.T) {
				id := rapid.Uint64Range(0, last+1).Draw(t, "id")
				drop(func(of uint64) bool { return of == id })
				next(b.leave(id))
			},
			"lose": func(t *rapid.T) {
				name := node.Draw(t, "node")
				drop(func(id uint64) bool { return nodes[id] == name })
				_, granted := b.lose(name)
				next(granted)
			},
			"": func(t *rapid.T) {
				if holder == 0 {
					require.Nil(t, b.holder)
				} else {
					require.Equal(t, holder, b.holder.id)
				}
				require.Len(t, b.waiting, len(waiting))
				for i, e := range b.waiting {
					require.Equal(t, waiting[i], e.id)
				}
				total := 0
				for c, ids := range conditions {
					total += len(ids)
					for i, e := range b.conditions[c] {
						assert.Equal(t, ids[i], e.id)
					}
				}
				for _, queue := range b.conditions {
					total -= len(queue)
				}
				require.Zero(t, total)
			},
		})
	})
}
