package source_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errNo = errors.New("no")

// feeder runs a source as a feed does, again and again until it is exhausted or fails for good.
type feeder[C any] struct {
	cursor feed.Cursor
	got    []C
	at     []int64      // the positions after the commands
	refuse func() error // called before each command is accepted
}

// once runs the source once.
func (f *feeder[C]) once(ctx context.Context, src source.Source[C]) error {
	return src(feed.With(ctx, &f.cursor), func(cmd C) error {
		err := f.cursor.Submit(ctx, func(feed.Terms) error {
			if f.refuse != nil {
				if err := f.refuse(); err != nil {
					return err
				}
			}
			f.got = append(f.got, cmd)
			return nil
		})
		if err == nil {
			f.at = append(f.at, f.cursor.Position())
		}
		return err
	})
}

// run runs the source until it returns something other than errNo.
func (f *feeder[C]) run(ctx context.Context, src source.Source[C]) error {
	for {
		if err := f.once(ctx, src); !errors.Is(err, errNo) {
			return err
		}
	}
}

func isFatal(err error) bool {
	_, ok := errors.AsType[*feed.FatalError](err)
	return ok
}

func TestASourceNeedsNoFeed(t *testing.T) {
	var got []string
	submit := func(s string) error { got = append(got, s); return nil }
	require.NoError(t, source.Lines(strings.NewReader("a\nb"), 0)(t.Context(), submit))
	require.NoError(t, source.Seq(slices.Values([]string{"c"}))(t.Context(), submit))
	require.NoError(t, source.Slice([]string{"d"})(t.Context(), submit))
	require.NoError(t, source.Checkpoint(source.Slice([]string{"e"}), 0, func(context.Context, int64) error { return nil })(t.Context(), submit))
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, got)
	require.Zero(t, source.Position(t.Context()))
}

// Every source that knows its position submits each command once, whatever fails in between.
func TestASourceThatFailsAtRandomSubmitsEachCommandOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.StringMatching(`[a-c]{0,5}`)).Draw(t, "commands")
		text := strings.Join(append(slices.Clone(want), ""), "\n")
		all := map[string]func() source.Source[string]{
			"slice": func() source.Source[string] { return source.Slice(want) },
			"seq":   func() source.Source[string] { return source.Seq(slices.Values(want)) },
			"lines": func() source.Source[string] { return source.Lines(strings.NewReader(text), 0) },
			"lines of a reader that fails": func() source.Source[string] {
				return source.Lines(&flaky{r: iotest.OneByteReader(strings.NewReader(text))}, 0)
			},
			"from": func() source.Source[string] {
				return source.From(func(_ context.Context, from int64, submit func(string, int64) error) error {
					for i := from / 10; i < int64(len(want)); i++ {
						if err := submit(want[i], 10*(i+1)); err != nil {
							return err
						}
					}
					return nil
				})
			},
		}
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "kind")
		failing := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(t, "failing")
		n := 0
		f := &feeder[string]{refuse: func() error {
			if n++; n < 200 && failing[n%len(failing)] && n%len(failing) > 0 {
				return errNo
			}
			return nil
		}}
		require.NoError(t, f.run(context.Background(), all[kind]()))
		require.Len(t, f.got, len(want))
		for i := range want {
			require.Equal(t, want[i], f.got[i])
		}
		require.True(t, slices.IsSorted(f.at))
	})
}

// flaky is a reader of which every third Read fails.
type flaky struct {
	r io.Reader
	n int
}

func (f *flaky) Read(p []byte) (int, error) {
	if f.n++; f.n%3 == 0 {
		return 0, errNo
	}
	return f.r.Read(p)
}

func TestLinesAreWhatAScannerFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\r\n"))).Draw(t, "text")
		var want []string
		for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
			want = append(want, s.Text())
		}
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		f := &feeder[string]{}
		require.NoError(t, f.run(context.Background(), source.Lines(r, 0)))
		require.Equal(t, want, f.got)
		require.EqualValues(t, len(text), f.cursor.Position())
	})
}

func TestALineThatIsTooLongIsNamed(t *testing.T) {
	for _, text := range []string{"one\r\nfour\nfive\ntoolong\nmore", "one\r\nfour\nfive\ntoolong"} {
		f := &feeder[string]{}
		err := f.run(t.Context(), source.Lines(strings.NewReader(text), 4))
		require.ErrorIs(t, err, bufio.ErrTooLong)
		require.True(t, isFatal(err))
		require.EqualError(t, err, "source: line 4 (at byte 15): bufio.Scanner: token too long: more than 4 bytes")
		var line *source.LineError
		require.ErrorAs(t, err, &line)
		require.Equal(t, []string{"one", "four", "five"}, f.got, "what comes before is submitted")
	}
}

func TestLinesMayBeAsLongAsTheyMay(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	f := &feeder[string]{}
	require.NoError(t, f.run(t.Context(), source.Lines(strings.NewReader(long+"\r\n"+long), len(long))))
	require.Equal(t, []string{long, long}, f.got)
	require.True(t, isFatal((&feeder[string]{}).run(t.Context(), source.Lines(strings.NewReader(long), 0))))
}

