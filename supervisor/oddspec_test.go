package supervisor_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/supervisor"
)

// Start refuses a spec before anything runs, and names the place of each fault; or the tree runs, describes itself, and
// stops.
func TestAnySpecIsRefusedWithReasonsOrRuns(t *testing.T) {
	held(t)
	rapid.Check(t, func(t *rapid.T) {
		spec := oddSpec(t, 2)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		tree, err := supervisor.Start(ctx, system, spec)
		if err != nil {
			fault, ok := errors.AsType[*supervisor.SpecError](err)
			require.True(t, ok, "%v", err)
			require.NotEmpty(t, fault.Problem)
			return
		}
		require.NotEmpty(t, tree.Info().String())
		require.NotEmpty(t, tree.Info().Mermaid())
		require.Empty(t, tree.Stop())
		require.NoError(t, tree.Wait())
	})
}

// oddSpec draws a spec that may be invalid.
func oddSpec(t *rapid.T, deep int) (s supervisor.Spec) {
	few := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 5, 9, math.MaxInt, -1})
	s.Name = oddName(t)
	s.Strategy = supervisor.Strategy(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 2, 3, 4, 255}).Draw(t, "strategy"))
	s.AutoShutdown = supervisor.AutoShutdown(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 3}).Draw(t, "auto-shutdown"))
	s.Intensity = supervisor.Intensity{Restarts: few.Draw(t, "restarts"), Within: oddTime(t, "within")}
	if rapid.Bool().Draw(t, "backs off") {
		s.Backoff = supervisor.Backoff{
			First: oddTime(t, "first"), Max: oddTime(t, "max"), Calm: oddTime(t, "calm"),
			Jitter: rapid.SampledFrom([]float64{0, 0.5, 1, -1, 2, math.NaN(), math.Inf(-1)}).Draw(t, "jitter"),
		}
	}
	s.Most = few.Draw(t, "most")
	for range rapid.IntRange(0, 3).Draw(t, "children") {
		s.Children = append(s.Children, oddChild(t, deep))
	}
	return s
}

func oddChild(t *rapid.T, deep int) supervisor.Child {
	c := supervisor.Child{
		Name:        oddName(t),
		Restart:     supervisor.Restart(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 2, 3}).Draw(t, "restart")),
		Significant: rapid.IntRange(0, 9).Draw(t, "significant") == 9,
		Patience:    oddTime(t, "patience"),
		StartLimit:  rapid.SampledFrom([]time.Duration{0, 0, -1, time.Hour, math.MaxInt64}).Draw(t, "start limit"),
	}
	// Bits: a function, a function that reports when it is ready, a supervisor.
	kinds := rapid.SampledFrom([]int{1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 0, 3}).Draw(t, "kinds")
	if kinds&1 != 0 {
		c.Run = func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	if kinds&2 != 0 {
		c.Serve = func(ctx context.Context, ready func()) error { ready(); ready(); <-ctx.Done(); return nil }
	}
	if kinds&4 != 0 && deep > 0 {
		below := oddSpec(t, deep-1)
		c.Supervisor = &below
	}
	return c
}

func oddName(t *rapid.T) string {
	if often(t) {
		return rapid.StringMatching("[a-z]{4}").Draw(t, "name")
	}
	return rapid.SampledFrom([]string{"", "a", "a/b", "a\nb", "$1", "(pools)", "\xff", `"|<&>`}).Draw(t, "odd name")
}

// oddTime draws a time that suits children that end at once, or an odd one.
func oddTime(t *rapid.T, what string) time.Duration {
	if often(t) {
		return time.Minute
	}
	return rapid.SampledFrom([]time.Duration{0, time.Hour, math.MaxInt64, -1, math.MinInt64}).Draw(t, what)
}

// often is true nine times in ten, so that most specs are valid although they hold many odd values.
func often(t *rapid.T) bool { return rapid.IntRange(0, 9).Draw(t, "odd") < 9 }
