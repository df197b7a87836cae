package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mainWith runs the program.
func mainWith(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestBadFlagsAreReportedInOneLine(t *testing.T) {
	rows := []struct {
		args []string
		want string
	}{
		{[]string{"-work", "W99"}, "bench: -work W99: unknown work; see -help\n"},
		{[]string{"-work", "W1,"}, "bench: -work \"W1,\": empty name\n"},
		{[]string{"-impl", "golda, ,chan"}, "bench: -impl \"golda, ,chan\": empty name\n"},
		{[]string{"-impl", "erlang"}, "bench: -impl erlang: unknown implementation; known are " +
			"golda, goldabatch, golda+flows, golda+registered, golda+metrics, golda+metrics50, direct, direct-all, chan, chanbatch, protoactor, watermill, pond, ants, conc\n"},
		{[]string{"-rounds", "0"}, "bench: -rounds 0: at least 1 round\n"},
		{[]string{"-rounds", "many"}, "bench: invalid value \"many\" for flag -rounds: parse error\n"},
		{[]string{"-strange"}, "bench: flag provided but not defined: -strange\n"},
		{[]string{"W1"}, "bench: stray argument \"W1\"; everything is set with flags, see -help\n"},
		{[]string{"-moment", "-report", "x.md"}, "bench: -moment and -report: a moment is too short for figures\n"},
		{
			[]string{"-moment", "-cpuprofile", "x", "-work", "W1", "-impl", "golda"},
			"bench: -moment and -cpuprofile: a moment is too short for a profile\n",
		},
		{
			[]string{"-cpuprofile", "x", "-work", "W1"},
			"bench: -cpuprofile: only of one work on one implementation; choose them with -work and -impl\n",
		},
		{
			[]string{"-report", "nowhere/x.md"},
			"bench: -report: stat nowhere: no such file or directory\n",
		},
		{
			[]string{"-cpuprofile", "nowhere/x", "-work", "W1", "-impl", "golda"},
			"bench: -cpuprofile: stat nowhere: no such file or directory\n",
		},
		{[]string{"-work", "W5", "-impl", "chanbatch"}, "bench: none of these implementations takes part in any of these works\n"},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			status, stdout, stderr := mainWith(t, row.args...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, stdout)
			assert.Equal(t, row.want, stderr)
		})
	}
}

func TestHelpListsTheWorksAndTheImplementations(t *testing.T) {
	status, stdout, stderr := mainWith(t, "-help")
	assert.Equal(t, statusOK, status)
	assert.Empty(t, stderr)
	for _, w := range works() {
		assert.Contains(t, stdout, w.title)
	}
	for _, i := range implementations() {
		assert.Contains(t, stdout, i.what)
	}
}

func TestFiguresArePrintedEvenIfTheirPageCannotBeWritten(t *testing.T) {
	c, err := parse([]string{"-work", "W1", "-impl", "golda", "-report", t.TempDir(), "-json"}, nil) // a directory, not a file
	require.NoError(t, err)
	s := newSuite(c, io.Discard)
	s.results[0].samples = []sample{{Commands: 1, Answered: 1, NsPerHop: 7}}
	var out bytes.Buffer
	require.Error(t, s.output(&out))
	assert.Contains(t, out.String(), `"ns_per_hop":7`)
}

func TestANameWithoutItsLetterSelectsBoth(t *testing.T) {
	chosen, err := chosenWorks(" W9, W1")
	require.NoError(t, err)
	var names []string
	for _, w := range chosen {
		names = append(names, w.name)
	}
	assert.Equal(t, []string{"W1", "W9p", "W9v"}, names)
}

func TestJSONIsOneObjectForEachWorkAndImplementation(t *testing.T) {
	status, stdout, stderr := mainWith(t, "-moment", "-json", "-rounds", "2", "-work", "W1,W7", "-impl", "golda,chan,direct")
	require.Equal(t, statusOK, status, stderr)
	var got []string
	for text := range strings.Lines(stdout) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		for _, key := range []string{
			"work", "impl", "ns_per_hop", "min", "max", "allocs_per_hop", "cpu_ns_per_command", "commands", "answered",
		} {
			assert.Contains(t, object, key)
		}
		assert.LessOrEqual(t, object["min"], object["ns_per_hop"])
		assert.LessOrEqual(t, object["ns_per_hop"], object["max"])
		assert.Equal(t, object["commands"], object["answered"])
		got = append(got, object["work"].(string)+" "+object["impl"].(string))
	}
	assert.Equal(t, []string{"W1 golda", "W1 direct", "W1 chan", "W7 golda", "W7 chan"}, got)
	assert.Len(t, strings.Split(strings.TrimSpace(stderr), "\n"), 10, "the progress output names each measurement")
}

