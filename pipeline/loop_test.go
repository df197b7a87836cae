package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// tree is a loop of two stages, a → b → a, in which b sends two commands back for each command above the depth of the tree: one command
// becomes 2^(depth+1) - 1.
type tree struct {
	p     *pipeline.Pipeline
	a, b  *stage.Stage[int]
	depth int
	back  func(ctx context.Context, tr *tree, depth int) behaviour.Outcome

	nodes   atomic.Int64 // commands that b handled
	refused atomic.Int64 // calls of Emit that returned an error

	mu  sync.Mutex // guards err
	err error      // the last error of Emit
}

// emit handles a command of b, whose back edge is taken with Emit.
func (tr *tree) emit(ctx context.Context, depth int) {
	if err := behaviour.Emit(ctx, tr.a, depth); err != nil {
		tr.refused.Add(1)
		tr.mu.Lock()
		tr.err = err
		tr.mu.Unlock()
	}
}

func byEmit(ctx context.Context, tr *tree, depth int) behaviour.Outcome {
	tr.emit(ctx, depth+1)
	tr.emit(ctx, depth+1)
	return behaviour.OK(nil)
}

func byForward(ctx context.Context, tr *tree, depth int) behaviour.Outcome {
	tr.emit(ctx, depth+1)
	return behaviour.Forward(tr.a, depth+1)
}

func (tr *tree) grow(ctx context.Context, depth int) behaviour.Outcome {
	tr.nodes.Add(1)
	if depth == tr.depth {
		return behaviour.OK(nil)
	}
	return tr.back(ctx, tr, depth)
}

// start makes the stages, a with the options, and starts the pipeline.
func (tr *tree) start(t *testing.T, opts []stage.Option, parts ...pipeline.Part) {
	t.Helper()
	tr.b = stage.Func("b", tr.grow, stage.Capacity(16))
	tr.a = stage.Func("a", func(_ context.Context, depth int) behaviour.Outcome {
		return behaviour.Forward(tr.b, depth)
	}, opts...)
	tr.p = startAlone(t, append([]pipeline.Part{tr.a, tr.b}, parts...)...)
}

func TestALoopThatFansOutLosesNoCommand(t *testing.T) {
	ways := map[string]func(context.Context, *tree, int) behaviour.Outcome{
		"emitted": byEmit, "emitted and forwarded": byForward,
	}
	rules := map[string]overflow.Rule{
		"wait": overflow.Wait, "reject": overflow.Reject, "drop newest": overflow.DropNewest, "drop oldest": overflow.DropOldest,
	}
	depth := 14
	if fewer(2) < 2 {
		depth = 11
	}
	policies := map[string]controller.Policy{"own workers": policy.Fixed{}, "shared workers": policy.SRPT{}}
	for wayName, way := range ways {
		for ruleName, rule := range rules {
			for policyName, law := range policies {
				t.Run(wayName+", "+ruleName+", "+policyName, func(t *testing.T) {
					tr := &tree{depth: depth, back: way}
					tr.start(t, []stage.Option{stage.Capacity(16), stage.Overflow(rule)}, pipeline.System(system()), pipeline.Control(law))
					require.NoError(t, tr.a.Submit(t.Context(), 0))
					require.NoError(t, tr.p.Stop(soon(t)))
					atRest(t, tr.p)
					sn := tr.p.Snapshot()
					require.Zero(t, tr.refused.Load(), "%v", tr.err)
					require.EqualValues(t, 2<<depth-1, tr.nodes.Load(), sn.Law())
					require.Zero(t, sn.Failed+sn.Shed+sn.DeadLettered, sn.Law())
				})
			}
		}
	}
}

// inLog collects what a pipeline logs.
type inLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *inLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *inLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The bound refuses a command with an error of Emit, or sheds it; both leave a letter.
func TestALoopBeyondMaxInFlightLeavesALetterForEachCommandRefused(t *testing.T) {
	for name, way := range map[string]func(context.Context, *tree, int) behaviour.Outcome{
		"emitted": byEmit, "emitted and forwarded": byForward,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log inLog
				var heard atomic.Int64
				tr := &tree{depth: 12, back: way}
				tr.start(t, []stage.Option{stage.Capacity(16)}, pipeline.MaxInFlight(200),
					pipeline.KeepLetters(letters.Options{Most: 1 << 16}), pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))),
					pipeline.DeadLetters(func(stage.DeadLetter) { heard.Add(1) }))
				require.NoError(t, tr.a.Submit(t.Context(), 0))
				require.NoError(t, tr.p.Stop(t.Context()))
				atRest(t, tr.p)
				sn := tr.p.Snapshot()

				require.ErrorIs(t, tr.err, stage.ErrMaxInFlight)
				require.ErrorContains(t, tr.err, "pipeline.MaxInFlight (200)")
				require.ErrorContains(t, tr.err, `stage "a"`)
				list := tr.p.DeadLetters().List(letters.Filter{Reason: reason.MaxInFlight})
				require.EqualValues(t, len(list), uint64(tr.refused.Load())+sn.Shed, sn.Law())
				require.EqualValues(t, len(list), heard.Load())
				lost := 0 // the commands of the trees below refused ones
				for _, l := range list {
					lost += 1<<(tr.depth-l.Command.(int)+1) - 1
				}
				require.Equal(t, 1<<(tr.depth+1)-1, int(tr.nodes.Load())+lost, "each command was handled or is below a letter")
				require.Equal(t, 2, strings.Count(log.String(), "msg=\"commands refused"), "one line in a second, and one at the end")
				require.Regexp(t, fmt.Sprintf("left_out=%d", len(list)-1), log.String())
			})
		})
	}
}

