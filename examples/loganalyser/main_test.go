package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/twin"
	"github.com/golda-dev/golda/examples/internal/usage"
)

// crashing is how many lines the log has whose parser crashes in 1 % of its calls.
const crashing = 20_000

func TestMain(m *testing.M) {
	twin.Main(map[string]twin.Work{
		"golda": func() error { return count(analyse, crashing, 0.01, os.Stdout) },
		"hand":  func() error { return count(byHand, crashing, 0.01, os.Stdout) },
	})
	goleak.VerifyTestMain(m)
}

// analyser is analyse or its twin.
type analyser = func(ctx context.Context, log *input, crash float64, progress io.Writer) (*report, error)

// count analyses a generated log, and writes the report.
func count(f analyser, n int, crash float64, w io.Writer) error {
	log := &input{from: newGenerator(n, 10_000, 0.001, 1)}
	sum, err := f(context.Background(), log, crash, nil)
	if err != nil {
		return err
	}
	return sum.write(w, n, log.read.Load())
}

func TestTheResultIsThatOfTheTwin(t *testing.T) {
	for _, n := range []int{0, 1, 2, 50_000} {
		var golda, hand strings.Builder
		require.NoError(t, count(analyse, n, 0, &golda))
		require.NoError(t, count(byHand, n, 0, &hand))
		require.Equal(t, hand.String(), golda.String(), "%d lines", n)
	}
}

func TestNoLineIsLostWhenTheParserCrashes(t *testing.T) {
	var crashed, sound strings.Builder
	require.NoError(t, count(analyse, 20_000, 0.2, &crashed))
	require.NoError(t, count(analyse, 20_000, 0, &sound))
	assert.Equal(t, sound.String(), crashed.String())
}

func TestALineWhoseParserCrashesTenTimesIsBad(t *testing.T) {
	var out strings.Builder
	require.NoError(t, count(analyse, 20_000, 0.45, &out), "each line is counted, or bad: about 7 more than in the log")
	assert.Contains(t, out.String(), "lines: 20000, counted: ")
}

func TestAReportOfALogWithALostLineIsAnError(t *testing.T) {
	sum := newReport()
	sum.merge("10.1.0.1", totals{requests: 2})
	sum.reject(line{3, "x"}, io.ErrUnexpectedEOF)
	require.NoError(t, sum.write(io.Discard, 1, 3))
	require.EqualError(t, sum.write(io.Discard, 1, 4), "4 lines were read, and 3 counted")
	require.EqualError(t, sum.write(io.Discard, 1, 2), "2 lines were read, and 3 counted")
}

func TestTheTable(t *testing.T) {
	var want strings.Builder
	require.NoError(t, count(byHand, crashing, 0, &want))
	golda, errs, status := twin.Child(t, "golda")
	require.Zero(t, status, errs)
	require.Equal(t, want.String(), golda, "with crashes and without")
	hand, errs, status := twin.Child(t, "hand")
	require.Equal(t, 2, status)
	require.Empty(t, hand)
	require.Contains(t, errs, "panic: the parser crashed")

	const n = 300_000
	var log bytes.Buffer
	_, err := log.ReadFrom(newGenerator(n, 10_000, 0.001, 1))
	require.NoError(t, err)
	work := func(f analyser) twin.Work {
		return func() error {
			_, err := f(t.Context(), &input{from: bytes.NewReader(log.Bytes())}, 0, nil)
			return err
		}
	}
	rows := twin.Code(t, "analyse.go", "twin_test.go", "main.go", "parse.go", "report.go", "source.go")
	rows = append(rows, twin.Cost(t, "line", n, work(analyse), work(byHand))...)
	twin.Check(t, append(rows, twin.Row{
		Name:  twin.Thousands(crashing) + " lines, the parser panics in 1 % of its calls",
		Golda: "no line is lost",
		Hand:  "the process ends with status 2; no line is counted",
	}))
}

// analysed runs the program.
func analysed(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), append([]string{"-quiet"}, args...), stdin, &out, &err)
	return status, out.String(), err.String()
}

const sample = `192.168.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2500000
10.2.0.9 - amy [10/Oct/2000:13:55:36 -0700] "GET /b HTTP/1.0" 404 -

192.168.0.1 - - [10/Oct/2000:13:55:37 -0700] "GET /c HTTP/1.0" 503 500000 "-" "curl"
somewhere - - [10/Oct/2000:13:55:37 -0700] "GET /d HTTP/1.0" 200 1
::1 - - [10/Oct/2000:13:55:37 -0700] "GET /e HTTP/1.0" 2OO 1
::1 - - [10/Oct/2000:13:55:37 -0700] "GET /f HTTP/1.0" 200 -1
8.8.8.8 - - [10/Oct/2000:13:55:38 -0700] "GET /g HTTP/1.0" 301 0`