func TestAReaderThatMisbehavesIsAnErrorOfTheLine(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"panics":        readerFunc(func([]byte) (int, error) { panic("no reader") }),
		"counts wrong":  readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }),
		"fails at once": iotest.ErrReader(errors.New("no disk")),
	} {
		err := (&feeder[string]{}).once(t.Context(), source.Lines(r, 0))
		require.ErrorContains(t, err, "source: line 1 (at byte 0): ", name)
		require.False(t, isFatal(err), "the next Read may succeed")
	}
}

func TestAFileThatCannotBeReadEndsItsFeedAtOnce(t *testing.T) {
	closed, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	directory, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = directory.Close() }()
	for name, c := range map[string]struct {
		file *os.File
		want error
	}{
		"it was closed":     {closed, fs.ErrClosed},
		"it is a directory": {directory, syscall.EISDIR},
	} {
		if runtime.GOOS == "windows" && c.file == directory {
			continue // there the error has another number
		}
		err := (&feeder[string]{}).once(t.Context(), source.Lines(c.file, 0))
		require.ErrorIs(t, err, c.want, name)
		require.ErrorContains(t, err, c.file.Name(), name)
		require.True(t, isFatal(err), name)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestLinesReturnAlthoughAReadDoesNotAndLoseNothing(t *testing.T) {
	r, w := io.Pipe()
	src := source.Lines(r, 0)
	f := &feeder[string]{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, f.once(ctx, src), context.DeadlineExceeded)
	go func() {
		_, _ = io.WriteString(w, "one\ntwo\n")
		_ = w.Close()
	}()
	require.NoError(t, f.once(t.Context(), src))
	require.Equal(t, []string{"one", "two"}, f.got)
}

func TestLinesAreForOneFeed(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	lines := source.Lines(r, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	got := make(chan string)
	go func() { first <- lines(ctx, func(line string) error { got <- line; return nil }) }()
	_, err := io.WriteString(w, "one\n")
	require.NoError(t, err)
	require.Equal(t, "one", <-got)
	err = lines(ctx, func(string) error { t.Error("a line"); return nil })
	require.EqualError(t, err, "source: Lines: another feed reads these lines: make a source for each")
	_, err = io.WriteString(w, "two\n")
	require.NoError(t, err)
	require.Equal(t, "two", <-got)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
}

func TestLinesBeginAtACheckpoint(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	text := "one\ntwo\nthree\n"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	save := func(context.Context, int64) error { return nil }
	open := func() *os.File {
		file, err := os.Open(name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	for kind, r := range map[string]io.Reader{
		"a file": open(), "a reader": iotest.OneByteReader(open()),
	} {
		f := &feeder[string]{}
		require.NoError(t, f.run(t.Context(), source.Checkpoint(source.Lines(r, 0), 4, save)), kind)
		require.Equal(t, []string{"two", "three"}, f.got, kind)
		require.Equal(t, []int64{8, 14}, f.at, kind)
	}
	f := &feeder[string]{}
	require.NoError(t, f.run(t.Context(), source.Lines(open(), 0)))
	require.EqualValues(t, len(text), f.cursor.Total())

	for kind, r := range map[string]io.Reader{"a file": open(), "a reader": iotest.OneByteReader(open())} {
		err := (&feeder[string]{}).run(t.Context(), source.Checkpoint(source.Lines(r, 0), 15, save))
		require.ErrorContains(t, err, "the position 15 is behind the end", kind)
		require.True(t, isFatal(err))
	}
	refused := source.Checkpoint(source.Lines(open(), 0), -1, save)
	require.True(t, isFatal((&feeder[string]{}).run(t.Context(), refused)))
}

func TestFilesAreNamedInOrderAndOnce(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.log", "a.log", "c.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	f := &feeder[string]{}
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, f.run(t.Context(), source.Files(at("*.log"), at("a.*"), at("c.txt"), at("*.none"))))
	require.Equal(t, []string{at("a.log"), at("b.log"), at("c.txt")}, f.got)
	require.EqualValues(t, 3, f.cursor.Total())

	err := (&feeder[string]{}).run(t.Context(), source.Files(at("d.log")))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "d.log")
	require.True(t, isFatal(err))
	err = (&feeder[string]{}).run(t.Context(), source.Files("[a"))
	require.ErrorIs(t, err, filepath.ErrBadPattern)
	require.True(t, isFatal(err))
}

func TestAPatternWhoseDirectoryCannotBeReadEndsTheFeed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, pattern := range map[string]string{
		"the directory is missing":             filepath.Join(dir, "missing", "*.log"),
		"so is one above it":                   filepath.Join(dir, "missing", "more", "a[bc].log"),
		"the directory is a file":              filepath.Join(file, "*.log"),
		"wildcards are in two of the elements": filepath.Join(dir, "missing", "*", "?.log"),
	} {
		err := (&feeder[string]{}).run(t.Context(), source.Files(pattern))
		require.ErrorContains(t, err, strconv.Quote(pattern), name)
		require.True(t, isFatal(err), name)
	}
	t.Chdir(dir)
	for _, pattern := range []string{"*.log", "*/*.log", "fil[e]/*"} {
		require.NoError(t, (&feeder[string]{}).run(t.Context(), source.Files(pattern)), pattern)
	}
}

func TestACheckpointBehindTheLastElementEndsTheFeed(t *testing.T) {
	three := []int{1, 2, 3}
	for name, src := range map[string]source.Source[int]{"Slice": source.Slice(three), "Seq": source.Seq(slices.Values(three))} {
		at := func(from int64) source.Source[int] {
			return source.Checkpoint(src, from, func(context.Context, int64) error { return nil })
		}
		require.NoError(t, (&feeder[int]{}).run(t.Context(), at(3)), "all were handled")
		err := (&feeder[int]{}).run(t.Context(), at(4))
		require.EqualError(t, err, "source: "+name+": the position 4 is behind the end at 3")
		require.True(t, isFatal(err))
	}
}

func TestAFileThatIsTruncatedWhileItIsReadEndsTheFeed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("line\n"), 100_000), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	truncate := sync.OnceValue(func() error { return os.Truncate(name, 100_000) })
	f := &feeder[string]{refuse: truncate}
	err = f.run(t.Context(), source.Lines(file, 0))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "source: line 20001 (at byte 100000): unexpected EOF: the file had 500000 bytes, and now ends at 100000")
	require.True(t, isFatal(err))
	require.Len(t, f.got, 20_000)
}