// A command that is forwarded is in flight already, so the bound does not concern it.
func TestALoopThatOnlyForwardsShedsNothingAtASmallMaxInFlight(t *testing.T) {
	for _, limit := range []int{1, 4, 8} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			const submitters, each, rounds = 8, 50, 10
			tr := &tree{depth: rounds, back: func(_ context.Context, tr *tree, depth int) behaviour.Outcome {
				return behaviour.Forward(tr.a, depth+1)
			}}
			tr.start(t, nil, pipeline.MaxInFlight(limit))
			var wg sync.WaitGroup
			for range submitters {
				wg.Go(func() {
					for range each {
						if err := tr.a.Submit(t.Context(), 0); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, tr.p.Stop(soon(t)))
			atRest(t, tr.p)
			sn := tr.p.Snapshot()
			require.Zero(t, sn.Shed+sn.DeadLettered, sn.Law())
			require.EqualValues(t, submitters*each*(rounds+1), tr.nodes.Load())
		})
	}
}

// A loop may grow where a handler emits or submits, on a back edge or ahead of it; the bound holds for all of them.
func TestALoopThatFansOutStaysWithinMaxInFlight(t *testing.T) {
	const limit, batches = 300, 2 * 2 * 64 * 2 // two stages of two workers, whose handlers each hold two commands of a batch
	send := map[string]func(context.Context, *tree, int) error{
		"emits": func(ctx context.Context, tr *tree, depth int) error { return behaviour.Emit(ctx, tr.b, depth) },
		"submits": func(ctx context.Context, tr *tree, depth int) error {
			if err := tr.b.Submit(ctx, depth); !errors.Is(err, stage.ErrFull) {
				return err
			}
			return nil
		},
	}
	forwards := func(_ context.Context, tr *tree, depth int) behaviour.Outcome {
		if tr.nodes.Load() > 200_000 { // nothing bounds the loop: the test fails, but it must end
			return behaviour.OK(nil)
		}
		return behaviour.Forward(tr.a, depth+1)
	}
	for name, row := range map[string]struct {
		ahead func(context.Context, *tree, int) error // what a does besides forwarding to b; nil: nothing
		back  func(context.Context, *tree, int) behaviour.Outcome
	}{
		"b emits and forwards back":          {nil, byForward},
		"a emits, and b forwards back":       {send["emits"], forwards},
		"a submits, and b forwards back":     {send["submits"], forwards},
		"a emits, b emits and forwards back": {send["emits"], byForward},
	} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Int64
			tr := &tree{depth: 40, back: row.back}
			tr.b = stage.Func("b", tr.grow, stage.Capacity(100), stage.Workers(2, 2))
			tr.a = stage.Func("a", func(ctx context.Context, depth int) behaviour.Outcome {
				if row.ahead != nil {
					if err := row.ahead(ctx, tr, depth); err != nil {
						assert.ErrorIs(t, err, stage.ErrMaxInFlight)
						refused.Add(1)
					}
				}
				return behaviour.Forward(tr.b, depth)
			}, stage.Capacity(40), stage.Workers(2, 2))
			tr.p = startAlone(t, tr.a, tr.b, pipeline.MaxInFlight(limit), pipeline.DeadLetters(func(stage.DeadLetter) {}))
			require.NoError(t, tr.a.Submit(t.Context(), 0))
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				assert.NoError(t, tr.p.Drain(soon(t)))
			}()
			var most uint64
			until(drained, func() { most = max(most, tr.p.Snapshot().InFlight) })
			require.LessOrEqual(t, most, uint64(limit+batches), "the bound, and what the handlers of a batch emit")
			require.Positive(t, tr.refused.Load()+refused.Load(), "the loop came to the bound")
			require.Zero(t, tr.p.Snapshot().Shed)
			require.NoError(t, tr.p.Stop(soon(t)))
		})
	}
}

func TestAMaxInFlightBelowOneIsAFault(t *testing.T) {
	_, err := pipeline.New("p", stage.New("a", fn(echo[int])), pipeline.MaxInFlight(0))
	require.ErrorContains(t, err, "MaxInFlight: 0 must be at least 1")
}

func TestCommandsFromOutsideLeaveHalfOfMaxInFlightToLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var tr tree
		tr.back = func(context.Context, *tree, int) behaviour.Outcome { <-gate; return behaviour.OK(nil) }
		out := behaviour.NewPort[int]("again")
		tr.b = stage.Func("b", func(ctx context.Context, n int) behaviour.Outcome { return tr.back(ctx, &tr, n) }, stage.Out(out))
		tr.a = stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(tr.b, n) })
		p := startAlone(t, tr.a, tr.b, pipeline.Wire(out, tr.a), pipeline.MaxInFlight(20), pipeline.Control(policy.Fixed{}))
		require.NoError(t, tr.b.Submit(t.Context(), -1))
		accepted := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := tr.a.Submit(ctx, accepted)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				break
			}
			accepted++
			synctest.Wait()
		}
		require.Equal(t, 9, accepted, "and the one that b holds")
		close(gate)
		require.NoError(t, p.Stop(t.Context()))
	})
}