func TestRoundsTakeTurns(t *testing.T) {
	c, err := parse([]string{"-work", "W8", "-impl", "golda,direct,chan"}, nil)
	require.NoError(t, err)
	s := newSuite(c, nil)
	rounds := make([]string, 7)
	for round := range rounds {
		rounds[round] = strings.Join(names(s.turns(c.works[0], round)), " ")
	}
	assert.Equal(t, []string{
		"golda direct chan", "chan direct golda", "direct chan golda", "golda chan direct",
		"chan golda direct", "direct golda chan", "golda direct chan",
	}, rounds)
}

func TestRivalsAreMeasuredSeveralTimesOneAfterTheOther(t *testing.T) {
	c, err := parse([]string{"-work", "W4", "-impl", "golda,chan,pond,protoactor"}, nil)
	require.NoError(t, err)
	s := newSuite(c, nil)
	second := s.turns(c.works[0], 1)
	assert.Equal(t, []string{
		"golda", "chan", "chan", "golda", "chan", "golda", "golda", "chan", "pond", "protoactor",
	}, names(second))
	var numbers []int
	for _, t := range second[:8] {
		numbers = append(numbers, t.number)
	}
	assert.Equal(t, []int{4, 4, 5, 5, 6, 6, 7, 7}, numbers)

	c, err = parse([]string{"-work", "W4", "-impl", "golda,pond"}, nil)
	require.NoError(t, err)
	s = newSuite(c, nil)
	assert.Len(t, s.turns(c.works[0], 0), 2, "an implementation without a rival is measured once")
}

func names(all []turn) (names []string) {
	for _, t := range all {
		names = append(names, t.impl.name)
	}
	return names
}

// Among 10,000 draws of n values the true median is in the span at least as often as promised.
func TestTheMedianIsInTheSpanInNineteenOfTwentyCases(t *testing.T) {
	for _, n := range []int{6, 7, 12, 16, 20, 60} {
		dice, in := rand.New(rand.NewPCG(1, uint64(n))), 0
		const draws = 10_000
		for range draws {
			values := make([]float64, n)
			for i := range values {
				values[i] = dice.ExpFloat64() // its median is ln 2
			}
			slices.Sort(values)
			if least, most := span(values); least <= math.Ln2 && math.Ln2 <= most {
				in++
			}
		}
		assert.GreaterOrEqual(t, in, draws*94/100, "%d values", n) // 95 %, minus chance
	}
	least, most := span([]float64{1, 2, 3, 4, 5})
	assert.InDelta(t, 1, least, 0)
	assert.InDelta(t, 5, most, 0, "with five values nothing can be left out")
	least, most = span([]float64{7})
	assert.InDelta(t, 7, least, 0)
	assert.InDelta(t, 7, most, 0)
}

// A machine that is three times slower in some turns does not change the ratio.
func TestATargetComparesMeasurementsOfTheSameTurn(t *testing.T) {
	s := made(t, map[string][]sample{"W4 golda": ns(100, 300, 100, 300), "W4 chan": ns(110, 330, 110, 330)})
	s.find("W4", "chan").samples = s.find("W4", "chan").samples[1:] // one measurement failed
	assert.Equal(t, []string{"W4: at least the throughput of channels", "1.10", "-", "yes"}, s.targetTable().rows[0])
}

