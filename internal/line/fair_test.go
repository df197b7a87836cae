package line

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// roundRobin is a simple deficit round robin: keys that always have commands
// take turns, and each turn is a quantum. The key with the least weight has a
// quantum of 1.
type roundRobin struct {
	quanta   []float64
	deficits []float64
	served   []int
	at       int
}

func newRoundRobin(weights []int64) *roundRobin {
	m := &roundRobin{deficits: make([]float64, len(weights)), served: make([]int, len(weights))}
	for _, w := range weights {
		m.quanta = append(m.quanta, float64(w)/float64(slices.Min(weights)))
	}
	m.deficits[0] = m.quanta[0]
	return m
}

func (m *roundRobin) serve() {
	for m.deficits[m.at] < 1 {
		m.at = (m.at + 1) % len(m.quanta)
		m.deficits[m.at] += m.quanta[m.at]
	}
	m.deficits[m.at]--
	m.served[m.at]++
}

func TestKeysWithABacklogAreServedByTheirWeightsAsByASimpleRoundRobin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 100)), 1, 8).Draw(t, "weights")
		l := Fair(Shares{Most: QuarterOfCapacity, AtOnce: rapid.SampledFrom([]int{0, 1}).Draw(t, "at once")})
		m := newRoundRobin(weights)
		served := make([]int, len(weights))
		push := func(i, n int) {
			for range n {
				l.Push(command.Envelope{Load: i}, Rank{uint64(i + 1), weights[i]})
			}
		}
		for i := range weights {
			push(i, 100)
		}
		total := 0
		for range 50 {
			batch := make([]command.Envelope, rapid.IntRange(1, 60).Draw(t, "batch"))
			n := l.PopInto(batch)
			require.Len(t, batch, n)
			p := l.Give(nil, n)
			for _, e := range batch {
				served[e.Load.(int)]++
				push(e.Load.(int), 1)
				m.serve()
				total++
				for i, quantum := range m.quanta {
					share := float64(total) * float64(weights[i]) / float64(sum(weights))
					if off := max(math.Abs(float64(served[i]-m.served[i])), math.Abs(float64(served[i])-share)); off > quantum+2 {
						t.Fatalf("key %d is off by %v commands after %d, and a turn has %v", i, off, total, quantum)
					}
				}
			}
			if p != nil {
				l.Free(p)
			}
		}
	})
}

func sum(ns []int64) (sum int64) {
	for _, n := range ns {
		sum += n
	}
	return sum
}

// The weights say for how many commands of a flood one command of another key
// waits, and not how many there are.
func TestAFloodDelaysTheCommandOfAnotherKeyByOneTurn(t *testing.T) {
	for name, tc := range map[string]struct{ flood, other, atMost int64 }{
		"equal":          {1, 1, 1},
		"equal and high": {1000, 1000, 1},
		"more":           {70, 30, 3},
		"less":           {1, 10, 1},
		"far more":       {100, 1, 101},
	} {
		t.Run(name, func(t *testing.T) {
			l := Fair(Shares{Most: QuarterOfCapacity})
			flood := make([]command.Envelope, 100_000)
			ranks := slices.Repeat([]Rank{{1, tc.flood}}, len(flood))
			l.PushAll(flood, ranks)
			one := make([]command.Envelope, 1)
			for at := range 200 {
				l.Push(command.Envelope{Load: "other"}, Rank{2, tc.other})
				before := int64(0)
				for ; l.PopInto(one) == 1 && one[0].Load != "other"; before++ {
				}
				require.LessOrEqual(t, before, tc.atMost, "the command after %d others", at)
			}
		})
	}
}

// sharesModel is a fair line as slices.
type sharesModel struct {
	waiting  map[uint64][]int
	handlers map[uint64]int
	delayed  map[uint64]int
}

