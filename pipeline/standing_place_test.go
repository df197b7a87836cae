package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// fourAtOnce is a source of which at most four commands are in the pipeline.
func fourAtOnce(ctx context.Context, _ func(int) error) error {
	return feed.SetBound(ctx, feed.Bound{Most: 4, Source: `source "few"`, Option: "Most"})
}

func init() { feed.Bounds("github.com/golda-dev/golda/pipeline_test.fourAtOnce") }

// A command has ended for its feed when the carrier has it: a window of another process holds it there.
func TestAWindowOfAnotherProcessDoesNotHoldUpAFeed(t *testing.T) {
	saved := source.Checkpoint(source.Slice([]int{1}), 0, func(context.Context, int64) error { return nil })
	for name, src := range map[string]source.Source[int]{"with a bound": fourAtOnce, "with a checkpoint": saved} {
		made := func(process string, here, there pipeline.Part) error {
			load := stage.Map("load", func(_ context.Context, n int) (int, error) { return n, nil })
			sum := window.All("sum", window.Bounds[int]{Count: 1_000_000, Held: 2_000_000})
			_, err := pipeline.New("sums", quiet, load.To(led(sum)), pipeline.Feed("numbers", load, src),
				here, there, pipeline.RunsHere(newBroker().process(), process))
			return err
		}
		here, there := pipeline.Assign("a", "load"), pipeline.Assign("b", "sum", "end")
		require.NoError(t, made("a", here, there), name)
		require.NoError(t, made("b", here, there), name)
		err := made("a", pipeline.Assign("a", "load", "sum"), pipeline.Assign("b", "end"))
		require.ErrorContains(t, err, `Feed "numbers": `, name)
		require.ErrorContains(t, err, `only 1000000 commands close a window of stage "sum"`, name)
	}
}

func TestCommandsOfOtherProcessesCloseAWindowToo(t *testing.T) {
	load := stage.Map("load", func(_ context.Context, n int) (int, error) { return n, nil })
	other := stage.Map("other", func(_ context.Context, n int) (int, error) { return n, nil })
	sum := window.All("sum", window.Bounds[int]{Count: 9})
	_, err := pipeline.New("sums", quiet, load.To(sum), other.To(led(sum)), pipeline.Feed("numbers", load, source.Source[int](fourAtOnce)),
		pipeline.Assign("a", "load", "sum", "end"), pipeline.Assign("b", "other"), pipeline.RunsHere(newBroker().process(), "a"))
	require.NoError(t, err)
}

// New and Add look at the same pipeline.
func TestAFeedIsAddedBeforeAWindowOfAnotherProcess(t *testing.T) {
	saved := source.Checkpoint(source.Slice([]int{1}), 0, func(context.Context, int64) error { return nil })
	for name, here := range map[string]bool{"a window of this process": true, "a window of another process": false} {
		load := stage.Map("load", func(_ context.Context, n int) (int, error) { return n, nil })
		sum := window.All("sum", window.Bounds[int]{Count: 1_000_000, Held: 2_000_000})
		places := []pipeline.Part{pipeline.Assign("a", "load"), pipeline.Assign("b", "sum", "end"), pipeline.RunsHere(newBroker().process(), "a")}
		if here {
			places = nil
		}
		p, err := pipeline.New("sums", append(places, quiet, load.To(led(sum)))...)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		err = p.Add(t.Context(), pipeline.Feed("numbers", load, saved))
		if here {
			require.ErrorContains(t, err, `only 1000000 commands close a window of stage "sum"`, name)
		} else {
			require.NoError(t, err, name)
		}
		require.NoError(t, p.Stop(t.Context()))
	}
}
