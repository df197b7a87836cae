package stagetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func TestAnInjectorIsMiddlewareOfAnyKindOfStage(t *testing.T) {
	same := func(_ context.Context, n int) (int, error) { return n, nil }
	id := func(n int) int { return n }
	var story []string
	use := func(in *stagetest.Injector) stage.Option { return stage.Middleware(in.Middleware) }
	for name, kind := range map[string]func(in *stagetest.Injector) *stage.Stage[int]{
		"a flow": func(in *stagetest.Injector) *stage.Stage[int] { return stage.Map("s", same, use(in)).Stage },
		"a keyed stage": func(in *stagetest.Injector) *stage.Stage[int] {
			return stage.Keyed("s", id, func(int) behaviour.Behaviour[int] { return behaviour.Func[int](ok) }, use(in))
		},
		"a batcher": func(in *stagetest.Injector) *stage.Stage[int] {
			return stage.New[int]("s", all{&story}, use(in), stage.Batch(1), stage.Instances(1))
		},
		"a suspending handler": func(in *stagetest.Injector) *stage.Stage[int] {
			return stage.New[int]("s", behaviour.Coroutine[int](func(_ behaviour.Suspender, n int) behaviour.Outcome { return behaviour.OK(n) }), use(in))
		},
		"behind other middleware that derives a context": func(in *stagetest.Injector) *stage.Stage[int] {
			derive := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return next(ctx, cmd)
			}
			return stage.New[int]("s", behaviour.Coroutine[int](func(_ behaviour.Suspender, n int) behaviour.Outcome { return behaviour.OK(n) }),
				stage.Middleware(derive), use(in))
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 200
			in := stagetest.Inject(t, 3, stagetest.Faults{Error: 0.2, Panic: 0.05, Delay: 0.1})
			s := kind(in)
			trial := stagetest.Run(t, s, pipeline.Entry(s))
			for i := range n {
				_, _ = stage.Call[int](t.Context(), s, i)
			}
			st := trial.Snapshot().Stages[0]
			require.Equal(t, in.Count(stagetest.Error), st.Counts.Errors)
			require.Equal(t, in.Count(stagetest.Panic), st.Counts.Crashes)
			require.Positive(t, st.Counts.OK)
			require.Positive(t, in.Count(stagetest.Delay))
		})
	}
}

func ok(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }
