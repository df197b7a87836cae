package line

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// parkModel is parked lanes as slices.
type parkModel struct {
	waiting map[uint64][]int
	holder  map[uint64]int     // the worker that has the key; 0: none
	letters map[uint64][]*Lane // that hold the key
	firsts  map[uint64]int     // commands at the front that came from letters
}

func TestParkedLanesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		l := Keyed(Keys{InTurn: true, Most: QuarterOfCapacity, Parks: true}).(*parking)
		l.Resize(capacity)
		m := parkModel{map[uint64][]int{}, map[uint64]int{}, map[uint64][]*Lane{}, map[uint64]int{}}
		const workers, keys = 2, 3
		var parts [workers + 1]Part
		var batches [workers + 1][]command.Envelope
		next := 0
		keyOf := func(e command.Envelope) uint64 { return 1 + uint64(e.Load.(int)%keys) }
		ranks := func(es []command.Envelope) (rs []Rank) {
			for _, e := range es {
				rs = append(rs, Rank{Key: keyOf(e)})
			}
			return rs
		}
		fresh := func(t *rapid.T) command.Envelope {
			next++
			return command.Envelope{Load: keys*next + rapid.IntRange(0, keys-1).Draw(t, "key")}
		}
		anyParked := func(t *rapid.T) (k uint64) {
			var parked []uint64
			for k := range uint64(keys + 1) {
				if len(m.letters[k]) > 0 {
					parked = append(parked, k)
				}
			}
			if len(parked) == 0 {
				t.Skip("none is parked")
			}
			return rapid.SampledFrom(parked).Draw(t, "parked")
		}
		unpark := func(k uint64) {
			l.Unpark(m.letters[k][0])
			if m.letters[k] = m.letters[k][1:]; len(m.letters[k]) == 0 {
				m.firsts[k] = 0
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := fresh(t)
				k := keyOf(e)
				l.Push(e, Rank{Key: k})
				m.waiting[k] = append(m.waiting[k], e.Load.(int))
			},
			"take": func(t *rapid.T) {
				w := rapid.IntRange(1, workers).Draw(t, "worker")
				if len(batches[w]) > 0 {
					return
				}
				batch := make([]command.Envelope, rapid.IntRange(1, 4).Draw(t, "n"))
				want := min(len(batch), l.Takeable())
				n := l.PopInto(batch)
				require.Equal(t, want, n)
				l.Give(&parts[w], n)
				for _, e := range batch[:n] {
					k := keyOf(e)
					require.Empty(t, m.letters[k], "a parked key gives no command out")
					require.Contains(t, []int{0, w}, m.holder[k])
					m.holder[k] = w
					require.Equal(t, m.waiting[k][0], e.Load, "in order")
					m.waiting[k] = m.waiting[k][1:]
				}
				batches[w] = batch[:n]
			},
			"end": func(t *rapid.T) { // of a batch; one of its commands fails, or none
				w := rapid.IntRange(1, workers).Draw(t, "worker")
				if len(batches[w]) == 0 {
					return
				}
				if at := rapid.IntRange(0, len(batches[w])).Draw(t, "failed"); at < len(batches[w]) {
					failed, rest := batches[w][at], batches[w][at+1:]
					l.Return(rest, ranks(rest))
					for _, e := range slices.Backward(rest) {
						k := keyOf(e)
						m.waiting[k] = append([]int{e.Load.(int)}, m.waiting[k]...)
					}
					k := keyOf(failed)
					m.letters[k], m.firsts[k] = append(m.letters[k], l.Park(Rank{Key: k})), 0
				}
				l.Free(&parts[w])
				for k, holder := range m.holder {
					if holder == w {
						m.holder[k] = 0
					}
				}
				batches[w] = nil
			},
			"import": func(t *rapid.T) {
				k := uint64(rapid.IntRange(1, keys).Draw(t, "key"))
				m.letters[k], m.firsts[k] = append(m.letters[k], l.Park(Rank{Key: k})), 0
			},
			"retry": func(t *rapid.T) {
				k := anyParked(t)
				next++
				e := command.Envelope{Load: keys*next + int(k-1)}
				l.PushFirst(m.letters[k][0], e)
				m.waiting[k] = slices.Insert(m.waiting[k], m.firsts[k], e.Load.(int))
				m.firsts[k]++
				unpark(k)
			},
			"drop the letter": func(t *rapid.T) { unpark(anyParked(t)) },
			"remove": func(t *rapid.T) {
				odd := rapid.IntRange(2, 5).Draw(t, "every")
				l.Remove(func(e *command.Envelope) bool { return e.Load.(int)/keys%odd == 0 })
				for k, all := range m.waiting {
					for _, id := range all[:m.firsts[k]] {
						if id/keys%odd == 0 {
							m.firsts[k]--
						}
					}
					m.waiting[k] = slices.DeleteFunc(all, func(id int) bool { return id/keys%odd == 0 })
				}
			},
			"resize": func(t *rapid.T) { capacity = rapid.IntRange(1, 12).Draw(t, "capacity"); l.Resize(capacity) },
			"": func(t *rapid.T) {
				n, aside, parked := 0, 0, 0
				for k := uint64(1); k <= keys; k++ {
					n += len(m.waiting[k])
					if len(m.letters[k]) > 0 {
						parked++
						aside += len(m.waiting[k])
						require.Equal(t, len(m.waiting[k]), l.WaitingAt(m.letters[k][0]))
					}
				}
				var a Accounts
				l.Account(0, &a)
				require.Equal(t, Accounts{Held: aside, Parked: parked}, a)
				require.Equal(t, n, l.Len())
				require.Equal(t, n-aside, l.Droppable())
				require.Equal(t, min(aside, capacity), l.Aside())
				for k := uint64(1); k <= keys; k++ {
					if ln := l.Find(Rank{Key: k}); ln != nil && len(m.letters[k]) > 0 {
						require.LessOrEqual(t, l.Places(ln), capacity-aside, "the commands of parked keys are bounded together")
					}
				}
			},
		})
	})
}
