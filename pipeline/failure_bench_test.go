package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkFailing measures commands that all fail, and that no caller waits for.
func BenchmarkFailing(b *testing.B) {
	sentinel := errors.New("no such page")
	for _, c := range []struct {
		name string
		fail func(n int) error
	}{
		{"sentinel", func(int) error { return sentinel }},
		{"wrapped", func(n int) error { return fmt.Errorf("page %d: %w", n, sentinel) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				return behaviour.Error(c.fail(n))
			}, stage.Capacity(4096))
			p, err := pipeline.New("failing", s, quiet, pipeline.System(system()), pipeline.Control(policy.Fixed{}))
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			cmds := make([]int, 256)
			for i := range cmds {
				cmds[i] = i
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += len(cmds) {
				_, _ = s.SubmitAll(b.Context(), cmds[:min(len(cmds), b.N-done)]...)
			}
			_ = p.Stop(context.Background())
		})
	}
}
