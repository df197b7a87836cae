package line

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model is a map.
func TestALaneTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table laneTable
		model := map[uint64]*Lane{}
		// Keys that are near to each other, and keys that have one home.
		key := rapid.OneOf(rapid.Uint64Range(1, 40), rapid.Map(rapid.Uint64Range(1, 20), func(n uint64) uint64 { return n << 58 }), rapid.Uint64())
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if k := key.Draw(t, "key"); model[k] == nil {
					model[k] = &Lane{key: k}
					table.add(model[k])
				}
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				delete(model, k)
				table.delete(k)
			},
			"delete most": func(*rapid.T) {
				for k := range maps.Clone(model) {
					if k%8 != 0 {
						delete(model, k)
						table.delete(k)
					}
				}
			},
			"": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Same(t, model[k], table.get(k))
				found := map[uint64]*Lane{}
				for ln := range table.all() {
					require.Same(t, ln, table.get(ln.key))
					found[ln.key] = ln
				}
				require.Equal(t, model, found)
				require.LessOrEqual(t, 2*table.n, len(table.slots))
				require.True(t, len(table.slots) <= leastLanes || 8*table.n >= len(table.slots), "%d of %d", table.n, len(table.slots))
			},
		})
	})
}

func TestATableMayBeChangedWhileItsLanesAreListed(t *testing.T) {
	var table laneTable
	for k := range uint64(100) {
		table.add(&Lane{key: k + 1})
	}
	seen := 0
	for ln := range table.all() {
		table.delete(ln.key)
		seen++
	}
	require.Equal(t, 100, seen)
	require.Zero(t, table.n)
	require.Len(t, table.slots, leastLanes)
	for range table.all() {
		t.Fatal("there are none")
	}
}

func BenchmarkLaneTable(b *testing.B) {
	for _, n := range []int{10, 2000} {
		keys, lanes := make([]uint64, n), map[uint64]*Lane{}
		var table laneTable
		for i := range keys {
			keys[i] = rand.Uint64()
			lanes[keys[i]] = &Lane{key: keys[i]}
			table.add(lanes[keys[i]])
		}
		b.Run(fmt.Sprintf("keys=%d/of=table", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i++; i == n {
					i = 0
				}
				if table.get(keys[i]) == nil {
					b.Fatal(i)
				}
			}
		})
		b.Run(fmt.Sprintf("keys=%d/of=map", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i++; i == n {
					i = 0
				}
				if lanes[keys[i]] == nil {
					b.Fatal(i)
				}
			}
		})
	}
}