const sampled = `host         network    requests  MB   2xx  3xx  4xx  5xx
192.168.0.1  guests     2         3.0  1    0    0    1
10.2.0.9     warehouse  1         0.0  0    0    1    0
all 3                   4         3.0  1    1    1    1
lines: 8, counted: 4, bad: 4
  line 3: 0 fields; at least 10 are needed: ""
  line 5: host "somewhere" is no address: "somewhere - - [10/Oct/2000:13:55:37 -0700] \"GET /d HTTP/1.0\" 200 1"
  line 6: status "2OO" is not from 100 to 599: "::1 - - [10/Oct/2000:13:55:37 -0700] \"GET /e HTTP/1.0\" 2OO 1"
  line 7: size "-1" is no number of bytes: "::1 - - [10/Oct/2000:13:55:37 -0700] \"GET /f HTTP/1.0\" 200 -1"
`

func TestALogIsReadFromAFileOrTheStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(file, []byte(sample), 0o600))
	for name, args := range map[string][]string{"a file": {file}, "the standard input": {"-"}} {
		status, out, errs := analysed(t, strings.NewReader(sample), append([]string{"-top", "2"}, args...)...)
		require.Equal(t, show.StatusOK, status, errs)
		assert.Equal(t, sampled, out, name)
	}
}

func TestAnInputThatCannotBeReadIsAnError(t *testing.T) {
	long := strings.Repeat("x", 1<<21)
	cases := map[string]struct {
		in   io.Reader
		file string
		want string
	}{
		"a missing file":      {nil, "missing.log", "no such file"},
		"a directory":         {nil, ".", "line 1: read .: is a directory"},
		"a reader that fails": {iotest.TimeoutReader(strings.NewReader(sample)), "-", "timeout"},
		"a line of 2 MB":      {strings.NewReader("a\n" + long + "\n"), "-", "line 2: bufio.Scanner: token too long"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, out, errs := analysed(t, c.in, c.file)
			assert.Equal(t, show.StatusFailed, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, c.want)
		})
	}
}

func TestAnInterruptEndsTheAnalysis(t *testing.T) {
	for name, f := range map[string]analyser{"golda": analyse, "by hand": byHand} {
		ctx, cancel := context.WithCancel(t.Context())
		endless := io.MultiReader(strings.NewReader(sample), &forever{cancel})
		_, err := f(ctx, &input{from: endless}, 0, nil)
		require.ErrorIs(t, err, context.Canceled, name)
	}
}

// forever is a log without end, whose reader interrupts the program.
type forever struct{ interrupt func() }

func (f *forever) Read(p []byte) (int, error) {
	f.interrupt()
	return copy(p, "bad\n"), nil
}

func TestProgressIsWrittenWhileALogIsRead(t *testing.T) {
	in, out := io.Pipe()
	lines, progress := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := analyse(t.Context(), &input{from: in}, 0, progress)
		done <- err
	}()
	_, err := io.WriteString(out, sample+"\n")
	require.NoError(t, err)
	first := make([]byte, 100)
	n, err := lines.Read(first)
	require.NoError(t, err)
	assert.Equal(t, "8 lines read\n", string(first[:n]))
	require.NoError(t, lines.Close())
	require.NoError(t, out.Close())
	require.NoError(t, <-done)
}

// program runs the program without a standard input.
func program(ctx context.Context) usage.Program {
	return func(args []string, stdout, stderr io.Writer) int { return run(ctx, args, nil, stdout, stderr) }
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, program(t.Context()), map[string][2]string{
		"an unknown flag": {"-no", "loganalyser: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-n -1 -hosts 0 -top -1 -bad 2 -crash 1 a b",
			"loganalyser: 2 files; one is read, or - for the standard input; -n -1: at least 0; -hosts 0: at least 1; -top -1: at least 0; " +
				"-bad 2: from 0 to 1; -crash 1: at least 0 and below 1\n",
		},
		"not a number": {"-bad NaN", "loganalyser: -bad NaN: from 0 to 1\n"},
	})
}

func TestHelpIsNoError(t *testing.T) { usage.Help(t, program(t.Context()), "loganalyser sums up") }
