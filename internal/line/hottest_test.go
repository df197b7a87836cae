package line_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

func TestTheHottestKeysAreThoseOfMostCommands(t *testing.T) {
	key := func(load any) uint64 { return uint64(load.(int)) }
	for name, l := range map[string]line.Line{
		"keyed": line.Keyed(line.Keys{Of: key, InTurn: true}),
		"parks": line.Keyed(line.Keys{Of: key, InTurn: true, Parks: true}),
		"fair":  line.Fair(line.Shares{Rank: func(load any) line.Rank { return line.Rank{Key: key(load), Order: 1} }}),
	} {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= 20; k++ { // as many commands of each key as the key says
				for range k {
					l.Push(command.Envelope{Load: k}, line.Rank{Key: uint64(k), Order: 1})
				}
			}
			for from := range uint64(100) {
				top, whole := line.Hottest(l, 3, from, true)
				require.True(t, whole)
				require.Equal(t, []line.KeyLoad{{Key: 20, Waiting: 20, First: 20}, {Key: 19, Waiting: 19, First: 19}, {Key: 18, Waiting: 18, First: 18}}, top)
			}
			top, _ := line.Hottest(l, 100, 0, false)
			require.Len(t, top, 20)
			require.Nil(t, top[0].First)

			l.Drain()
			top, _ = line.Hottest(l, 3, 0, true)
			require.Empty(t, top)
		})
	}
}

func TestTheHottestKeysOfVeryManyAreLookedForInAPartOfThem(t *testing.T) {
	l := line.Keyed(line.Keys{Of: func(load any) uint64 { return uint64(load.(int)) }, InTurn: true})
	const keys = 20_000
	for k := 1; k <= keys; k++ {
		l.Push(command.Envelope{Load: k}, line.Rank{Key: uint64(k)})
	}
	seen := map[uint64]bool{}
	for from := uint64(0); len(seen) < keys; from += 2048 {
		require.Less(t, from, uint64(1<<20), "a part of the keys is never looked at")
		top, whole := line.Hottest(l, 100_000, from, false)
		require.False(t, whole)
		require.LessOrEqual(t, len(top), 2048)
		for _, k := range top {
			seen[k.Key] = true
		}
	}
}

func TestALineWithoutKeysHasNoHottestOnes(t *testing.T) {
	l := line.FIFO(new(line.Ring))
	l.Push(command.Envelope{Load: 1}, line.Rank{})
	top, whole := line.Hottest(l, 3, 0, true)
	require.Empty(t, top)
	require.True(t, whole)
}

func BenchmarkHottest(b *testing.B) {
	l := line.Keyed(line.Keys{Of: func(load any) uint64 { return uint64(load.(int)) }, InTurn: true})
	for k := 1; k <= 20_000; k++ {
		l.Push(command.Envelope{Load: k}, line.Rank{Key: uint64(k) * 0x9e3779b97f4a7c15})
	}
	for i := uint64(0); b.Loop(); i += 4096 {
		line.Hottest(l, 10, i, true)
	}
}
