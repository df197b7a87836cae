package gate

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// A Shed that follows the load is set again and again, and sees the priorities from the first one to the last.
func TestRulesKeepThePrioritiesOfRecentCommandsWhileTheyShed(t *testing.T) {
	var r Rules
	require.Nil(t, r.Priorities())
	r.Set(controller.Admission{Limit: 7}, 0)
	require.Nil(t, r.Priorities())
	_, err := r.Admit(&inbox{}, command.Envelope{Load: byPriority(9)})
	require.NoError(t, err)

	r.Set(controller.Admission{Shed: controller.Shed{Below: math.MinInt}}, 0)
	require.Empty(t, r.Priorities())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 5000 {
				if _, err := r.Admit(&inbox{}, command.Envelope{Load: byPriority(i % 4)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	of := map[int]float64{}
	for _, p := range r.Priorities() {
		of[p]++
	}
	require.Len(t, of, 4)
	for p, n := range of {
		require.InDelta(t, 256, n, 80, p)
	}

	r.Set(controller.Admission{Shed: controller.Shed{Below: 3, Edge: 0.5}}, 0)
	require.Len(t, r.Priorities(), 1024)
	refused := 0
	for range 20_000 { // each of the 1,024 places is still an older one with a chance of e to the -20
		if _, err := r.Admit(&inbox{}, command.Envelope{Load: byPriority(3)}); err != nil {
			refused++
		}
	}
	require.InDelta(t, 10_000, refused, 500)
	for _, p := range r.Priorities() {
		require.Equal(t, 3, p, "the others are long gone")
	}

	r.Set(controller.Admission{}, 0)
	require.Nil(t, r.Priorities())
}

func TestPrioritiesMayBeAnyNumber(t *testing.T) {
	var p priorities
	for _, n := range []int{0, -1, 1, 1 << 40, -1 << 40} {
		for range 20_000 { // each of the 1,024 places is still an older one with a chance of e to the -20
			p.note(n, rand.Float64())
		}
		require.Contains(t, p.list(), n)
	}
	p.note(math.MaxInt, 0)
	p.note(math.MinInt, 0.999)
}