func (m *sharesModel) takeable(atOnce int, suspends bool) (n int) {
	for k, ids := range m.waiting {
		free := atOnce - m.handlers[k]
		switch {
		case atOnce == 0 || k == NoKey:
			n += len(ids)
		case suspends:
			n += max(min(len(ids), free), 0)
		case free > 0:
			n += len(ids)
		}
	}
	return n
}

func TestAFairLineAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atOnce := rapid.IntRange(0, 3).Draw(t, "at once")
		suspends := atOnce > 0 && rapid.Bool().Draw(t, "suspends")
		const most, workers, keys = 5, 4, 5
		l := Fair(Shares{AtOnce: atOnce, Most: most}).(*fair)
		l.Resize(100)
		if suspends {
			HoldByCommand(l)
		}
		m := sharesModel{map[uint64][]int{}, map[uint64]int{}, map[uint64]int{}}
		var parts [workers]*Part
		var batches [workers][]command.Envelope
		var retries []command.Envelope
		key := func(e command.Envelope) uint64 { return uint64(e.Load.(int) % keys) } // NoKey is one of them
		rank := func(e command.Envelope) Rank { return Rank{key(e), int64(key(e))} }
		hold := func(w int, es []command.Envelope, more int) { // counts handlers as the line must
			seen := map[uint64]bool{}
			for _, e := range es {
				if k := key(e); suspends || !seen[k] {
					m.handlers[k] += more
					seen[k] = true
				}
			}
		}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := command.Envelope{Load: keys*next + rapid.IntRange(0, keys-1).Draw(t, "key")}
				next++
				k := key(e)
				places := most - len(m.waiting[k]) - m.delayed[k]
				if ln := l.Find(rank(e)); ln != nil {
					require.Equal(t, places, l.Places(ln))
				} else if k != NoKey {
					require.Equal(t, most, places, "a lane is forgotten that has commands")
				}
				l.Push(e, rank(e))
				m.waiting[k] = append(m.waiting[k], e.Load.(int))
			},
			"take": func(t *rapid.T) {
				w := rapid.IntRange(0, workers-1).Draw(t, "worker")
				if len(batches[w]) > 0 {
					return
				}
				batch := make([]command.Envelope, rapid.IntRange(1, 6).Draw(t, "n"))
				want := min(len(batch), l.Takeable())
				n := l.PopInto(batch)
				require.Equal(t, want, n)
				if n == 0 {
					return
				}
				parts[w] = l.Give(parts[w], n)
				batches[w] = batch[:n]
				for _, e := range batches[w] {
					k := key(e)
					require.Equal(t, m.waiting[k][0], e.Load, "first in, first out")
					m.waiting[k] = m.waiting[k][1:]
				}
				hold(w, batches[w], 1)
				for k, n := range m.handlers {
					require.True(t, atOnce == 0 || k == NoKey || n <= atOnce, "key %d has %d handlers", k, n)
				}
			},
			"finish": func(t *rapid.T) {
				w := rapid.IntRange(0, workers-1).Draw(t, "worker")
				batch := batches[w]
				if len(batch) == 0 {
					return
				}
				done := rapid.IntRange(0, len(batch)).Draw(t, "done")
				for i := range batch[:done] {
					if suspends {
						parts[w].End(int32(i))
					}
				}
				if rest := batch[done:]; len(rest) > 0 {
					culprit, rest := rest[0], rest[1:]
					again := rapid.Bool().Draw(t, "tried again")
					if !again && suspends {
						l.End(parts[w], len(rest))
					}
					ranks := make([]Rank, len(rest))
					for i, e := range rest {
						ranks[i] = rank(e)
					}
					if suspends {
						ranks = parts[w].Ranks(len(rest))
					}
					l.Return(rest, ranks)
					for _, e := range slices.Backward(rest) {
						m.waiting[key(e)] = slices.Insert(m.waiting[key(e)], 0, e.Load.(int))
					}
					if again {
						l.Block(rank(culprit))
						m.delayed[key(culprit)]++
						retries = append(retries, culprit)
					}
				}
				hold(w, batch, -1)
				batches[w] = nil
				if parts[w] != nil {
					l.Free(parts[w])
				}
			},
			"retry": func(*rapid.T) {
				if len(retries) == 0 {
					return
				}
				e := retries[0]
				retries = retries[1:]
				require.False(t, l.Unblock(e, rank(e)))
				m.delayed[key(e)]--
				l.Push(e, rank(e))
				m.waiting[key(e)] = append(m.waiting[key(e)], e.Load.(int))
			},
			"drop": func(t *rapid.T) {
				if l.Len() == 0 {
					return
				}
				e := l.Drop()
				k := key(e)
				require.Equal(t, m.waiting[k][0], e.Load)
				load := func(k uint64) float64 { return float64(len(m.waiting[k])) / float64(max(k, 1)) }
				for other := range m.waiting {
					require.LessOrEqual(t, load(other), load(k), "%d loses a command, and %d has more", k, other)
				}
				m.waiting[k] = m.waiting[k][1:]
			},
			"remove": func(t *rapid.T) {
				odd := rapid.IntRange(0, 1).Draw(t, "odd")
				is := func(id int) bool { return id/keys%2 == odd }
				l.Remove(func(e *command.Envelope) bool { return is(e.Load.(int)) })
				for k := range m.waiting {
					m.waiting[k] = slices.DeleteFunc(m.waiting[k], is)
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, m.takeable(atOnce, suspends), l.Takeable())
				want, got := map[uint64][]int{}, map[uint64][]int{}
				for k, ids := range m.waiting {
					if len(ids) > 0 {
						want[k] = ids
					}
				}
				l.Count(func(e *command.Envelope) bool { got[key(*e)] = append(got[key(*e)], e.Load.(int)); return false })
				require.Equal(t, want, got)
				var a Accounts
				l.Account(0, &a)
				require.Equal(t, len(want), a.Keys)
				known := map[uint64]bool{}
				for ln := range l.byKey.all() {
					known[ln.key] = true
				}
				for ln := l.empty.first; ln != nil; ln = ln.next {
					delete(known, ln.key)
				}
				for k := range known {
					require.True(t, len(m.waiting[k])+m.handlers[k]*atOnce+m.delayed[k] > 0, "nothing of key %d is here", k)
				}
			},
		})
	})
}