// made returns a suite with known figures.
func made(t *testing.T, figures map[string][]sample) *suite {
	t.Helper()
	c, err := parse(nil, nil)
	require.NoError(t, err)
	s := &suite{config: c, begin: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	for _, w := range works() {
		for _, i := range implementations() {
			if samples, ok := figures[w.name+" "+i.name]; ok {
				for turn := range samples {
					samples[turn].turn = turn
				}
				s.results = append(s.results, &result{work: w, impl: i, samples: samples})
			}
		}
	}
	return s
}

func ns(all ...float64) (samples []sample) {
	for _, x := range all {
		samples = append(samples, sample{NsPerHop: x, Commands: 10, Answered: 10})
	}
	return samples
}

func TestRatiosAreThoseOfMedians(t *testing.T) {
	s := made(t, map[string][]sample{"W1 golda": ns(10, 90, 20), "W1 chan": ns(100, 80, 1000), "W1 direct": ns(4, 6)})
	w, _ := workNamed("W1")
	var rows []string
	for _, row := range s.table(w).rows {
		rows = append(rows, strings.Join(row[:5], " "))
	}
	assert.Equal(t, []string{
		"direct 5.00 4.00-6.00 0.25 0.05",
		"golda 20.0 10.0-90.0 1.00 0.20",
		"chan 100 80.0-1,000 5.00 1.00",
	}, rows)
}

func TestTargetsAreMetOrMissedByTheFigures(t *testing.T) {
	figures := map[string][]sample{
		"W1 golda": {{NsPerHop: 30, CPUPerCommand: 100, AllocsPerHop: 0.004}}, "W2 golda": {{AllocsPerHop: 0.01}}, "W1 chan": ns(100), "W1 direct": ns(7.4),
		"W1 golda+metrics": {{NsPerHop: 31, CPUPerCommand: 102}}, "W1 golda+metrics50": ns(60),
		"W3 golda": ns(100), "W3 direct-all": ns(95),
		"W4 golda": ns(101, 90, 120), "W4 chan": ns(100, 100, 100),
		"W5 golda": {{P50: 110, P99: 1200}}, "W5 chan": {{P50: 100, P99: 999}},
		"W6 golda":  {{Commands: 100, Answered: 100}, {Commands: 100, Answered: 99}},
		"W7 golda":  {{FreshBytesPerStage: 10_000, BytesPerStage: 10_001}},
		"W11 golda": ns(160), "W11 chan": ns(100),
	}
	var got []string
	for _, row := range made(t, figures).targetTable().rows {
		got = append(got, strings.Join(append([]string{strings.SplitN(row[0], ":", 2)[0]}, row[1:]...), " "))
	}
	assert.Equal(t, []string{
		"W1 0.30 - yes", "W1 4.05 - no", "W1 0 - yes", "W2 0.01 - no", "W3 0.95 - yes", "W4 0.99 0.83-1.11 no", "W5 1.10 - yes", "W5 1.20 - no",
		"W6 199 of 200 - no", "W7 10,000 - yes", "W7 10,001 - no", "W7 0 - yes",
		"W1 1.03 - no", "W1 1.02 - yes", "W1 1.0200 - yes", "W11 1.60 - no",
	}, got, "targets that were not measured are left out")
}

func TestATargetThatTheProcessorDecidesSaysSo(t *testing.T) {
	figures := map[string][]sample{"W14 golda": ns(110), "W14 chan": ns(100)}
	for name, want := range map[string]bool{"AMD EPYC 9R14": true, "Intel(R) Xeon(R) Processor": false} {
		v, known := w14(name).measure(made(t, figures))
		assert.True(t, known)
		assert.Equal(t, want, v.met, name)
	}
}

func TestTheReportHasTheSameFormForAnyFigures(t *testing.T) {
	page := func(x float64) string {
		file := filepath.Join(t.TempDir(), "performance.md")
		s := made(t, map[string][]sample{"W1 golda": ns(x), "W1 chan": ns(2 * x), "W5 pond": nil})
		s.results[2].failures = []error{errors.New("W5 of pond: too late")}
		s.report, s.json = file, true
		require.NoError(t, s.output(io.Discard))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	digits := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r == '.' || r == ',' {
				return -1
			}
			return r
		}, s)
	}
	one := page(30)
	assert.Equal(t, digits(one), digits(page(77)))
	assert.Contains(t, one, "| W1: a hop costs at most 0.30 of channels | 0.50 | - | no |")
	assert.Contains(t, one, "### W1: five stages that do nothing, one worker each\n\n| implementation | ns per hop | min-max |")
	assert.Contains(t, one, "\n- In 1 of 1 measurements have no figure. W5 of pond: too late.\n\n")
	assert.Contains(t, one, "2026-11-21")
	for _, i := range implementations() {
		assert.Contains(t, one, "| "+i.name+" | "+i.what+" | "+i.promise.bound)
	}
}

func TestOneRoundIsWrittenInTheSingular(t *testing.T) {
	for rounds, want := range map[int]string{1: "1 round on ", 2: "2 rounds on "} {
		s := &suite{config: config{rounds: rounds}}
		assert.True(t, strings.HasPrefix(s.method(), want), s.method())
	}
}

