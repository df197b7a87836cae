package pipeline_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkCrashing measures a no-op handler in which 1 % of the commands crash. A command has up to three attempts: "once"
// commands crash in the first attempt only, "poison" commands in all.
func BenchmarkCrashing(b *testing.B) {
	crash := func() { panic("boom") }
	for _, c := range []struct {
		name  string
		times int // how often a bad command crashes
		crash func()
	}{
		{"none", 0, nil},
		{"panic/once", 1, crash},
		{"panic/poison", 3, crash},
		{"goexit/once", 1, runtime.Goexit},
		{"goexit/poison", 3, runtime.Goexit},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := stage.Func("s", func(_ context.Context, left *int) behaviour.Outcome {
				if *left > 0 {
					*left--
					c.crash()
				}
				return behaviour.OK(nil)
			}, stage.Workers(1, 1), stage.Capacity(4096), stage.Retry(stage.RetryPolicy{Attempts: 3}))
			p, err := pipeline.New("crashing", s, quiet, pipeline.System(system()), pipeline.Control(policy.Fixed{}))
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			good := new(int)
			cmds := make([]*int, 100)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += len(cmds) {
				for i := range cmds {
					cmds[i] = good
				}
				bad := c.times
				cmds[len(cmds)/2] = &bad
				_, _ = s.SubmitAll(b.Context(), cmds[:min(len(cmds), b.N-done)]...)
			}
			_ = p.Stop(context.Background())
		})
	}
}
