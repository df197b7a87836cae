package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reugn/go-streams/extension"
	streams "github.com/reugn/go-streams/flow"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// hit is a request that a host has answered.
type hit struct {
	at    time.Time
	host  string
	bytes int
}

func (h hit) when() time.Time { return h.at }

func (h hit) by() string { return h.host }

func plusBytes(sum int, h hit) int { return sum + h.bytes }

// minuteOf is a window: a minute of a host.
type minuteOf struct {
	minute int64
	host   string
}

// parseHit reads a line such as "2026-11-01T00:00:13Z host-07 5127".
func parseHit(_ context.Context, line string) (h hit, err error) {
	fields := strings.Fields(line)
	if h.at, err = time.Parse(time.RFC3339, fields[0]); err != nil {
		return h, err
	}
	h.host = fields[1]
	h.bytes, err = strconv.Atoi(fields[2])
	return h, err
}

// hitLines returns n lines of 20 hosts, 2,000 a minute, each at most a minute
// out of order, and the hits in the lines.
func hitLines(n int) (lines []string, hits []hit) {
	for i := range n {
		h := hit{time.Unix(int64(1_793_491_200+i*60/2000-i*7919%60), 0).UTC(), "host-" + strconv.Itoa(i*31%20), i % 5000}
		hits = append(hits, h)
		lines = append(lines, fmt.Sprintf("%s %s %d", h.at.Format(time.RFC3339), h.host, h.bytes))
	}
	return lines, hits
}

// An aggregation gives the sum of each window.
type aggregation func(t testing.TB, lines []string, hits []hit) map[minuteOf]int

var eventTime = []struct {
	name string
	run  aggregation
}{
	{"of=values/by=loop", func(_ testing.TB, _ []string, hits []hit) map[minuteOf]int {
		sums := map[minuteOf]int{}
		for _, h := range hits {
			sums[minuteOf{h.at.Unix() / 60, h.host}] += h.bytes
		}
		return sums
	}},
	{"of=values/by=golda", func(t testing.TB, _ []string, hits []hit) map[minuteOf]int {
		of := goldaMinutes()
		return goldaSums(t, of, pipeline.Feed("hits", of.Stage, source.Slice(hits)))
	}},
	{"of=lines/by=loop", func(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
		sums := map[minuteOf]int{}
		for _, line := range lines {
			h, err := parseHit(t.Context(), line)
			require.NoError(t, err)
			sums[minuteOf{h.at.Unix() / 60, h.host}] += h.bytes
		}
		return sums
	}},
	{"of=lines/by=golda", func(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
		return parsedSums(t, source.Slice(lines))
	}},
	{"of=lines/by=golda-alone", func(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
		return parsedSums(t, alone(source.Slice(lines)))
	}},
	{"of=text/by=golda", func(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
		return parsedSums(t, source.Lines(strings.NewReader(strings.Join(lines, "\n")), 0))
	}},
	{"of=text/by=golda-alone", func(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
		return parsedSums(t, alone(source.Lines(strings.NewReader(strings.Join(lines, "\n")), 0)))
	}},
	{"of=lines/by=go-streams", streamsSums},
}

// parsedSums has Golda parse the lines in a stage of their own.
func parsedSums(t testing.TB, lines source.Source[string]) map[minuteOf]int {
	t.Helper()
	of := goldaMinutes()
	parse := stage.Map("parse", parseHit, stage.Ordered(), stage.Batch(256), stage.Capacity(1024))
	return goldaSums(t, of, parse.To(of), pipeline.Feed("lines", parse, lines))
}

// alone returns a source whose commands are submitted one by one.
func alone(src source.Source[string]) source.Source[string] {
	return func(ctx context.Context, submit func(string) error) error {
		return src(ctx, func(line string) error { return submit(line) })
	}
}

func goldaMinutes() *stage.Flow[hit, event.Window[string, int]] {
	sum := event.Sum(hit.when, hit.by, plusBytes)
	return event.Tumbling("bytes", time.Minute, sum, event.Watermark[hit]{Disorder: time.Minute}, stage.Batch(256), stage.Capacity(1024))
}

func goldaSums(t testing.TB, of *stage.Flow[hit, event.Window[string, int]], parts ...pipeline.Part) map[minuteOf]int {
	t.Helper()
	sums := map[minuteOf]int{}
	end := stage.Sink("end", func(_ context.Context, w event.Window[string, int]) error {
		sums[minuteOf{w.Start.Unix() / 60, w.Key}] += w.Value
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("minutes", append(parts, of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	return sums
}

// streamsSums has the windows of go-streams, which puts a command into a window
// by the command's time, but ends a window by the clock. When its input ends it
// passes on one window and drops the rest. So a recorded day needs a day.
func streamsSums(t testing.TB, lines []string, _ []hit) map[minuteOf]int {
	t.Helper()
	in, out := make(chan any), make(chan any)
	minutes := streams.NewSlidingWindowWithOpts[hit](time.Minute, time.Minute, streams.SlidingWindowOpts[hit]{
		EventTimeExtractor: hit.when, EmitPartialWindow: true, AllowedLateness: time.Minute,
	})
	parse := func(line string) hit {
		h, err := parseHit(t.Context(), line)
		require.NoError(t, err)
		return h
	}
	go func() {
		defer close(in)
		for _, line := range lines {
			in <- line
		}
	}()
	go extension.NewChanSource(in).Via(streams.NewMap(parse, 1)).Via(minutes).To(extension.NewChanSink(out))
	sums := map[minuteOf]int{}
	for window := range out {
		for _, h := range window.([]hit) {
			sums[minuteOf{h.at.Unix() / 60, h.host}] += h.bytes
		}
	}
	return sums
}

// BenchmarkEventTime compares the CPU time of an aggregation by minute and host:
// a loop, Golda, and go-streams, in turns. Golda-alone is a source whose commands
// are submitted one by one. The share is of the windows that are right.
//
//	go -C bench test -run - -bench EventTime -benchtime 1x
func BenchmarkEventTime(b *testing.B) {
	const n, rounds = 300_000, 7
	lines, hits := hitLines(n)
	cpu, share := make([][]float64, len(eventTime)), make([]float64, len(eventTime))
	for b.Loop() {
		for range rounds {
			var right map[minuteOf]int
			for i, by := range eventTime {
				before := cpuTime()
				sums := by.run(b, lines, hits)
				cpu[i] = append(cpu[i], float64(cpuTime()-before)/n)
				if i == 0 {
					right = sums
				}
				share[i] = shareOf(right, sums)
			}
		}
	}
	for i, by := range eventTime {
		slices.Sort(cpu[i])
		b.ReportMetric(cpu[i][len(cpu[i])/2], by.name+"-ns/cmd")
		b.ReportMetric(share[i], by.name+"-share")
	}
}

// shareOf returns which share of the sums is right.
func shareOf(right, sums map[minuteOf]int) float64 {
	same := 0
	for w, sum := range right {
		if sums[w] == sum {
			same++
		}
	}
	return float64(same) / float64(len(right))
}

func TestGoldaHasTheWindowsOfTheLoop(t *testing.T) {
	lines, hits := hitLines(20_000)
	right := eventTime[0].run(t, lines, hits)
	for _, by := range eventTime {
		if !strings.HasSuffix(by.name, "go-streams") {
			require.Equal(t, right, by.run(t, lines, hits), by.name)
		}
	}
}