func TestAGeneratorThatIsTooOftenLateHasMissedItsSchedule(t *testing.T) {
	r := record{lateness: make([]time.Duration, 200)}
	r.lateness[7], r.lateness[8] = lateBy+1, time.Second
	require.NoError(t, r.missed(), "one in a hundred may be late")
	r.lateness[9] = lateBy + 1
	err := r.missed()
	require.ErrorIs(t, err, errMissed)
	require.EqualError(t, err, "the generator missed its schedule: 1.5 % of the requests were sent more than 10ms late")

	text, err := json.Marshal(report{Error: err.Error(), Missed: true})
	require.NoError(t, err)
	_, err = read(text)
	require.ErrorIs(t, err, errMissed, "the parent gets the same error")
	require.EqualError(t, err, "the generator missed its schedule: 1.5 % of the requests were sent more than 10ms late")
}

func TestRequestsAreSentInTimeAlthoughAnswersAreSlow(t *testing.T) {
	const n = 50
	var open sync.WaitGroup
	open.Add(n)
	r, err := schedule(n, time.Millisecond, func(int) error {
		open.Done()
		open.Wait() // no request is answered before all have been sent
		return nil
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, r.latency[0], (n-1)*time.Millisecond, "no request is sent before its time")
	for i, sent := range r.sinceSent() {
		assert.GreaterOrEqual(t, r.lateness[i], time.Duration(0))
		assert.GreaterOrEqual(t, sent, time.Duration(0))
		assert.Equal(t, r.latency[i], r.lateness[i]+sent)
	}
	_, err = schedule(3, time.Millisecond, func(i int) error {
		if i == 1 {
			return errors.New("no")
		}
		return nil
	})
	require.EqualError(t, err, "request 1: no")
}

func TestQuantilesOfLatency(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(99-i))
	}
	assert.InDelta(t, 50, quantile(all, 0.5), 0)
	assert.InDelta(t, 99, quantile(all, 0.99), 0)
	assert.InDelta(t, 7, quantile([]time.Duration{7}, 0.99), 0)
}

func TestADeadProcessIsAResultOnlyWhereCommandsPanic(t *testing.T) {
	ctx := context.Background()
	exit, words := errors.New("exit status 2"), "some line\npanic: boom\n\ngoroutine 7"
	s, err := deathResult(ctx, order{Work: "W6"}, exit, words)
	require.NoError(t, err)
	assert.Equal(t, sample{Commands: crashRequests, Died: "panic: boom"}, s)
	_, err = deathResult(ctx, order{Work: "W1"}, exit, words)
	require.EqualError(t, err, "exit status 2: panic: boom")
	_, err = deathResult(ctx, order{Work: "W6"}, exit, "")
	require.Error(t, err, "the reason is unknown")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = deathResult(ended, order{Work: "W6"}, exit, words)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAFailedMeasurementDoesNotAffectTheOthers(t *testing.T) {
	s := made(t, map[string][]sample{"W1 golda": ns(1), "W1 chan": nil})
	s.failures = []error{errors.New("W1 of chan: boom"), errors.New("W1 of pond: too late")}
	s.json = true
	var out, errs bytes.Buffer
	require.NoError(t, s.output(&out))
	assert.Equal(t, 1, strings.Count(out.String(), "\n"), "an implementation that always failed has no row")
	assert.Equal(t, statusFailed, s.verdict(&errs))
	assert.Equal(t, "bench: W1 of chan: boom\nbench: W1 of pond: too late\n", errs.String())
}

func TestAnInterruptedRunReportsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, statusInterrupted, run(ctx, []string{"-moment", "-work", "W1"}, &out, &errs))
	assert.Empty(t, out.String())
	assert.Equal(t, "bench: interrupted\n", errs.String())
}

func TestNumbersHaveTheirSignificantDigits(t *testing.T) {
	rows := map[float64]string{0: "0", 0.001: "0", 0.014: "0.01", 3.456: "3.46", 34.56: "34.6", 345.6: "346", 1234567: "1,234,567", 12345: "12,345"}
	for x, want := range rows {
		assert.Equal(t, want, number(x))
	}
	assert.Equal(t, "-123", grouped(-123))
	assert.Equal(t, "-1,234", grouped(-1234))
}
