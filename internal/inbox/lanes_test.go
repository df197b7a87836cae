package inbox

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/queue"
)

// laneModel is lanes as slices: each key's commands, and which worker holds the key. A command without a key has one of its own
// here, above all others.
type laneModel struct {
	waiting map[queue.Key][]int
	holder  map[queue.Key]int  // the worker; 0: none
	blocked map[queue.Key]bool // by a retry
	again   map[queue.Key]int  // commands that came back and keep their turn
}

func (m *laneModel) ready(k queue.Key) bool {
	return m.holder[k] == 0 && !m.blocked[k] && len(m.waiting[k]) > 0
}

func TestLanesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLanes(true, Rate{})
		m := laneModel{map[queue.Key][]int{}, map[queue.Key]int{}, map[queue.Key]bool{}, map[queue.Key]int{}}
		const workers = 3
		var members [workers + 1]Member
		batches := [workers + 1][]command.Envelope{}
		next := 0
		key := func(e command.Envelope) queue.Key {
			if k := queue.Key(e.Load.(int) % 6); k != NoKey {
				return k
			}
			return queue.Key(e.Load.(int) + 6)
		}
		ofLane := func(k queue.Key) queue.Key {
			if k < 6 {
				return k
			}
			return NoKey
		}
		keys := func(es []command.Envelope) (ks []queue.Key) {
			for _, e := range es {
				ks = append(ks, ofLane(key(e)))
			}
			return ks
		}
		delayed := map[queue.Key]command.Envelope{}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				n := rapid.IntRange(1, 6).Draw(t, "n")
				es := make([]command.Envelope, n)
				for i := range es {
					es[i].Load = 6*next + rapid.IntRange(0, 5).Draw(t, "key")
					next++
					m.waiting[key(es[i])] = append(m.waiting[key(es[i])], es[i].Load.(int))
				}
				l.PushAll(es, keys(es))
			},
			"take": func(t *rapid.T) {
				w := rapid.IntRange(1, workers).Draw(t, "worker")
				if len(batches[w]) > 0 {
					return
				}
				batch := make([]command.Envelope, rapid.IntRange(1, 4).Draw(t, "n"))
				want := min(len(batch), l.takeable)
				n := l.PopInto(batch)
				require.Equal(t, want, n)
				l.hold(&members[w])
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
					l.PushFront(rest, keys(rest))
					for _, e := range slices.Backward(rest) {
						m.waiting[key(e)] = slices.Insert(m.waiting[key(e)], 0, e.Load.(int))
						m.again[key(e)]++
					}
					switch k := key(culprit); rapid.IntRange(0, 2).Draw(t, "then") {
					case 0: // it ends
					case 1: // it is tried again at once
						l.unblock(culprit, ofLane(k))
						m.again[k] = 0
						m.waiting[k] = slices.Insert(m.waiting[k], 0, culprit.Load.(int))
					default:
						l.block(ofLane(k))
						m.blocked[k] = true
						m.again[k] = 0
						delayed[k] = culprit
					}
				}
				batches[w] = nil
				l.free(&members[w])
				for k, h := range m.holder {
					if h == w {
						m.holder[k] = 0
					}
				}
			},
			"retry": func(t *rapid.T) {
				for _, k := range slices.Sorted(maps.Keys(delayed)) {
					e := delayed[k]
					l.unblock(e, ofLane(k))
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
				got := map[queue.Key][]int{}
				for _, e := range l.Drain() {
					got[key(e)] = append(got[key(e)], e.Load.(int))
				}
				maps.DeleteFunc(m.waiting, func(_ queue.Key, ids []int) bool { return len(ids) == 0 })
				require.Equal(t, m.waiting, got)
				clear(m.waiting)
			},
			"": func(t *rapid.T) {
				n, takeable, lanes := 0, 0, 0
				for k := range queue.Key(6*next + 6) {
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
				require.Equal(t, takeable, l.takeable)
				require.Equal(t, lanes, len(l.byKey)-l.empty.n, "no lane is kept for nothing")
				require.Equal(t, n, l.Count(func(*command.Envelope) bool { return true }))
			},
		})
	})
}