func TestAMillionKeysOnceEachLeaveNothingBehind(t *testing.T) {
	l := Fair(Shares{Most: QuarterOfCapacity, AtOnce: 2}).(*fair)
	l.Resize(1024)
	var p *Part
	for i := range uint64(1_000_000) {
		l.Push(command.Envelope{}, Rank{i + 1, 1})
		if i%3 == 2 {
			n := l.PopInto(make([]command.Envelope, 10))
			p = l.Give(p, n)
			l.Free(p)
		}
	}
	n := l.PopInto(make([]command.Envelope, 10))
	l.Free(l.Give(p, n))
	require.LessOrEqual(t, l.byKey.n, mostEmpty)
	require.Equal(t, l.byKey.n, l.empty.n)
	for ln := range l.byKey.all() {
		require.Zero(t, ln.ring.Len())
	}
}

func TestKnownKeysOfAFairLineCostNoAllocation(t *testing.T) {
	for _, atOnce := range []int{0, 2} {
		l := Fair(Shares{Most: QuarterOfCapacity, AtOnce: atOnce})
		l.Resize(1024)
		batch := make([]command.Envelope, 64)
		var p *Part
		round := func() {
			for i := range 64 {
				l.Push(command.Envelope{}, Rank{uint64(i%7 + 1), int64(i%7 + 1)})
			}
			p = l.Give(p, l.PopInto(batch))
			if p != nil {
				l.Free(p)
			}
		}
		for range 10 {
			round()
		}
		require.Zero(t, testing.AllocsPerRun(100, round))
	}
}
