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

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
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
