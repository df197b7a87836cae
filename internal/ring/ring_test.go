package ring_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/ring"
)

// The model is a plain slice.
func TestRingBehavesLikeASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring.Ring[int]
		model := []int{}
		next := 0
		some := func() []int {
			vs := make([]int, rapid.IntRange(0, 40).Draw(t, "count"))
			for i := range vs {
				next++
				vs[i] = next
			}
			return vs
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) { next++; r.Push(next); model = append(model, next) },
			"push all": func(*rapid.T) {
				vs := some()
				r.PushAll(vs)
				model = append(model, vs...)
			},
			"push front": func(*rapid.T) {
				vs := some()
				r.PushFront(vs)
				model = append(slices.Clone(vs), model...)
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					require.Panics(t, func() { r.Pop() })
					return
				}
				require.Equal(t, model[0], r.Pop())
				model = model[1:]
			},
			"pop into": func(t *rapid.T) {
				dst := make([]int, rapid.IntRange(0, 50).Draw(t, "room"))
				n := r.PopInto(dst)
				require.Equal(t, min(len(dst), len(model)), n)
				require.Equal(t, model[:n], dst[:n:n])
				model = model[n:]
			},
			"remove": func(t *rapid.T) {
				divisor := rapid.IntRange(1, 5).Draw(t, "divisor")
				is := func(v *int) bool { return *v%divisor == 0 }
				var removed []int
				model = slices.DeleteFunc(model, func(v int) bool {
					if is(&v) {
						removed = append(removed, v)
					}
					return is(&v)
				})
				require.Equal(t, removed, r.Remove(is))
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), r.Len())
				for i, v := range model {
					require.Equal(t, v, *r.At(i))
				}
			},
		})
	})
}

func TestRingKeepsNoReferenceToTakenValues(t *testing.T) {
	var r ring.Ring[*int]
	for range 20 {
		r.Push(new(int))
	}
	dst := make([]*int, 9)
	r.PopInto(dst)
	r.Pop()
	odd := false
	require.Len(t, r.Remove(func(**int) bool { odd = !odd; return odd }), 5)
	require.Len(t, r.Remove(func(**int) bool { return true }), 5)
	for i := range 32 {
		r.Push(nil)
		require.Nil(t, *r.At(i))
	}
}
