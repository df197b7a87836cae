package stage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkGuard measures what a command costs in a stage of one kind or another, and in one with a guard beside commands that
// another guard holds back.
func BenchmarkGuard(b *testing.B) {
	ok := func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) }
	first := func(any) int { return 0 }
	open, shut := stage.Guard("put", func(n count) bool { return n("put").Current < 4 }), stage.Guard("get", func(count) bool { return false })
	kinds := []struct {
		name string
		s    func() *stage.Stage[any]
		held int
	}{
		{"no guard", func() *stage.Stage[any] { return stage.Func("s", ok) }, 0},
		{"keyed", func() *stage.Stage[any] {
			return stage.Keyed("s", first, func(int) behaviour.Func[any] { return ok })
		}, 0},
		{"guard", func() *stage.Stage[any] { return stage.Func("s", ok, open) }, 0},
	}
	for _, held := range []int{10, 10_000} {
		kinds = append(kinds, struct {
			name string
			s    func() *stage.Stage[any]
			held int
		}{fmt.Sprintf("guard beside %d held", held), func() *stage.Stage[any] {
			return stage.Func("s", ok, open, shut, stage.Capacity(held+1024))
		}, held})
	}
	for _, kind := range kinds {
		b.Run(kind.name, func(b *testing.B) {
			s := kind.s()
			p, err := pipeline.New("bench", s, quiet, pipeline.Control(policy.Fixed{}))
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			for range kind.held {
				require.NoError(b, s.Submit(b.Context(), get{}))
			}
			var cmd any = put{1}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Submit(context.Background(), cmd); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = p.Stop(ctx)
		})
	}
}
