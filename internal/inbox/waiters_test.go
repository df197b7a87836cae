package inbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASenderIsCutOutOfItsLine(t *testing.T) {
	a, b, c := new(Member), new(Member), new(Member)
	l := senderLine{{m: a, n: 1}, {m: b, n: 2}}
	require.Equal(t, 1, l.find(b))
	_, at := l.cut(c)
	require.Equal(t, -1, at)
	was, at := l.cut(a)
	require.Zero(t, at)
	require.Equal(t, 1, was.n)
	require.Equal(t, senderLine{{m: b, n: 2}}, l)
}

func TestASubmitterLeavesItsLineFromAnyPlace(t *testing.T) {
	for place := range 3 {
		var l waiters
		var all []*waiter
		for range 3 {
			w := l.waiter(entrant{}, false)
			l.join(w, false)
			all = append(all, w)
		}
		l.leave(all[place])
		require.False(t, all[place].lined)
		require.Equal(t, 2, l.Len())
		var left []*waiter
		for w := l.first; w != nil; w = w.after {
			left = append(left, w)
		}
		require.Equal(t, append(all[:place:place], all[place+1:]...), left)
		require.Same(t, left[1], l.last)
		front := l.waiter(entrant{retry: true}, false)
		l.join(front, true)
		require.Same(t, front, l.first)
		require.EqualValues(t, 1, l.retries)
	}
}

func TestAWaiterIsKeptForTheNextCommand(t *testing.T) {
	var l waiters
	w := l.waiter(entrant{}, false)
	l.keep(w)
	require.Same(t, w, l.waiter(entrant{}, false))
	suspends := l.waiter(entrant{}, true)
	l.keep(suspends)
	require.NotSame(t, suspends, l.waiter(entrant{}, false), "its channel is closed")
}
