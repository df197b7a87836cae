package pool

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
)

var modes = []controller.Dispatch{controller.SharedFIFO, controller.SharedPriority, controller.Polled}

func TestTokensOfAnOldEraAreDropped(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			p, bound := newPool("a", "b")
			p.SetDispatch(mode)
			a, b := bound[0], bound[1]
			b.Deliver(1, 1)
			a.Deliver(1, 1)
			a.Deliver(2, 0)
			require.Zero(t, a.Tokens(), "the delivery of an era without tokens takes the older ones back")
			a.Deliver(1, 1)
			require.Zero(t, a.Tokens(), "a late delivery brings none")
			a.Deliver(2, 1)
			require.Equal(t, 1, a.Tokens())
			require.ElementsMatch(t, []string{"a", "b"}, taken(p))
		})
	}
}

func TestTheEraOfATokenIsReturnedWithIt(t *testing.T) {
	for _, mode := range modes {
		p, bound := newPool("a")
		p.SetDispatch(mode)
		bound[0].Deliver(7, 1)
		b, era := p.Next(new(testVisit))
		require.Same(t, bound[0], b)
		require.EqualValues(t, 7, era)
	}
}

func TestABindingThatHasEndedTakesNoTokens(t *testing.T) {
	for _, mode := range modes {
		p, bound := newPool("a", "b")
		p.SetDispatch(mode)
		bound[0].Deliver(1, 1)
		bound[0].End()
		bound[0].Deliver(2, 1)
		require.Empty(t, taken(p))
		require.Equal(t, []string{"b"}, p.Inboxes())
		again := p.Bind("a", 0, new(atomic.Uint64))
		again.Deliver(1, 1)
		require.Equal(t, []string{"a"}, taken(p))
		require.Equal(t, []string{"a", "b"}, p.Inboxes(), "in the order of their places")
	}
}

func TestAWorkerIsWokenForEachToken(t *testing.T) {
	p, bound := newPool("a")
	workers := joined(t, p, 4)
	bound[0].Deliver(1, 3)
	woken := func() (n []int) {
		for _, w := range workers {
			n = append(n, w.woken)
		}
		return n
	}
	require.Equal(t, []int{0, 1, 1, 1}, woken(), "the workers that were parked last")
	bound[0].Deliver(1, 3)
	require.Equal(t, []int{1, 1, 1, 1}, woken(), "no other is idle")
}

func TestInAPolledPoolATokenIsOneNote(t *testing.T) {
	p, bound := newPool("a")
	p.SetDispatch(controller.Polled)
	workers := joined(t, p, 2)
	bound[0].Deliver(1, 3)
	bound[0].Deliver(1, 1)
	require.Equal(t, 1, bound[0].Tokens())
	require.Equal(t, 2, workers[0].woken+workers[1].woken, "one for each delivery")
	require.Equal(t, []string{"a"}, taken(p))
}

// The queue is compared with a list that is sorted anew for each token.
func TestTokensLeaveByPriorityAndThenFirstInFirstOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, bound := newPool("a", "b", "c")
		p.SetDispatch(controller.SharedPriority)
		type entry struct{ place, priority, seq int }
		var want []entry
		seq, eras := 0, []uint32{1, 1, 1}
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				i, n := rapid.IntRange(0, 2).Draw(t, "inbox"), rapid.IntRange(1, 3).Draw(t, "n")
				bound[i].Deliver(eras[i], int32(n))
				for range n {
					seq++
					want = append(want, entry{i, int(bound[i].priority.Load()), seq})
				}
			},
			"priority": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "inbox")
				bound[i].SetPriority(rapid.IntRange(-1, 1).Draw(t, "priority"))
				eras[i]++
				bound[i].Deliver(eras[i], 0)
				want = slices.DeleteFunc(want, func(e entry) bool { return e.place == i })
			},
			"take": func(t *rapid.T) {
				slices.SortFunc(want, func(a, b entry) int {
					return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
				})
				b, era := p.Next(new(testVisit))
				if len(want) == 0 {
					if b != nil {
						t.Fatalf("a token of %s", b.Inbox())
					}
					return
				}
				if b != bound[want[0].place] || era != eras[want[0].place] {
					t.Fatalf("a token of %v, era %d; want %v", b, era, want[0])
				}
				want = want[1:]
			},
		})
	})
}

// Whatever the order in which deliveries arrive, the pool has the tokens of the last era in the end, and no others.
func TestDeliveriesMayArriveInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, bound := newPool("a", "b")
		p.SetDispatch(rapid.SampledFrom(modes).Draw(t, "mode"))
		type delivery struct {
			of  int
			era uint32
			n   int32
		}
		var all []delivery
		last := map[int]int{}
		first := uint32(0)
		if rapid.Bool().Draw(t, "the numbers wrap round") {
			first = math.MaxUint32 - 1
			for _, b := range bound {
				b.era = first // as after billions of eras
			}
		}
		for i := range bound {
			eras := rapid.IntRange(1, 4).Draw(t, "eras")
			for era := range eras {
				n := 0
				if era > 0 {
					all = append(all, delivery{i, first + uint32(era), 0})
				}
				for range rapid.IntRange(0, 3).Draw(t, "deliveries") {
					all = append(all, delivery{i, first + uint32(era), 1})
					n++
				}
				last[i] = n
			}
		}
		for _, d := range rapid.Permutation(all).Draw(t, "order") {
			bound[d.of].Deliver(d.era, d.n)
		}
		for i, b := range bound {
			want := last[i]
			if p.Polled() {
				want = min(want, 1)
			}
			if got := b.Tokens(); got != want {
				t.Fatalf("%s: %d tokens, not %d", b.Inbox(), got, want)
			}
		}
		if _, _, tokens := p.Inspect(); tokens != bound[0].Tokens()+bound[1].Tokens() {
			t.Fatalf("%d tokens", tokens)
		}
	})
}