func TestAFileWhoseNameHasWildcardsIsFound(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a[1].log", "a1.log", "[b"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	f := &feeder[string]{}
	require.NoError(t, f.run(t.Context(), source.Files("a[1].log", "[b")))
	require.Equal(t, []string{"[b", "a1.log", "a[1].log"}, f.got)
}

func TestAChannelIsASourceUntilItIsClosed(t *testing.T) {
	ch := make(chan int, 3)
	ch <- 1
	ch <- 2
	close(ch)
	f := &feeder[int]{}
	require.NoError(t, f.run(t.Context(), source.Chan(ch)))
	require.Equal(t, []int{1, 2}, f.got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.once(ctx, source.Chan(make(chan int))), context.Canceled)
}

func TestEveryLeavesOutTimesThatHavePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
		defer cancel()
		var at []time.Duration
		err := source.Every(time.Minute)(ctx, func(tick time.Time) error {
			at = append(at, tick.Sub(begin))
			if len(at) == 2 {
				time.Sleep(3*time.Minute + time.Second) // the stage is full
			}
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var want []time.Duration
		for _, minutes := range []int{1, 2, 6, 7, 8, 9, 10, 11} {
			want = append(want, time.Duration(minutes)*time.Minute)
		}
		require.Equal(t, want[:len(at)], at)
		require.GreaterOrEqual(t, len(at), 7)
	})
}

func TestAScheduleSubmitsEachTimeWhenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Round(0)
		times := []time.Time{begin.Add(time.Hour), begin.Add(26 * time.Hour)}
		var at []time.Time
		err := source.Schedule(func(after time.Time) time.Time {
			for _, next := range times {
				if next.After(after) {
					return next
				}
			}
			return time.Time{}
		})(t.Context(), func(tick time.Time) error {
			require.True(t, tick.Equal(time.Now()))
			at = append(at, tick)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, times, at)
	})
}

func TestARunOfAWrongSourceIsAFatalError(t *testing.T) {
	never := func(time.Time) error { return nil }
	require.True(t, isFatal(source.Every(0)(t.Context(), never)))
	require.True(t, isFatal(source.Every(-1)(t.Context(), never)))
	still := source.Schedule(func(after time.Time) time.Time { return after })
	require.True(t, isFatal(still(t.Context(), never)))
	require.True(t, isFatal(source.Lines(strings.NewReader(""), -1)(t.Context(), nil)))
	require.True(t, isFatal(source.Lines(nil, 0)(t.Context(), nil)))
	require.True(t, isFatal(source.Lines((*os.File)(nil), 0)(t.Context(), nil)), "the error of os.Open was ignored")
	require.True(t, isFatal(source.Seq[int](nil)(t.Context(), nil)))
	require.True(t, isFatal(source.Chan[int](nil)(t.Context(), nil)))
	require.True(t, isFatal(source.From[int](nil)(t.Context(), nil)))
	require.True(t, isFatal(source.Schedule(nil)(t.Context(), nil)))
	require.True(t, isFatal(source.Checkpoint[int](nil, 0, nil)(t.Context(), nil)))
	require.True(t, isFatal(source.Checkpoint(source.Slice([]int{1}), 0, nil)(t.Context(), nil)))
	require.NoError(t, source.Fatal(nil))
}
