package event_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// parseHit reads a line such as "2026-11-01T00:00:13Z host-07 5127".
func parseHit(_ context.Context, line string) (h hit, err error) {
	fields := strings.Fields(line)
	at, err := time.Parse(time.RFC3339, fields[0])
	if err != nil {
		return h, err
	}
	h.At, h.Host = int(at.Unix()), fields[1]
	h.Bytes, err = strconv.Atoi(fields[2])
	return h, err
}

// someHits returns so many commands of 20 hosts, 2,000 a minute, each at most a minute out of order, and their lines.
func someHits(n int) (hits []hit, lines []string) {
	for i := range n {
		h := hit{1_793_491_200 + i*60/2000 - i*7919%60, "host-" + strconv.Itoa(i*31%20), i % 5000}
		hits = append(hits, h)
		lines = append(lines, fmt.Sprintf("%s %s %d", h.time().UTC().Format(time.RFC3339), h.Host, h.Bytes))
	}
	return hits, lines
}

type minuteOf struct {
	minute int
	host   string
}

// BenchmarkCost compares the CPU time of an aggregation by minute and host with that of a loop with a map, round by round in turns.
// Values are commands as they come from a slice; lines are parsed first, in a stage of their own.
//
//	go test -run '^$' -bench Cost -benchtime 1x ./window/event
func BenchmarkCost(b *testing.B) {
	const n, rounds = 300_000, 7
	hits, lines := someHits(n)
	add := func(sums map[minuteOf]int, h hit) { sums[minuteOf{h.At / 60, h.Host}] += h.Bytes }
	piped := func(b *testing.B, of *stage.Flow[hit, result], parts ...pipeline.Part) int {
		windows := 0
		end := stage.Sink("end", func(context.Context, result) error {
			windows++
			return nil
		}, stage.Workers(1, 1))
		p, err := pipeline.New("bench", append(parts, of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
		require.NoError(b, err)
		require.NoError(b, p.Run(b.Context()))
		return windows
	}
	flow := func() *stage.Flow[hit, result] {
		return event.Tumbling("bytes", time.Minute, bytesOf(), event.Watermark[hit]{Disorder: time.Minute}, stage.Batch(256), stage.Capacity(1024))
	}
	for name, both := range map[string][2]func(b *testing.B) int{
		"of=values": {func(*testing.B) int {
			sums := map[minuteOf]int{}
			for _, h := range hits {
				add(sums, h)
			}
			return len(sums)
		}, func(b *testing.B) int {
			of := flow()
			return piped(b, of, pipeline.Feed("hits", of.Stage, source.Slice(hits)))
		}},
		"of=lines": {func(b *testing.B) int {
			sums := map[minuteOf]int{}
			for _, line := range lines {
				h, err := parseHit(b.Context(), line)
				require.NoError(b, err)
				add(sums, h)
			}
			return len(sums)
		}, func(b *testing.B) int {
			of := flow()
			parsed := stage.Map("parse", parseHit, stage.Ordered(), stage.Batch(256), stage.Capacity(1024))
			return piped(b, of, parsed.To(of), pipeline.Feed("lines", parsed, source.Slice(lines)))
		}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var loop, pipe, ratios []float64
				for range rounds {
					l, windows := cost(b, both[0])
					p, others := cost(b, both[1])
					require.Equal(b, windows, others)
					loop, pipe, ratios = append(loop, l/n), append(pipe, p/n), append(ratios, p/l)
				}
				b.ReportMetric(median(loop), "ns-loop/cmd")
				b.ReportMetric(median(pipe), "ns-pipe/cmd")
				b.ReportMetric(median(ratios), "ratio")
			}
		})
	}
}

// cost returns the CPU time of f in nanoseconds, and its result.
func cost(b *testing.B, f func(*testing.B) int) (ns float64, result int) {
	before, known := cputime.Used()
	if !known {
		b.Skip("the CPU time is not known here")
	}
	result = f(b)
	after, _ := cputime.Used()
	return float64(after - before), result
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
