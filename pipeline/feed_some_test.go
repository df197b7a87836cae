package pipeline_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/window"
)

// A user's function around a source sees each command, and may change it: no command passes it by.
func TestAFunctionAroundASourceSeesEachCommand(t *testing.T) {
	text := strings.Repeat("7\n", 1000)
	for name, src := range map[string]source.Source[string]{
		"Slice": source.Slice(strings.Fields(text)),
		"Lines": source.Lines(strings.NewReader(text), 0),
	} {
		t.Run(name, func(t *testing.T) {
			sum := 0
			add := stage.Sink("add", func(_ context.Context, n string) error {
				sum += len(n)
				return nil
			}, stage.Workers(1, 1), stage.Capacity(64))
			p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", add, func(ctx context.Context, submit func(string) error) error {
				return src(ctx, func(n string) error { return submit(n + n) })
			}))
			require.NoError(t, err)
			require.NoError(t, p.Run(t.Context()))
			require.Equal(t, 2000, sum)
		})
	}
}

// The lines before a line that is too long are handled, though they were read at once, and the error names the right one.
func TestALineThatIsTooLongIsNamedAndAllBeforeItAreHandled(t *testing.T) {
	text := strings.Repeat("ok\n", 200) + strings.Repeat("x", 11) + "\nnever\n"
	n := 0
	count := stage.Sink("count", func(_ context.Context, line string) error {
		require.Equal(t, "ok", line)
		n++
		return nil
	}, stage.Workers(1, 1), stage.Capacity(1024))
	p, err := pipeline.New("p", quiet, pipeline.Feed("lines", count, source.Lines(strings.NewReader(text), 10)))
	require.NoError(t, err)
	var wrong *source.LineError
	require.ErrorAs(t, p.Run(t.Context()), &wrong)
	require.EqualValues(t, 201, wrong.Line)
	require.EqualValues(t, 600, wrong.Offset)
	s := p.Snapshot()
	require.EqualValues(t, 200, s.Feeds[0].Submitted)
	require.EqualValues(t, 600, s.Feeds[0].Position)
	require.True(t, s.Balanced())
}

// Readers fail in the middle, stages are small, pause, crash, or have a rate: each line is handled once, in order, and the position
// is behind the last one.
func TestEachLineIsHandledOnceWhateverTheStageAndTheReaderDo(t *testing.T) {
	options := map[string][]stage.Option{
		"":         nil,
		"rate":     {stage.Rate(100_000, time.Second, 10)},
		"ordered":  {stage.Ordered()},
		"a minute": {stage.TTL(time.Minute)},
		"refuses":  {stage.Overflow(overflow.Reject)},
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 500).Draw(rt, "lines")
		capacity := rapid.SampledFrom([]int{1, 2, 7, 64, 1000}).Draw(rt, "capacity")
		batch := rapid.SampledFrom([]int{1, 3, 256}).Draw(rt, "batch")
		with := rapid.SampledFrom([]string{"", "rate", "ordered", "a minute", "refuses"}).Draw(rt, "with")
		fails := rapid.Bool().Draw(rt, "the reader fails now and then")
		sliced := rapid.Bool().Draw(rt, "a slice")
		pause := rapid.Bool().Draw(rt, "the stage pauses")
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(time.Second)
			text, lines := "", []string(nil)
			for i := range n {
				lines = append(lines, strconv.Itoa(i))
				text += strconv.Itoa(i) + "\n"
			}
			var got []string
			take := stage.Sink("take", func(_ context.Context, line string) error {
				got = append(got, line)
				if len(got)%50 == 0 {
					time.Sleep(time.Millisecond)
				}
				return nil
			}, append(options[with], stage.Workers(1, 1), stage.Capacity(capacity), stage.Batch(batch))...)
			src := source.Slice(lines)
			if !sliced {
				var r io.Reader = strings.NewReader(text)
				if fails {
					r = &brittle{r: iotest.HalfReader(r)}
				}
				src = source.Lines(r, 0)
			}
			p, err := pipeline.New("p", quiet, pipeline.Feed("lines", take, src))
			require.NoError(t, err)
			if pause {
				go func() {
					time.Sleep(time.Millisecond)
					if p.Pause(take) == nil {
						time.Sleep(time.Second)
						_ = p.Resume(take) // the pipeline may have ended
					}
				}()
			}
			require.NoError(t, p.Run(t.Context()))
			require.Equal(t, lines, got)
			s := p.Snapshot()
			require.EqualValues(t, n, s.Feeds[0].Submitted)
			want := n
			if !sliced {
				want = len(text)
			}
			require.EqualValues(t, want, s.Feeds[0].Position)
			require.True(t, s.Balanced())
		})
	})
}

