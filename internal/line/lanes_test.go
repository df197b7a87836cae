package line

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// laneModel is lanes as slices: each key's commands, and which worker holds the
// key. A command without a key has one of its own here, above all others.
type laneModel struct {
	waiting map[uint64][]int
	holder  map[uint64]int  // the worker; 0: none
	blocked map[uint64]bool // by a retry
	again   map[uint64]int  // commands that came back and keep their turn
}

func (m *laneModel) ready(k uint64) bool {
	return m.holder[k] == 0 && !m.blocked[k] && len(m.waiting[k]) > 0
}

func TestLanesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Keyed(Keys{InTurn: true}).(*lanes)
		m := laneModel{map[uint64][]int{}, map[uint64]int{}, map[uint64]bool{}, map[uint64]int{}}
		const workers = 3
		var parts [workers + 1]Part
		batches := [workers + 1][]command.Envelope{}
		next := 0
		key := func(e command.Envelope) uint64 {
			if k := uint64(e.Load.(int) % 6); k != NoKey {
				return k
			}
			return uint64(e.Load.(int) + 6)
		}
		ofLane := func(k uint64) uint64 {
			if k < 6 {
				return k
			}
			return NoKey
		}
		ranks := func(es []command.Envelope) (rs []Rank) {
			for _, e := range es {
				rs = append(rs, Rank{Key: ofLane(key(e))})
			}
			return rs
		}
		delayed := map[uint64]command.Envelope{}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				n := rapid.IntRange(1, 6).Draw(t, "n")
				es := make([]command.Envelope, n)
				for i := range es {
					es[i].Load = 6*next + rapid.IntRange(0, 5).Draw(t, "key")
					next++
					m.waiting[key(es[i])] = append(m.waiting[key(es[i])], es[i].Load.(int))
				}
				l.PushAll(es, ranks(es))
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
					k := key(e)
					require.False(t, m.blocked[k])
					require.Contains(t, []int{0, w}, m.holder[k], "a key has two workers")
					m.holder[k] = w
					require.Equal(t, m.waiting[k][0], e.Load, "in order")
					m.waiting[k] = m.waiting[k][1:]
					m.again[k] = max(m.again[k]-1, 0)
				}
				batches[w] = batch[:n]
			},
			"finish": func(t *rapid.T) {
				w := rapid.IntRange(1, workers).Draw(t, "worker")
				batch := batches[w]
				if len(batch) > 0 && rapid.Bool().Draw(t, "goes wrong") {
					at := rapid.IntRange(0, len(batch)-1).Draw(t, "culprit")
					culprit, rest := batch[at], batch[at+1:]
					l.Return(rest, ranks(rest))
					for _, e := range slices.Backward(rest) {
						m.waiting[key(e)] = slices.Insert(m.waiting[key(e)], 0, e.Load.(int))
						m.again[key(e)]++
					}
					switch k := key(culprit); rapid.IntRange(0, 2).Draw(t, "then") {
					case 0: // it ends
					case 1: // it is tried again at once
						l.Unblock(culprit, Rank{Key: ofLane(k)})
						m.again[k] = 0
						m.waiting[k] = slices.Insert(m.waiting[k], 0, culprit.Load.(int))
					default:
						l.Block(Rank{Key: ofLane(k)})
						m.blocked[k] = true
						m.again[k] = 0
						delayed[k] = culprit
					}
				}
				batches[w] = nil
				l.Free(&parts[w])
				for k, h := range m.holder {
					if h == w {
						m.holder[k] = 0
					}
				}
			},
			"retry": func(t *rapid.T) {
				for _, k := range slices.Sorted(maps.Keys(delayed)) {
					e := delayed[k]
					l.Unblock(e, Rank{Key: ofLane(k)})
					m.blocked[k] = false
					m.again[k] = 0
					m.waiting[k] = slices.Insert(m.waiting[k], 0, e.Load.(int))
					delete(delayed, k)
					return
				}
			},
			"drop": func(t *rapid.T) {
				if l.Len() == 0 {
					return
				}
				oldest := l.Oldest().Load
				e := l.Drop()
				require.Equal(t, oldest, e.Load)
				require.Equal(t, m.waiting[key(e)][0], e.Load)
				m.waiting[key(e)] = m.waiting[key(e)][1:]
			},
			"drain": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "one in ten") > 0 {
					return
				}
				got := map[uint64][]int{}
				for _, e := range l.Drain() {
					got[key(e)] = append(got[key(e)], e.Load.(int))
				}
				maps.DeleteFunc(m.waiting, func(_ uint64, ids []int) bool { return len(ids) == 0 })
				require.Equal(t, m.waiting, got)
				clear(m.waiting)
			},
			"": func(t *rapid.T) {
				n, takeable, lanes := 0, 0, 0
				for k := range uint64(6*next + 6) {
					n += len(m.waiting[k])
					if m.ready(k) {
						takeable += len(m.waiting[k])
						if again := m.again[k]; again > 0 {
							takeable += min(again, len(m.waiting[k])) - len(m.waiting[k])
						}
					}
					if ofLane(k) != NoKey && (len(m.waiting[k]) > 0 || m.holder[k] > 0 || m.blocked[k]) {
						lanes++
					}
				}
				require.Equal(t, n, l.Len())
				require.Equal(t, takeable, l.Takeable())
				require.Equal(t, lanes, l.byKey.n-l.empty.n, "no lane is kept for nothing")
				require.Equal(t, n, l.Count(func(*command.Envelope) bool { return true }))
			},
		})
	})
}
