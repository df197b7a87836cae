package pipeline_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// passTo makes a stage that forwards to another, as a stage of ERLDA does: {forward, NextStagePid, NewCommand}.
func passTo(name string, next *stage.Stage[int], opts ...stage.Option) *stage.Stage[int] {
	return stage.Func(name, func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(next, n) }, opts...)
}

func TestStagesThatAreForwardedToAreKnownByOut(t *testing.T) {
	last := stage.Func("last", echo[int])
	second := passTo("second", last, stage.Out(last))
	first := passTo("first", second, stage.Out(second))
	p := run(t, pipeline.Entry(first), second, last)
	require.Equal(t, map[string][]string{"first": {"second"}, "second": {"last"}}, p.Successors())
	require.Contains(t, p.Mermaid(), `s0 -->|"second"| s1`)
	n, err := stage.Call[int](soon(t), first, 7)
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

func TestAStageThatIsForwardedToInSecretIsUnreachable(t *testing.T) {
	last := stage.Func("last", echo[int])
	_, err := pipeline.New("p", pipeline.Entry(passTo("first", last)), last)
	require.ErrorContains(t, err, `stage "last": is unreachable: no declared port leads to it from an entry; stage.Out declares`)
}

func TestAStageThatIsDeclaredMustBeInThePipeline(t *testing.T) {
	last := stage.Func("last", echo[int])
	_, err := pipeline.New("p", passTo("first", last, stage.Out(last)))
	require.ErrorContains(t, err, `stage "first": forwards to "last", which is not part of this pipeline; `+
		`for a stage of another pipeline use a channel, see source.Chan`)
	for _, missing := range []behaviour.Outlet{(*stage.Stage[int])(nil), &stage.Stage[int]{}, &stage.Flow[int, int]{}, (*stage.Flow[int, int])(nil)} {
		_, err = pipeline.New("p", stage.Func("s", echo[int], stage.Out(missing)))
		require.ErrorContains(t, err, `Out(port 1)`)
		require.ErrorContains(t, err, `is nil, or a stage that was not made with a function of this package`)
	}
}

func TestAChannelLeadsFromOnePipelineToAnother(t *testing.T) {
	arrived := make(chan int, 1)
	far := stage.Func("far", func(_ context.Context, n int) behaviour.Outcome {
		arrived <- n
		return behaviour.OK(n)
	})
	between := make(chan int)
	near := stage.Func("near", func(ctx context.Context, n int) behaviour.Outcome {
		if n < 0 {
			return behaviour.Forward(far, n)
		}
		select {
		case between <- n:
			return behaviour.OK(nil)
		case <-ctx.Done():
			return behaviour.Error(ctx.Err())
		}
	})
	p := run(t, near)
	q := run(t, far, pipeline.Feed("near", far, source.Chan(between)))
	_, err := stage.Call[any](soon(t), near, 1)
	require.NoError(t, err)
	require.Equal(t, 1, <-arrived)
	require.NoError(t, q.Drain(soon(t)))
	require.EqualValues(t, 1, q.Snapshot().Replied)
	_, err = stage.Call[any](soon(t), near, -1)
	require.ErrorIs(t, err, stage.ErrForeign)
	require.ErrorContains(t, err, "source.Chan")
	require.NoError(t, p.Drain(soon(t)))
	s := p.Snapshot()
	require.EqualValues(t, s.Accepted, s.Replied+s.Failed)
}

func TestPlaceKnowsTheStagesThatAreForwardedTo(t *testing.T) {
	b, handled := newBroker(), make(chan string, 1)
	start := func(process string) (*pipeline.Pipeline, *stage.Stage[int]) {
		last := stage.Func("last", func(context.Context, int) behaviour.Outcome {
			handled <- process
			return behaviour.OK(nil)
		})
		first := passTo("first", last, stage.Out(last))
		return start(t, pipeline.Entry(first), last, pipeline.Assign("here", "first"), pipeline.Assign("there", "last"),
			pipeline.RunsHere(b.process(), process)), first
	}
	here, first := start("here")
	there, _ := start("there")
	submit(t, first, 1)
	require.Equal(t, "there", <-handled)
	require.NoError(t, here.Stop(soon(t)))
	require.NoError(t, there.Stop(soon(t)))
}

func TestTheTreeCountsWorkersAndTheirCrashes(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
		if n < 0 {
			panic("negative")
		}
		return behaviour.OK(n)
	}, stage.Workers(2, 2))
	p := run(t, s)
	require.Contains(t, p.Tree().String(), "workers: 2, crashes: 0, replaced: 0")
	_, err := stage.Call[int](soon(t), s, -1)
	var crash *stage.CrashError
	require.ErrorAs(t, err, &crash)
	_, err = stage.Call[int](soon(t), s, 1)
	require.NoError(t, err)
	eventually(t, "the worker is replaced, for which the other one did not wait", func() bool { return strings.Contains(p.Tree().String(), "crashes: 1, replaced: 1") })
}