// Stages of each kind, whose handlers crash, suspend and emit, behind them windows, while policies change: each line is handled, and
// adds to one window.
func TestEachLineIsInOneWindowWhateverItsStageIs(t *testing.T) {
	again := stage.Retry(stage.RetryPolicy{Attempts: 3})
	key := func(line string) string { return line[len(line)-1:] }
	crash := func(ctx context.Context, line string) (string, error) {
		if key(line) == "7" && behaviour.Attempt(ctx) == 1 {
			panic("no")
		}
		return line, nil
	}
	kinds := map[string]func(opts ...stage.Option) *stage.Flow[string, string]{
		"plain": func(opts ...stage.Option) *stage.Flow[string, string] { return stage.Map("s", crash, opts...) },
		"fair": func(opts ...stage.Option) *stage.Flow[string, string] {
			return stage.Map("s", crash, append(opts, stage.Fair(key, nil, 2))...)
		},
		"rate by key": func(opts ...stage.Option) *stage.Flow[string, string] {
			return stage.Map("s", crash, append(opts, stage.RateBy(key, 1000, time.Second, 5))...)
		},
		"ordered": func(opts ...stage.Option) *stage.Flow[string, string] {
			return stage.Map("s", crash, append(opts, stage.Ordered())...)
		},
		"suspending": func(opts ...stage.Option) *stage.Flow[string, string] {
			return stage.FlowOf("s", func(send func(context.Context, string) behaviour.Outcome) (behaviour.Behaviour[string], error) {
				return behaviour.Coroutine[string](func(c behaviour.Suspender, line string) behaviour.Outcome {
					if err := c.Suspend(func(wake func()) { time.AfterFunc(time.Millisecond, wake) }); err != nil {
						return behaviour.Error(err)
					}
					line, err := crash(c, line)
					if err != nil {
						return behaviour.Error(err)
					}
					return send(c, line)
				}), nil
			}, append(opts, stage.Instances(50))...)
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Second)
				const n = 2000
				var text strings.Builder
				for i := range n {
					text.WriteString(strconv.Itoa(i) + "\n")
				}
				of := kind(again, stage.Capacity(100), stage.Restart(stage.RestartPolicy{Limit: n, Backoff: time.Microsecond, Max: time.Microsecond}))
				count := window.All("count", window.Bounds[string]{Count: 7, Time: time.Minute})
				got := map[string]int{}
				end := stage.Sink("end", func(_ context.Context, w window.Window[struct{}, []string]) error {
					for _, line := range w.Value {
						got[line]++
					}
					return nil
				}, stage.Workers(1, 1))
				p, err := pipeline.New("p", quiet, of.To(count), count.To(end), pipeline.Feed("lines", of, source.Lines(strings.NewReader(text.String()), 0)))
				require.NoError(t, err)
				go func() {
					for _, law := range []controller.Policy{policy.Cohort{}, policy.LRB{}, policy.Fixed{}, policy.SEDA{}} {
						time.Sleep(5 * time.Millisecond)
						_ = p.SetPolicy(law) // the pipeline may have ended
					}
				}()
				require.NoError(t, p.Run(t.Context()))
				require.Len(t, got, n)
				for line, times := range got {
					require.Equal(t, 1, times, line)
				}
				s := p.Snapshot()
				require.True(t, s.Balanced(), s.Law())
				require.EqualValues(t, text.Len(), s.Feeds[0].Position)
				require.Zero(t, p.Failures().Len()+p.DeadLetters().Len())
			})
		})
	}
}

// brittle is a reader that fails at each third Read, and goes on.
type brittle struct {
	r io.Reader
	n int
}

func (f *brittle) Read(p []byte) (int, error) {
	if f.n++; f.n%3 == 0 && f.n < 20 {
		return 0, errors.New("the disk is away")
	}
	return f.r.Read(p[:min(len(p), 300)])
}
