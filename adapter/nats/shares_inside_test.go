package nats

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAKeyStaysInItsPartitionInAllVersions(t *testing.T) {
	for key, want := range map[string]int{"": 18, "a": 13, "b": 28, "acme": 60, "tenant 1": 60, "tenant 2": 32} {
		require.Equal(t, want, shareOf(key, 64), key)
	}
}

// A partition that has messages all along gets its share of any stretch, to a turn of its own and one of each other.
func TestPartitionsTakeTurnsByTheirWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "partitions")
		weight, left := make([]int64, n), make([]int, n)
		least, sum, longest := int64(100), int64(0), 0.0
		for part := range weight {
			weight[part] = int64(rapid.IntRange(1, 20).Draw(t, "weight"))
			left[part] = rapid.SampledFrom([]int{0, 3, 1000}).Draw(t, "messages")
			if left[part] > 0 {
				least, sum = min(least, weight[part]), sum+weight[part]
			}
		}
		for part := range weight {
			longest = max(longest, float64(weight[part])/float64(least)+1)
		}
		s, got := turns{deficit: make([]float64, n)}, make([]int, n)
		total := 0
		for range 200 {
			has := func(part int) bool { return got[part] < left[part] }
			part := s.next(has, has, never, func(part int) int64 { return weight[part] })
			if part < 0 {
				break
			}
			require.Less(t, got[part], left[part])
			got[part]++
			total++
			for part := range got {
				if left[part] == 1000 {
					fair := float64(total) * float64(weight[part]) / float64(sum)
					require.Greater(t, float64(got[part]), fair-longest*float64(n), "partition %d of %v, with %v", part, got, weight)
				}
			}
		}
		for part := range got {
			if total < 200 {
				require.Equal(t, left[part], got[part])
			}
		}
	})
}

// A partition of a turn that must be waited for keeps it: no other partition is
// asked in its place, and its turn goes on where it was.
func TestATurnThatIsAwaitedIsNotTakenByAnother(t *testing.T) {
	weight := func(part int) int64 { return []int64{1, 3}[part] }
	all := func(int) bool { return true }
	s := turns{deficit: make([]float64, 2)}
	var got []int
	for range 2 {
		got = append(got, s.next(all, all, never, weight))
	}
	require.Equal(t, []int{0, 1}, got)
	first := func(part int) bool { return part == 0 }
	second := func(part int) bool { return part == 1 }
	require.Equal(t, -1, s.next(all, first, second, weight), "the second one has two messages left of its turn")
	require.Equal(t, 0, (&turns{deficit: make([]float64, 2)}).next(all, first, second, weight), "its turn has not come")
	for range 6 {
		got = append(got, s.next(all, all, never, weight))
	}
	require.Equal(t, []int{0, 1, 1, 1, 0, 1, 1, 1}, got)
	require.Equal(t, 0, s.next(all, first, never, weight), "nothing is waited for")
	require.Equal(t, 0, s.next(all, first, never, weight), "nothing is waited for")
}

func never(int) bool { return false }

func TestAMessageThatArrivesLateIsOfferedBeforeThoseOfAnotherPartition(t *testing.T) {
	o := newOrder(make(weights, 4))
	in, out := make(chan *delivery), make(chan *delivery)
	var back []*delivery
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(in, out, func(d *delivery) { back = append(back, d) })
	}()
	for seq := range 100 {
		in <- &delivery{part: 2, seq: uint64(seq)}
	}
	in <- &delivery{part: 1, seq: 1000}
	require.Equal(t, 2, (<-out).part, "it was offered before")
	first, second := <-out, <-out
	require.Contains(t, []int{first.part, second.part}, 1)
	in <- &delivery{part: 2, seq: 100}
	close(in)
	<-ended
	require.Len(t, back, 99)
	for k := 1; k < len(back); k++ {
		require.Greater(t, back[k].seq, back[k-1].seq)
	}
}
