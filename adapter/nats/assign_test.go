package nats

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestThePartitionsAreSharedEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z]{1,8}`), 1, 12, rapid.ID).Draw(t, "members")
		parts := rapid.IntRange(1, 64).Draw(t, "partitions")
		of := assign(members, parts)
		require.Len(t, of, parts)
		load := map[string]int{}
		for _, m := range of {
			require.Contains(t, members, m)
			load[m]++
		}
		for _, m := range members {
			require.Contains(t, []int{parts / len(members), (parts + len(members) - 1) / len(members)}, load[m])
		}
		again := slices.Clone(members)
		slices.Reverse(again)
		require.Equal(t, of, assign(again, parts), "all members come to the same")
	})
}

func TestMostPartitionsStayWhereTheyAreIfAMemberComes(t *testing.T) {
	const parts = 32
	moved := 0
	for n := range 50 {
		var members []string
		for m := range 4 {
			members = append(members, fmt.Sprint("member ", n, " ", m))
		}
		before, after := assign(members[:3], parts), assign(members, parts)
		for part := range before {
			if before[part] != after[part] {
				moved++
			}
		}
	}
	assert.Less(t, moved, 50*parts/2) // a quarter has to move
}

func TestASharerHearsOfThoseThatComeAndGo(t *testing.T) {
	conn, err := Embed(t.TempDir(), Store{})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	c := &sharer{id: "me", subject: "golda.members.test", conn: conn, parts: 4, others: map[string]time.Time{}}
	now := time.Now()
	assert.False(t, c.hear([]byte("+me"), now))
	assert.False(t, c.hear([]byte(""), now))
	assert.True(t, c.hear([]byte("+you"), now))
	assert.False(t, c.hear([]byte("+you"), now.Add(time.Second)))
	assert.True(t, c.hear([]byte("?new"), now))
	assert.Equal(t, []string{"new", "you"}, slices.Sorted(maps.Keys(c.others)))
	assert.True(t, c.hear([]byte("-you"), now))
	assert.False(t, c.hear([]byte("-you"), now))
	assert.False(t, c.forget(now.Add(memberLost)))
	assert.True(t, c.forget(now.Add(memberLost+1)))
	assert.Empty(t, c.others)
}

func TestACommandWhoseKeyPanicsIsInAPartition(t *testing.T) {
	assert.Equal(t, 0, partitionOf(func(any) uint64 { panic("no key") }, 8)("x"))
	assert.Equal(t, 3, partitionOf(func(any) uint64 { return 11 }, 8)("x"))
}
